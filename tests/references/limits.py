"""The limits as a page of Markdown, from the constants and their descriptions in :mod:`dw_core.limits`."""

from __future__ import annotations

import ast
import inspect
import re

import msgspec

from dw_core import limits
from dw_core.limits import Limits

_INTRODUCTION = """\
# Limits

Generated from the limits of the server; do not edit. A request that exceeds one is refused by name and changes nothing.

## Set by the operator

The [settings](settings.md) say which variable changes which; `GET /api/cluster/info` says what holds on a server.

| limit | default |
|---|---|
"""

_FIXED = """
## Fixed

| limit | value | what it bounds |
|---|---|---|
"""


def render() -> str:
    """The whole page."""
    fields = msgspec.structs.fields(Limits)
    settable = [f"| `{field.name}` | {_number(field.default)} |" for field in fields]
    fixed = [f"| `{name}` | {_number(value)} | {doc} |" for name, value, doc in _constants()]
    return _INTRODUCTION + "\n".join(settable) + "\n" + _FIXED + "\n".join(fixed) + "\n"


def _constants() -> list[tuple[str, object, str]]:
    """The module's constants; a description stands below the last constant that it is about."""
    found: list[tuple[str, object, str]] = []
    waiting: list[str] = []
    for node in ast.parse(inspect.getsource(limits)).body:
        name = _constant(node)
        if name is not None:
            waiting.append(name)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and waiting:
            text = re.sub(r"\s+", " ", str(node.value.value)).replace("``", "`")
            found += [(name, getattr(limits, name), re.sub(r" ?\((?:[a-z-]+ )?§[^)]*\)", "", text)) for name in waiting]
            waiting = []
        else:
            waiting = []
    return [row for row in found if isinstance(row[1], int | float)]


def _constant(node: ast.stmt) -> str | None:
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) and target.id.isupper() else None


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
