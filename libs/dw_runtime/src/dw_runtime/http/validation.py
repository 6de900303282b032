"""From a decoder's complaint to a field path and a sentence a person can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_PLACE = re.compile(r"^(?P<text>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_WRONG_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_BOUND = re.compile(r"Expected `(?P<type>[^`]+)` (?P<operator>>=|<=|>|<) (?P<bound>\S+)")
_LENGTH = re.compile(r"Expected `(?P<type>[^`]+)` of length (?P<operator>>=|<=|==) (?P<bound>\d+)")
_PATTERN = re.compile(r"Expected `str` matching regex (?P<pattern>.+)")
_ENUM = re.compile(r"Invalid enum value (?P<value>.+)")

_TYPES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_BOUNDS: Final = {">=": "of at least", "<=": "of at most", ">": "greater than", "<": "less than"}
_LENGTHS: Final = {">=": "at least", "<=": "at most", "==": "exactly"}
_UNITS: Final = {"str": "characters", "array": "entries", "object": "members", "bytes": "bytes"}


def explain(complaint: str, request: type[msgspec.Struct] | None = None) -> dict[str, list[str]]:
    """Field path to messages, in the shape of ``errors`` and ``validation_errors`` (control-plane §5.2).

    ``complaint`` is the text of an ``msgspec.ValidationError`` that decoding a ``request`` has raised. Paths use dots
    and indexes (``commands.0.delay_seconds``); a problem with the body as a whole is reported on ``body``.
    """
    parts = _PLACE.match(complaint)
    assert parts is not None, "the pattern matches every text"
    text = parts["text"]
    path = dotted(parts["path"] or "")
    missing = _MISSING.match(text)
    if missing is not None:
        field = missing["field"]
        return {f"{path}.{field}" if path else field: [f"The {field} field is required."]}
    if request is not None and (match := _ENUM.match(text)) is not None:
        choices = dict.fromkeys(_choices(msgspec.inspect.type_info(request), path.split(".")))
        return {path: [f"must be one of {', '.join(choices)}, not {match['value']}"]}
    return {path or "body": [_sentence(text, about_key=parts["key"] is not None)]}


def dotted(path: str) -> str:
    """``.commands[0].delay_seconds`` becomes ``commands.0.delay_seconds``; an unknown map key becomes ``*``."""
    return path.replace("[...]", ".*").replace("[", ".").replace("]", "").lstrip(".")


def _sentence(text: str, *, about_key: bool) -> str:
    prefix = "each name " if about_key else ""
    if (match := _WRONG_TYPE.match(text)) is not None:
        return f"{prefix}must be {_named(match['wanted'])}"
    if (match := _LENGTH.match(text)) is not None:
        return f"{prefix}{_length(match['type'], match['operator'], int(match['bound']))}"
    if (match := _BOUND.match(text)) is not None:
        return f"{prefix}must be {_named(match['type'])} {_BOUNDS[match['operator']]} {match['bound']}"
    if (match := _PATTERN.match(text)) is not None:
        return f"{prefix}must have the form {_form(match['pattern'])}"
    return f"{prefix}{text[:1].lower()}{text[1:]}"


def _form(quoted: str) -> str:
    """A pattern as people write it: without quotes and anchors."""
    pattern = quoted.strip("'\"").replace("\\\\", "\\")
    return pattern.removeprefix("^").removesuffix("\\Z").removesuffix("$")


def _choices(kind: msgspec.inspect.Type, path: list[str]) -> Iterator[str]:
    """The values that a type has for the field at ``path``, those of every member where it is a union."""
    match kind:
        case msgspec.inspect.UnionType(types=types):
            for each in types:
                yield from _choices(each, path)
        case msgspec.inspect.StructType(fields=fields) if path:
            for field in fields:
                if field.encode_name == path[0]:
                    yield from _choices(field.type, path[1:])
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.DictType(value_type=item) if path:
            yield from _choices(item, path[1:])
        case msgspec.inspect.LiteralType(values=values) if not path:
            yield from map(str, values)
        case msgspec.inspect.Metadata(type=inner):
            yield from _choices(inner, path)


def _named(union: str) -> str:
    names = [_TYPES.get(name.strip(), name.strip()) for name in union.split("|")]
    wanted = [name for name in names if name != "null"] or names
    return " or ".join(dict.fromkeys(wanted))


def _length(kind: str, operator: str, bound: int) -> str:
    unit = _UNITS.get(kind.split("|")[0].strip(), "items")
    if operator == ">=" and bound == 1:
        return "must not be empty"
    return f"must have {_LENGTHS[operator]} {bound} {unit}"
