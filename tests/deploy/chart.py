"""The chart, rendered by Helm's own engine without a cluster, and what tests ask of the result."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "durable-workflow"
CI = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*.yaml"))

FULL_NAME = "dw-durable-workflow"

Object = dict[str, Any]
Values = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Rendered:
    """The objects of one rendering in their order, and the notes."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.notes = next(text for name, text in texts.items() if name.endswith("NOTES.txt"))
        self.objects: list[Object] = [
            document
            for name, text in sorted(texts.items())
            if not name.endswith("NOTES.txt")
            for document in yaml.load_all(text, _LOADER)
            if document is not None
        ]

    def of_kind(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [it for it in self.objects if it["kind"] == kind]

    def one(self, kind: str, suffix: str = "") -> Object:
        """The only object of a kind whose name ends like this, without the name of the release."""
        (found,) = [
            it for it in self.of_kind(kind) if it["metadata"]["name"].removeprefix("dw-durable-workflow") == suffix
        ]
        return found

    def container(self, suffix: str) -> Object:
        """The server's container of a Deployment."""
        found: Object = self.one("Deployment", suffix)["spec"]["template"]["spec"]["containers"][0]
        return found

    def env(self, suffix: str) -> dict[str, Any]:
        """Its variables: the value, or where it comes from."""
        return variables(self.container(suffix))


def variables(container: Object) -> dict[str, Any]:
    """The variables of a container; each name is set once."""
    named = [it["name"] for it in container.get("env", ())]
    assert len(named) == len(set(named)), named
    return {it["name"]: it.get("value", it.get("valueFrom")) for it in container.get("env", ())}


@functools.cache
def chart() -> helm_python.Chart:
    """The chart, loaded once."""
    return helm_python.Chart.load(CHART)


@functools.cache
def ci_values(name: str) -> str:
    """A set of values of the folder ``ci`` as JSON."""
    return json.dumps(yaml.load((CHART / "ci" / f"{name}-values.yaml").read_text(), _LOADER))


@functools.cache
def _rendered(values: str, revision: int, is_upgrade: bool) -> Rendered:
    texts = chart().render(
        json.loads(values),
        name="dw",
        namespace="prod",
        revision=revision,
        is_install=not is_upgrade,
        is_upgrade=is_upgrade,
    )
    return Rendered(texts)


def merged(base: str, overrides: Values) -> Values:
    """A set of values of ``ci`` with others over it; None stays and removes, as in Helm."""

    def merge(under: Values, over: Values) -> Values:
        result = copy.deepcopy(under)
        for key, value in over.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merge(result[key], value) if both else value
        return result

    return merge(json.loads(ci_values(base)), overrides)


def render(base: str, overrides: Values | None = None, *, revision: int = 1, is_upgrade: bool = False) -> Rendered:
    """Render a set of values of ``ci`` with others over it; rendered once, so do not change the result."""
    return _rendered(json.dumps(merged(base, overrides or {}), sort_keys=True), revision, is_upgrade)


def refusal(base: str, overrides: Values) -> str:
    """What Helm says to values that it must not render."""
    try:
        render(base, overrides)
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError("these values should be refused")


def pod_specs(rendered: Rendered) -> list[tuple[str, Object]]:
    """Name and pod specification of everything that runs pods."""
    specs = []
    for it in rendered.objects:
        if it["kind"] == "Pod":
            specs.append((it["metadata"]["name"], it["spec"]))
        elif it["kind"] in ("Deployment", "Job"):
            specs.append((it["metadata"]["name"], it["spec"]["template"]["spec"]))
    return specs


def server_containers(rendered: Rendered) -> list[tuple[str, Object]]:
    """Name of the object and container, for every container of the server's image."""
    return [
        (name, container)
        for name, spec in pod_specs(rendered)
        for container in [*spec.get("initContainers", ()), *spec["containers"]]
        if "durable-workflow-server" in container["image"]
    ]
