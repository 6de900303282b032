"""The one exception of this package."""

from __future__ import annotations

from dw_core.protocol.problems import Invalid


class PayloadError(Exception):
    """A payload that is refused.

    ``reason`` is ``invalid_payload_framing``, ``unsupported_payload_schema``, ``unsupported_payload_codec``,
    ``external_payload_unsupported``, ``integer_overflow``, ``non_finite_float``, ``invalid_map_key`` or
    ``unsupported_value_type`` (engine §7); ``field`` is the part of the envelope at fault (``codec``, ``blob``,
    ``external_storage``, …) or empty when it is the value as a whole.
    """

    def __init__(self, reason: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field

    def at(self, path: str) -> Invalid:
        """The ``validation_failed`` problem for a payload found at the dotted field path ``path``."""
        return Invalid({f"{path}.{self.field}" if self.field else path: [self.message]})
