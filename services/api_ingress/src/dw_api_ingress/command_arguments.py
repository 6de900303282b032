"""The arguments of a signal or an update, as they stand in the request (control-plane §7.2)."""

from __future__ import annotations

from typing import Any

from dw_core.contracts.arguments import bind
from dw_core.payloads.envelope import parse_input
from dw_core.payloads.errors import PayloadError


def read_arguments(value: Any) -> tuple[str, dict[str, Any] | None]:
    """The arguments as the blob of a list, and by name when the caller has named them; raises ``Invalid``.

    Whether they fit what the run has declared, and in which order named ones go, is decided with the run.
    """
    try:
        held = parse_input(value)
        return bind(value, None), held if isinstance(held, dict) else None
    except PayloadError as error:
        raise error.at("input") from error
