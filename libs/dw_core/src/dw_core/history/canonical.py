"""Canonical JSON, ``json-recursive-ksort-v1``: what the checksum of a history bundle is of (control-plane §10.6)."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

NAME: Final = "json-recursive-ksort-v1"

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_FIXED_EXPONENTS = range(-4, 17)


def canonical_json(value: Any) -> bytes:
    """The bytes of a decoded JSON value: keys sorted, no spaces, every non-ASCII character escaped.

    Raises ``ValueError`` for a number that is not finite.
    """
    return _encode(value).encode("ascii")


def _encode(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_encode(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_encode, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _text(value: str) -> str:
    """Ordinary quoting with the slash as it is; UTF-16 escapes in lower case for all that is not ASCII."""
    return _NOT_ASCII.sub(_escape, json.dumps(value, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _number(value: float) -> str:
    """Fixed notation with a fraction for common exponents, otherwise ``d.de+X`` without leading zeros."""
    if not math.isfinite(value):
        raise ValueError("a history bundle holds finite numbers only")
    text = repr(value)
    mantissa, separator, exponent = text.partition("e")
    if not separator:
        return text
    if int(exponent) in _FIXED_EXPONENTS:
        fixed = format(Decimal(text), "f")
        return fixed if "." in fixed else f"{fixed}.0"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"
