"""Every reason in the table of errors is one that some test has provoked, or says here why none can."""

from __future__ import annotations

from typing import Any

from dw_core.openapi.answers import reasons_of
from dw_core.protocol.reasons import REASONS
from dw_core.routes.catalogue import ROUTES
from tests.contract.control.conftest import Send

INSIDE_OTHERS = {
    "unsupported_payload_codec",
    "invalid_payload_framing",
    "unsupported_payload_schema",
    "external_payload_unsupported",
    "workflow_memo_validation_failed",
}
"""What a field of a request is told; the reason of the answer is the route's own."""
BEFORE_ROUTES = {"not_found", "method_not_allowed", "not_implemented"}
"""Requests that no route takes."""
RACES = {
    "operation_changed",
    "task_not_claimable",
    "task_not_due",
    "run_cancelled",
    "selected_run_not_current",
    "duplicate_update_validation_completion",
    "update_validation_task_not_leased",
    "cancellation_already_delivered",
    "workflow_id_reserved_in_namespace",
    "no_compatible_workers",
    "session_activity_limit_exceeded",
    "history_export_too_large",
}
"""Refusals that engine and store tests provoke below HTTP, because the moment for them cannot be chosen above it."""


def test_every_reason_is_accounted_for() -> None:
    documented = {reason.partition(":")[0] for route in ROUTES for reason in reasons_of(route)}
    assert set(REASONS) - documented <= INSIDE_OTHERS | BEFORE_ROUTES | RACES
    assert not documented & BEFORE_ROUTES


async def test_names_of_the_catalogue_are_taken_once(send: Send) -> None:
    operation: dict[str, Any] = {
        "operation_name": "charge",
        "operation_mode": "sync",
        "handler_binding_kind": "start_workflow",
        "handler_binding": {"workflow_type": "order", "task_queue": "q"},
    }
    for path, body, kind in (
        ("/service-endpoints", {"endpoint_name": "desk"}, "endpoint"),
        ("/service-endpoints/desk/services", {"service_name": "billing"}, "service"),
        ("/service-endpoints/desk/services/billing/operations", operation, "operation"),
    ):
        assert (await send("POST", path, body)).status == 201
        again = await send("POST", path, body)
        assert (again.status, again.json["reason"]) == (409, f"{kind}_already_exists")
