"""The named statements of the ``.sql`` files beside this module."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Every statement by name. A name may stand in one file only."""
    found: dict[str, str] = {}
    for file in sorted((files(__package__) / "sql").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in found, f"the statement {name} is defined twice"
            found[name] = text.strip().rstrip(";")
    return found
