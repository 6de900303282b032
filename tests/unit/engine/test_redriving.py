"""Redriving a failed run: who may, and what the new run is."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.inputs import RedriveWorkflow, TerminateWorkflow
from tests.unit.engine.world import NAMESPACE, World


def redrive(world: World, run_id: str, **changes: Any) -> dict[str, Any]:
    command = RedriveWorkflow(
        namespace=NAMESPACE,
        workflow_id="w",
        run_id=run_id,
        target_scope="run",
        command_id=world.new_id(),
        **changes,
    )
    reply = world.submit(command)
    return reply if isinstance(reply, dict) else {"reason": reply.reason} | reply.fields


def failed(world: World) -> str:
    run_id = world.start()
    world.complete(world.claim_workflow().task, {"type": "fail_workflow", "message": "broken"})
    return run_id


def test_a_failed_run_is_followed_by_one_that_names_it() -> None:
    world = World()
    run_id = failed(world)
    reply = redrive(world, run_id, request_id="r")
    assert (reply["outcome"], reply["command_status"]) == ("redriven", "accepted")
    old, new = world.memory.tables["runs"][run_id,], world.memory.tables["runs"][reply["run_id"],]
    assert (old["status"], old["continued_to_run_id"]) == ("failed", new["run_id"])
    assert (new["status"], new["run_number"], new["redrive_of"]) == ("pending", 2, run_id)
    (started,) = world.memory.of_run("events", new["run_id"])
    assert started["event_type"] == "WorkflowStarted"
    assert f'"redriven_from_run_id":"{run_id}"' in started["body"]
    assert redrive(world, run_id, request_id="r") == reply | {"retained": True, "intent_verified": True}
    assert redrive(world, run_id)["reason"] == "selected_run_not_current"
    assert redrive(world, new["run_id"], request_id="r")["reason"] == "request_id_conflict"
    assert len(world.memory.tables["runs"]) == 2


@pytest.mark.parametrize("how", ["open", "terminated", "completed"])
def test_a_run_that_has_not_failed_refuses(how: str) -> None:
    world = World()
    run_id = world.start()
    if how == "terminated":
        world.submit(TerminateWorkflow(namespace=NAMESPACE, workflow_id="w", command_id=world.new_id()))
    elif how == "completed":
        world.complete(world.claim_workflow().task, {"type": "complete_workflow"})
    refused = redrive(world, run_id)
    assert (refused["reason"], refused["outcome"]) == ("run_not_failed", "rejected_run_not_failed")
    assert len(world.memory.tables["runs"]) == 1
