"""What the worker of an activity that is to stop is told, and what is kept of its answer (worker-plane §16.4)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.rows import Cancellation, Run
from dw_core.protocol.timestamps import wire_time

RECEIPT_STOPPED = {"callback_state": "stopped"}


def receipt(request: Cancellation, history_event_id: str) -> dict[str, Any]:
    """The ``cancellation_acknowledgement`` of a status answer, before the worker has said that the callback stopped."""
    return {
        "request_id": request.request_id,
        "root_request_id": request.context["root_request_id"],
        "cleanup_deadline_at": wire_time(request.cleanup_deadline_at),
        "cancellation_history_event_id": history_event_id,
        "callback_state": "unknown",
    }


def cancelled_members(run: Run, now: datetime) -> dict[str, Any]:
    """The members of ``ActivityCancelled`` for an activity that stopped because it was asked to."""
    members = {
        "cancelled_at": wire_time(now),
        "message": "Activity cancelled because its workflow was asked to cancel.",
    }
    return members if run.cancellation is None else {"workflow_command_id": run.cancellation.request_id} | members
