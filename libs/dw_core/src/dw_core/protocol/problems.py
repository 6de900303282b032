"""A refusal on its way to a client: one exception type, one table of reasons."""

from __future__ import annotations

from typing import Any

from dw_core.protocol.reasons import REASONS


class Problem(Exception):
    """A request that is refused with a stable machine ``reason``.

    Arguments: ``reason`` is a key of :data:`dw_core.protocol.reasons.REASONS`, which fixes the HTTP status;
    ``as_status`` replaces it on the one route where the contract gives the same reason another status;
    ``message`` is for people; ``fields`` are the extra JSON members the contract names for this reason.
    The text never carries secrets, SQL or stack traces.
    """

    def __init__(self, reason: str, message: str, *, as_status: int | None = None, **fields: Any) -> None:
        super().__init__(message)
        self._as_status = as_status
        self.reason = reason
        self.message = message
        self.fields = fields

    @property
    def status(self) -> int:
        """The HTTP status that belongs to the reason."""
        return self._as_status or REASONS[self.reason]


class Invalid(Problem):
    """``validation_failed`` (422): ``errors`` maps a dotted field path to its messages."""

    def __init__(self, errors: dict[str, list[str]], message: str = "The request is invalid.") -> None:
        super().__init__("validation_failed", message, errors=errors, validation_errors=errors)
        self.errors = errors
