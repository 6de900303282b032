"""Redriving a failed workflow with the published client and worker."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.errors import NonRetryableError, WorkflowFailed

from tests.e2e.conftest import Working
from tests.harness.waiting import eventually


@activity.defn(name="noted-step")
def step(path: str, name: str) -> str:
    """Notes each call in a file; ``shaky`` fails until the file ``mended`` lies beside it."""
    with Path(path).open("a", encoding="utf-8") as marks:
        marks.write(f"{name} ")
    if name == "shaky" and not Path(path).with_name("mended").exists():
        raise NonRetryableError("not yet")
    return name.upper()


@workflow.defn(name="redriven")
class Redriven:
    def run(self, ctx: Any, path: str) -> Generator[Any, Any, Any]:
        first = yield ctx.schedule_activity("noted-step", [path, "first"])
        group = yield [ctx.schedule_activity("noted-step", [path, name]) for name in ("left", "right")]
        shaky = yield ctx.schedule_activity("noted-step", [path, "shaky"])
        last = yield ctx.schedule_activity("noted-step", [path, "last"])
        return [first, *group, shaky, last]


async def test_a_failed_workflow_goes_on_where_it_has_failed(
    tmp_path: Path, client: Client, queue: str, working: Working
) -> None:
    marks = tmp_path / "marks"
    async with working([Redriven], [step]):
        handle = await client.start_workflow(
            workflow_type="redriven", workflow_id=f"r-{queue}", task_queue=queue, input=[str(marks)]
        )
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=30)
        assert sorted(marks.read_text().split()) == ["first", "left", "right", "shaky"]
        (tmp_path / "mended").touch()
        request_id = uuid.uuid4().hex
        assert handle.run_id is not None
        answer = await client.redrive_workflow(handle.workflow_id, handle.run_id, request_id=request_id)
        again = await client.redrive_workflow(handle.workflow_id, handle.run_id, request_id=request_id)
        assert (answer.outcome, again.run_id) == ("redriven", answer.run_id)
        assert answer.run_id != handle.run_id
        follower = client.get_workflow_handle(handle.workflow_id, run_id=answer.run_id)
        assert await follower.result(timeout=30) == ["FIRST", "LEFT", "RIGHT", "SHAKY", "LAST"]
    assert sorted(marks.read_text().split()) == ["first", "last", "left", "right", "shaky", "shaky"]


async def test_a_worker_without_memory_goes_on_with_a_redriven_run_and_a_changed_step_ends_the_taking_over(
    tmp_path: Path, client: Client, queue: str, working: Working
) -> None:
    marks = tmp_path / "marks"
    async with working([Redriven], [step]):
        handle = await client.start_workflow(
            workflow_type="redriven", workflow_id=f"r-{queue}", task_queue=queue, input=[str(marks)]
        )
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=30)
    assert handle.run_id is not None
    answer = await client.redrive_workflow(handle.workflow_id, handle.run_id)
    assert answer.run_id is not None
    run_id = answer.run_id

    async def is_shaky_waiting() -> bool:
        history = await client.get_history(handle.workflow_id, run_id)
        scheduled = [event for event in history["events"] if event["event_type"] == "ActivityScheduled"]
        return len(scheduled) == 4

    async with working([Redriven], []):
        await eventually(is_shaky_waiting, "the step that has no result is scheduled")
    (tmp_path / "mended").touch()
    async with working([Redriven], [step]):
        follower = client.get_workflow_handle(handle.workflow_id, run_id=run_id)
        assert await follower.result(timeout=30) == ["FIRST", "LEFT", "RIGHT", "SHAKY", "LAST"]
    assert sorted(marks.read_text().split()) == ["first", "last", "left", "right", "shaky", "shaky"]


@workflow.defn(name="redriven-otherwise")
class Before:
    def run(self, ctx: Any, path: str) -> Generator[Any, Any, Any]:
        for name in ("one", "two", "three"):
            yield ctx.schedule_activity("noted-step", [path, name])
        raise NonRetryableError("nothing more to do")


@workflow.defn(name="redriven-otherwise")
class After:
    def run(self, ctx: Any, path: str) -> Generator[Any, Any, Any]:
        for name in ("one", "changed", "three"):
            yield ctx.schedule_activity("noted-step", [path, name])
        return "done"


async def test_code_that_was_mended_takes_over_what_lies_before_the_change(
    tmp_path: Path, client: Client, queue: str, working: Working
) -> None:
    marks = tmp_path / "marks"
    async with working([Before], [step]):
        handle = await client.start_workflow(
            workflow_type="redriven-otherwise", workflow_id=f"r-{queue}", task_queue=queue, input=[str(marks)]
        )
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=30)
    assert handle.run_id is not None
    answer = await client.redrive_workflow(handle.workflow_id, handle.run_id)
    async with working([After], [step]):
        follower = client.get_workflow_handle(handle.workflow_id, run_id=answer.run_id)
        assert await follower.result(timeout=30) == "done"
    assert marks.read_text().split() == ["one", "two", "three", "changed", "three"]
