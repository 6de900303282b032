"""Archiving a closed run, and how its attributes are indexed with it."""

from __future__ import annotations

from typing import Any

from dw_core.engine.inputs import ArchiveWorkflow, TerminateWorkflow
from tests.unit.engine.world import NAMESPACE, World


def archive(world: World, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"namespace": NAMESPACE, "workflow_id": "w", "command_id": world.new_id()}
    reply = world.submit(ArchiveWorkflow(**(fields | changes)))
    return reply if isinstance(reply, dict) else {"reason": reply.reason} | reply.fields


def closed(world: World) -> str:
    run_id = world.start()
    world.submit(TerminateWorkflow(namespace=NAMESPACE, workflow_id="w", command_id=world.new_id()))
    return run_id


def test_an_archived_run_keeps_its_status_and_its_end() -> None:
    world = World()
    run_id = closed(world)
    before = dict(world.memory.tables["runs"][run_id,])
    assert archive(world, reason="audit")["outcome"] == "archived"
    after = world.memory.tables["runs"][run_id,]
    assert {k: after[k] for k in ("status", "closed_reason", "closed_at")} == {
        k: before[k] for k in ("status", "closed_reason", "closed_at")
    }
    assert (before["archive"], after["archive"]["reason"]) == (None, "audit")
    assert archive(world)["outcome"] == "archive_not_needed"
    types = [event["event_type"] for event in world.memory.of_run("events", run_id)]
    assert types[-2:] == ["ArchiveRequested", "WorkflowArchived"]


def test_an_open_run_refuses_and_remembers_it() -> None:
    world = World()
    run_id = world.start()
    refused = archive(world, request_id="r")
    assert (refused["reason"], refused["outcome"]) == ("run_not_closed", "rejected_run_not_closed")
    assert archive(world, request_id="r") == refused | {"retained": True, "intent_verified": True}
    assert [c["status"] for c in world.memory.tables["commands"].values() if c["command_type"] == "archive"] == [
        "rejected"
    ]
    assert world.memory.tables["runs"][run_id,]["archive"] is None
