"""Rows as parameters of statements."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_encoder = msgspec.json.Encoder()


def encode_rows(rows: Iterable[object]) -> str:
    """A JSON array parameter. Always text: parameters that change their type are prepared and planned anew."""
    return _encoder.encode(list(rows)).decode()
