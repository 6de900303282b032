"""Reading one command's fields, collecting what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import read_envelope
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.nul import NUL_COMPLAINT

INTEGER_MAX = 2**53 - 1
"""Every JSON reader and every bigint column holds integers of this size exactly."""

_NUMERIC = re.compile(r"-?[0-9]{1,16}", re.ASCII)


class Fields:
    """One command of a batch: typed reads that note an error under ``commands.{index}.{field}``."""

    def __init__(self, index: int, command: Mapping[str, Any], errors: dict[str, list[str]]) -> None:
        self._index = index
        self._command = command
        self._errors = errors

    def error(self, field: str, message: str) -> None:
        """Note that a field is wrong."""
        self._errors.setdefault(f"commands.{self._index}.{field}", []).append(message)

    def has(self, field: str) -> bool:
        """Whether the field is there; null counts as absent."""
        return self._command.get(field) is not None

    def raw(self, field: str) -> Any:
        """The field as it was sent."""
        return self._command.get(field)

    def text(self, field: str, *, required: bool = False, limit: int = 255) -> str | None:
        """A non-empty string of at most ``limit`` characters."""
        value = self._command.get(field)
        if value is None:
            if required:
                self.error(field, "is required")
            return None
        if not isinstance(value, str) or not value.strip() or len(value) > limit:
            self.error(field, f"must be a non-empty string of at most {limit} characters")
            return None
        return value

    def name(self, field: str, *, required: bool = False) -> str | None:
        """A text that names something stored; no text column holds a NUL."""
        value = self.text(field, required=required)
        if value is not None and "\0" in value:
            self.error(field, NUL_COMPLAINT)
            return None
        return value

    def prose(self, field: str, *, required: bool = False) -> str | None:
        """A text of up to a mebibyte that is only shown; a NUL in it is kept, because history holds it escaped."""
        return self.text(field, required=required, limit=2**20)

    def choice(self, field: str, allowed: Sequence[str], *, required: bool = False) -> str | None:
        """One of a few words."""
        value = self._command.get(field)
        if value is None:
            if required:
                self.error(field, "is required")
            return None
        if value not in allowed:
            self.error(field, f"must be one of {', '.join(allowed)}")
            return None
        return str(value)

    def integer(
        self, field: str, *, minimum: int = -INTEGER_MAX, maximum: int = INTEGER_MAX, required: bool = False
    ) -> int | None:
        """A whole number; numeric strings are read as numbers (worker-plane §9.2)."""
        value = self._command.get(field)
        if value is None:
            if required:
                self.error(field, "is required")
            return None
        if isinstance(value, str) and _NUMERIC.fullmatch(value):
            value = int(value)
        if type(value) is not int or not minimum <= value <= maximum:
            self.error(field, f"must be an integer from {minimum} to {maximum}")
            return None
        return value

    def flag(self, field: str) -> bool:
        """A boolean, false when absent."""
        value = self._command.get(field)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.error(field, "must be true or false")
            return False
        return value

    def mapping(self, field: str) -> dict[str, Any] | None:
        """A JSON object."""
        value = self._command.get(field)
        if value is not None and not isinstance(value, dict):
            self.error(field, "must be an object")
            return None
        return value

    def payload(self, field: str, *, required: bool = False) -> str | None:
        """The blob of an inline payload; the bytes are checked, never changed. A codec may be named beside it."""
        value = self._command.get(field)
        if self._command.get("payload_codec") not in (None, CODEC):
            self.error("payload_codec", f"must be {CODEC}")
            return None
        if value is None:
            if required:
                self.error(field, "is required")
            return None
        try:
            return read_envelope(value)
        except PayloadError as wrong:
            self.error(field, wrong.message)
            return None
