"""Arguments of a signal, query or update against the declared parameters (control-plane §7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.payloads.codec import decode_blob, from_json
from dw_core.payloads.envelope import parse_input
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.references import is_external


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A declared parameter (worker-plane §6.1); a parameter without a type takes null."""

    name: str
    position: int = 0
    required: bool = False
    variadic: bool = False
    default_available: bool = False
    default: Any = None
    type: str | None = None
    allows_null: bool = True


class Misfit(Exception):
    """Arguments that do not fit: ``errors`` maps a parameter's name, or its position, to what is wrong."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__("The arguments do not fit the declared parameters.")
        self.errors = errors


def bind(value: Any, parameters: Sequence[Parameter] | None) -> str:
    """The argument list as a blob.

    ``value`` is the request's ``input``: None is the empty list, an array is positional, an object names parameters,
    an envelope keeps its bytes when it holds a list, and gives its values in order when it holds a map. ``parameters``
    None means that no contract is known: everything fits, and the values of an object are taken in order. What is kept
    outside the database is not read for this: the worker is the first to see whether its arguments fit. Raises
    :class:`Misfit`, and ``PayloadError`` for what is no payload at all.
    """
    declared = None if parameters is None else sorted(parameters, key=lambda parameter: parameter.position)
    held = parse_input(value)
    if isinstance(held, str):
        return _enveloped(held, declared)
    if isinstance(held, list):
        arguments = held
    else:
        arguments = list(held.values()) if declared is None else _by_name(held, declared)
    _check(arguments, declared)
    return from_json(arguments)


def _enveloped(blob: str, declared: Sequence[Parameter] | None) -> str:
    if is_external(blob):
        return blob
    held = decode_blob(blob)
    if isinstance(held, list):
        _check(held, declared)
        return blob
    if not isinstance(held, dict):
        raise PayloadError("unsupported_value_type", "The payload must hold a list or a map of arguments.", "blob")
    arguments = list(held.values())
    _check(arguments, declared)
    return from_json(arguments)


def _by_name(named: dict[str, Any], declared: Sequence[Parameter]) -> list[Any]:
    """The named values in the order of the parameters; a gap before a given value takes the declared default."""
    errors: dict[str, list[str]] = {}
    fixed = [parameter for parameter in declared if not parameter.variadic]
    for name in named.keys() - {parameter.name for parameter in declared}:
        errors[name] = ["is not a declared parameter"]
    rest: Any = next((named[p.name] for p in declared if p.variadic and p.name in named), [])
    if not isinstance(rest, list):
        rest = [rest]
    last = len(fixed) if rest else max((i + 1 for i, p in enumerate(fixed) if p.name in named), default=0)
    arguments: list[Any] = []
    for parameter in fixed[:last]:
        if parameter.name not in named and not parameter.default_available:
            errors[parameter.name] = ["is required"]
        arguments.append(named.get(parameter.name, parameter.default))
    if errors:
        raise Misfit(errors)
    return [*arguments, *rest]


def _check(arguments: Sequence[Any], declared: Sequence[Parameter] | None) -> None:
    """Number of arguments and nulls; raises :class:`Misfit`."""
    if declared is None:
        return
    fixed = [parameter for parameter in declared if not parameter.variadic]
    errors: dict[str, list[str]] = {}
    for position, parameter in enumerate(fixed):
        if position >= len(arguments):
            if parameter.required:
                errors[parameter.name] = ["is required"]
        elif arguments[position] is None and parameter.type is not None and not parameter.allows_null:
            errors[parameter.name] = ["must not be null"]
    if len(arguments) > len(fixed) and len(fixed) == len(declared):
        for position in range(len(fixed), len(arguments)):
            errors[str(position)] = [f"is one argument too many; {len(fixed)} are declared"]
    if errors:
        raise Misfit(errors)
