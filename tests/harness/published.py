"""The published descriptions of the protocol's answers, for checkouts that have them beside the project."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FOLDER: Final = Path(__file__).parents[3] / "shared" / "specs"
FILES: Final = {"/api": "control-plane-api.openapi.yaml", "/api/worker": "worker-protocol-api.openapi.yaml"}
BASE: Final = "https://specs.test/"

_PARAMETER = re.compile(r"\{[^}]*\}")


@cache
def published() -> Published | None:
    """The descriptions, None in a checkout without them."""
    return Published(FOLDER) if FOLDER.is_dir() else None


class Published:
    """Validators of answers by route and status."""

    def __init__(self, folder: Path) -> None:
        files = [*folder.glob("*.json"), *folder.glob("*.yaml")]
        documents = {file.name: yaml.safe_load(file.read_text("utf-8")) for file in files}
        self._documents = {prefix: documents[name] for prefix, name in FILES.items()}
        self._registry: Registry[Any] = Registry().with_resources(
            (f"{BASE}{name}", DRAFT202012.create_resource(document)) for name, document in documents.items()
        )
        self._validators: dict[tuple[str, str, int], Any] = {}

    def complaint(self, method: str, path: str, status: int, body: Any) -> str | None:
        """What a decoded answer lacks, in one line; None when it fits or is not described. ``path`` is a template."""
        key = (method.lower(), _PARAMETER.sub("{}", path), status)
        if key not in self._validators:
            self._validators[key] = self._validator(*key)
        validator = self._validators[key]
        if validator is None:
            return None
        error = jsonschema.exceptions.best_match(validator.iter_errors(body))
        return None if error is None else f"{'/'.join(map(str, error.absolute_path))}: {error.message[:160]}"

    def _validator(self, method: str, path: str, status: int) -> Any:
        for prefix, document in self._documents.items():
            for template, item in document["paths"].items():
                full = _PARAMETER.sub("{}", template if template.startswith("/api") else prefix + template)
                if full != path or method not in item:
                    continue
                pointer = f"/paths/{template.replace('~', '~0').replace('/', '~1')}/{method}/responses"
                answers = item[method]["responses"]
                name = next((n for n in (str(status), f"{status // 100}XX", "default") if n in answers), None)
                if name is None:
                    return None
                answer = answers[name]
                pointer += f"/{name}"
                while "$ref" in answer:
                    pointer = answer["$ref"].removeprefix("#")
                    answer = document
                    for part in pointer.strip("/").split("/"):
                        answer = answer[part.replace("~1", "/").replace("~0", "~")]
                if "application/json" not in answer.get("content", {}):
                    return None
                schema = {"$ref": f"{BASE}{FILES[prefix]}#{pointer}/content/application~1json/schema"}
                return jsonschema.Draft202012Validator(schema, registry=self._registry)
        return None
