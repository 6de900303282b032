"""The configuration and the registry as text: ``check-config`` and the reference page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dw_runtime.settings.load import Loaded
from dw_runtime.settings.model import GROUPS, IGNORED, PARTS, REGISTRY
from dw_runtime.settings.urls import without_password
from dw_runtime.settings.variable import Declared

REDACTED = "(set, not shown)"


def effective(loaded: Loaded) -> str:
    """One line ``NAME=value`` per setting, with where the value came from; secrets are never shown."""
    lines = []
    for declared in REGISTRY:
        value = getattr(getattr(loaded.settings, declared.group), declared.field)
        source = loaded.sources.get(f"{declared.group}.{declared.field}", "default")
        origin = "" if source == declared.var.name else f"  ({source})"
        lines.append(f"{declared.var.name}={_shown(declared, value)}{origin}")
    return "\n".join(lines)


def _shown(declared: Declared, value: Any) -> str:
    if value is None:
        return ""
    if declared.var.is_secret:
        return without_password(value) if declared.var.name.endswith("_URL") else REDACTED
    return _spelled(value)


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def reference() -> str:
    """The settings reference as a Markdown page, generated from the registry."""
    return "\n".join([*_introduction(), *_tables(), *_other_names()]) + "\n"


def _introduction() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Generated from the settings registry; do not edit."
    yield ""
    yield "All settings are environment variables. An empty value counts as unset. A secret may also come from a file:"
    yield "append `_FILE` to its name and give the path. Every `DW_*` name still accepts its legacy spelling"
    yield "(`WORKFLOW_SERVER_*` or `WORKFLOW_*`) with a warning. An unknown `DW_*` name is reported at boot, stops the"
    yield "process when `DW_ENV_AUDIT_STRICT=1`, and is refused by `dw-server check-config`."


def _tables() -> Iterator[str]:
    for group, struct in GROUPS.items():
        yield ""
        yield f"## {group.replace('_', ' ').capitalize()}"
        yield ""
        yield re.sub(r"\s*\(topology [^)]*\)", "", struct.__doc__ or "").strip()
        yield ""
        yield "| Name | Type | Default | Meaning |"
        yield "|---|---|---|---|"
        for declared in REGISTRY:
            if declared.group == group:
                yield _row(declared)


def _row(declared: Declared) -> str:
    var = declared.var
    names = " or ".join(f"`{name}`" for name in (var.name, *var.also))
    kind = (
        "secret"
        if var.is_secret
        else {"int": "number", "str": "text", "bool": "true/false", "tuple": "list"}[declared.kind.__name__]
    )
    bounds = " to ".join(str(bound) for bound in (var.minimum, var.maximum) if bound is not None)
    if bounds and var.maximum is None:
        bounds = f"at least {bounds}"
    detail = ", ".join(part for part in (var.unit, bounds, " / ".join(var.choices)) if part)
    default = var.derived or ("unset" if declared.default is None else f"`{_spelled(declared.default)}`")
    default = "empty" if default == "``" else default
    return f"| {names} | {kind}{f' ({detail})' if detail else ''} | {default} | {var.doc} |"


def _other_names() -> Iterator[str]:
    yield ""
    yield "## Parts of store addresses"
    yield ""
    yield "Used only when the matching URL is unset; those that begin with `DB_SSL` and `REDIS_SSL` also hold for a URL"
    yield "that does not name the same parameter itself. Files of `REDIS_SSL…` need the scheme `rediss`."
    yield ""
    yield "| Name | Meaning |"
    yield "|---|---|"
    for name, doc in PARTS.items():
        yield f"| `{name}` | {doc} |"
    yield ""
    yield "## Accepted and ignored"
    yield ""
    yield "Known to other servers of this protocol, without meaning here: " + ", ".join(f"`{n}`" for n in IGNORED) + "."
    yield "`DW_AUTH_PROVIDER` is refused, because ignoring it would change who is let in."
