"""The protocol described as values, for programs that embed the library."""

from __future__ import annotations

import math
from typing import Any

from dw_core.engine.commands.parse import TERMINAL_COMMANDS
from dw_core.history.compression import ENCODINGS
from dw_core.limits import (
    HISTORY_COMPRESSION_THRESHOLD_EVENTS,
    HISTORY_PAGE_SIZE_DEFAULT,
    HISTORY_PAGE_SIZE_MAX,
    LONG_POLL_DEFAULT_SECONDS,
    LONG_POLL_MAX_SECONDS,
    LONG_POLL_MIN_SECONDS,
)
from dw_core.protocol.capabilities import NON_TERMINAL_COMMANDS
from dw_core.protocol.problems import Invalid
from dw_core.protocol.versions import WORKER_PROTOCOL_VERSION

WORKFLOW_TASK_VERBS = (
    "poll",
    "claim",
    "claim_status",
    "history_payload",
    "history_payload_paginated",
    "complete",
    "fail",
    "heartbeat",
)
ACTIVITY_TASK_VERBS = ("poll", "claim", "claim_status", "complete", "fail", "status", "heartbeat")


def describe() -> dict[str, Any]:
    """The worker protocol at a glance: version, verbs, command types, paging and compression defaults.

    The command types are those this server executes.
    """
    return {
        "version": WORKER_PROTOCOL_VERSION,
        "workflow_task_verbs": list(WORKFLOW_TASK_VERBS),
        "activity_task_verbs": list(ACTIVITY_TASK_VERBS),
        "non_terminal_command_types": list(NON_TERMINAL_COMMANDS),
        "terminal_command_types": list(TERMINAL_COMMANDS),
        "default_history_page_size": HISTORY_PAGE_SIZE_DEFAULT,
        "max_history_page_size": HISTORY_PAGE_SIZE_MAX,
        "history_compression": {
            "supported_encodings": list(ENCODINGS),
            "compression_threshold": HISTORY_COMPRESSION_THRESHOLD_EVENTS,
        },
        "long_poll": long_poll_semantics(),
    }


def long_poll_semantics() -> dict[str, int]:
    """The window of a long poll, in seconds."""
    return {
        "default_timeout_seconds": LONG_POLL_DEFAULT_SECONDS,
        "min_timeout_seconds": LONG_POLL_MIN_SECONDS,
        "max_timeout_seconds": LONG_POLL_MAX_SECONDS,
    }


def clamp_long_poll_timeout(timeout_seconds: float | None, *, default_seconds: int = LONG_POLL_DEFAULT_SECONDS) -> int:
    """The seconds a poll is held for the window a caller asked for (worker-plane §7.2).

    Absent gives ``default_seconds``, more than the maximum gives the maximum, a fraction is floored, and 0 (also by
    flooring) means to probe once and answer. Raises ``Invalid`` on ``timeout_seconds`` for a negative value and for
    anything that is not a number.
    """
    if timeout_seconds is None:
        return default_seconds
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float):
        raise Invalid({"timeout_seconds": ["must be a number of seconds"]})
    if math.isnan(timeout_seconds) or timeout_seconds < 0:
        raise Invalid({"timeout_seconds": ["must be at least 0"]})
    return math.floor(min(timeout_seconds, LONG_POLL_MAX_SECONDS))
