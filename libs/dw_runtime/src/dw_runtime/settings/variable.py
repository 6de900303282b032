"""One environment variable: how it is declared on a field and how its text becomes a value."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec


class SettingsError(Exception):
    """A configuration this process refuses to start with. The message is one or more complete sentences."""


class Var(msgspec.Struct, frozen=True):
    """The declaration of an environment variable.

    ``name`` is the variable; ``doc`` one sentence for operators; ``unit`` what a number counts (``bytes``);
    ``minimum``/``maximum`` inclusive bounds of numbers; ``choices`` the legal texts; ``is_secret`` values are never
    shown and may come from the file that ``<name>_FILE`` names; ``also`` further current spellings, tried in order
    after ``name``; ``derived`` says in words where an unset value comes from when it depends on other settings.
    """

    name: str
    doc: str
    unit: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    is_secret: bool = False
    also: tuple[str, ...] = ()
    derived: str = ""

    def legacy_names(self) -> tuple[str, ...]:
        """Older spellings of the ``DW_*`` names that still work as a fallback (topology §6.4)."""
        current = (name for name in (self.name, *self.also) if name.startswith("DW_"))
        return tuple(legacy for name in current for legacy in _legacy_names(name.removeprefix("DW_")))


class Declared(msgspec.Struct, frozen=True):
    """A variable together with the field that holds its value."""

    group: str
    field: str
    var: Var
    kind: type
    is_optional: bool
    default: Any


def _legacy_names(rest: str) -> tuple[str, ...]:
    plain = f"WORKFLOW_{rest}"
    return (plain,) if rest.startswith(("SERVER_", "V2_")) else (f"WORKFLOW_SERVER_{rest}", plain)


def declared_fields(group: str, struct: type[msgspec.Struct]) -> Iterator[Declared]:
    """Yield the declarations of one group of settings, in field order."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        annotated = get_args(hints[field.name])
        var = next((extra for extra in annotated[1:] if isinstance(extra, Var)), None)
        assert var is not None, f"{struct.__name__}.{field.name} declares no variable"
        kind, is_optional = _kind_of(annotated[0])
        default = None if field.default is msgspec.NODEFAULT else field.default
        yield Declared(group, field.name, var, kind, is_optional, default)


def _kind_of(annotation: Any) -> tuple[type, bool]:
    if isinstance(annotation, types.UnionType):
        inner = next(part for part in get_args(annotation) if part is not types.NoneType)
        return _kind_of(inner)[0], True
    origin = get_origin(annotation)
    return (origin or annotation), False


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def parse(declared: Declared, name: str, text: str) -> Any:
    """Turn the text of the variable ``name`` into the field's type.

    Raises :class:`SettingsError` naming the variable when the text is not of the declared type, outside its bounds or
    not one of its choices. A secret's text is never repeated in the message.
    """
    var = declared.var
    if declared.kind is bool:
        if text.lower() not in _BOOLEANS:
            raise SettingsError(f"{name} must be true or false, not {text!r}.")
        return _BOOLEANS[text.lower()]
    if declared.kind is int:
        return _parse_int(var, name, text)
    if declared.kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if var.choices and text not in var.choices:
        raise SettingsError(f"{name} must be one of {', '.join(var.choices)}; {text!r} is none of them.")
    return text


def _parse_int(var: Var, name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise SettingsError(f"{name} must be a whole number{f' of {var.unit}' if var.unit else ''}.") from None
    if var.minimum is not None and value < var.minimum:
        raise SettingsError(f"{name} must be at least {var.minimum}, not {value}.")
    if var.maximum is not None and value > var.maximum:
        raise SettingsError(f"{name} must be at most {var.maximum}, not {value}.")
    return value
