"""Webhook events with the published client, in both shapes."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, workflow
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Working


@workflow.defn(name="fulfil")
class Fulfil:
    def __init__(self) -> None:
        self.approvals: list[str] = []

    @workflow.signal("approve")
    def approve(self, who: str) -> None:
        self.approvals.append(who)

    @workflow.update("rename")
    def rename(self, name: str) -> str:
        return f"now {name}"

    def run(self, ctx: WorkflowContext, order: str) -> Generator[Any, Any, Any]:
        yield ctx.wait_condition(lambda: bool(self.approvals), key="approved")
        return [order, *self.approvals]


async def test_events_start_signal_and_update_and_are_followed_once(
    client: Client, working: Working, queue: str
) -> None:
    key = f"evt-{uuid.uuid4().hex[:12]}"
    start: dict[str, Any] = {
        "action": "start_workflow",
        "idempotency_key": key,
        "target": {"workflow_type": "fulfil", "task_queue": queue},
        "input": {"order_id": "order-1001"},
    }
    first = await client.send_webhook_bridge_event("stripe", **start, correlation={"trace": "t"})
    assert (first.accepted, first.outcome, first.control_plane_outcome) == (True, "accepted", "started_new")
    assert first.workflow_id is not None and first.correlation == {"trace": "t"}
    again = await client.send_webhook_bridge_event("stripe", **start)
    assert (again.outcome, again.reason, again.run_id) == ("duplicate", "duplicate_start", first.run_id)
    async with working([Fulfil]):
        update = await client.send_webhook_bridge_event(
            "stripe",
            action="update_workflow",
            idempotency_key=f"{key}-u",
            target={"workflow_id": first.workflow_id, "update_name": "rename", "wait_for": "completed"},
            input={"name": "x"},
        )
        assert (update.outcome, update.control_plane_outcome) == ("accepted", "update_completed")
        for outcome in ("accepted", "duplicate"):
            told = await client.send_webhook_bridge_event(
                "stripe",
                action="signal_workflow",
                idempotency_key=f"{key}-s",
                target={"workflow_id": first.workflow_id, "signal_name": "approve"},
                input={"who": "Ada"},
            )
            assert told.outcome == outcome
        run = client.get_workflow_handle(first.workflow_id, run_id=first.run_id)
        assert await run.result(poll_interval=0.05) == ["order-1001", "Ada"]
    refused = await client.send_webhook_bridge_event(
        "stripe", action="start_workflow", idempotency_key=f"{key}-x", target={"task_queue": queue}
    )
    assert (refused.accepted, refused.outcome, refused.reason) == (False, "rejected", "unsupported_routing")
