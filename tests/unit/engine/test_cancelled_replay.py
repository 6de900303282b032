"""The published SDK replays runs that are asked to cancel themselves: at every claim, delivery and end (engine §6.12).

The worker of this test does what the SDK's own does: it observes the request on its claim or on a heartbeat, replays,
reports the delivery that the replay asks for, reads the history anew, and goes on.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest
from durable_workflow import workflow
from durable_workflow.errors import WorkflowCancelled
from durable_workflow.workflow import ReplayOutcome, WorkflowContext, commands_to_server_commands, replay

from dw_core.engine.invariants import CLOSINGS
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.payloads.codec import decode_blob
from dw_runtime.pump.claims import Claimed
from tests.unit.engine.replay_workflows import ALL_WORKFLOWS, FOREVER, WORKFLOWS, Listens, Selects, Updated
from tests.unit.engine.test_replay import EXAMPLES, Commands, Trouble
from tests.unit.engine.world import QUEUE, accepted, completion, failed_task

Steps = Generator[Any, Any, Any]
Json = dict[str, Any]


@workflow.defn(name="cleans-up")
class CleansUp:
    """Calls of every kind, and after a cancellation an activity of its own before the exception goes on."""

    def __init__(self) -> None:
        self.heard = 0

    @workflow.signal("go")
    def on_go(self, number: int) -> None:
        """Note a signal."""
        self.heard += number

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        try:
            for number in range(count):
                yield ctx.upsert_memo({"number": number})
                yield ctx.schedule_activity("double", [number], retry_policy=FOREVER)
                yield [ctx.start_timer(30), ctx.schedule_activity("add", [1, 2], retry_policy=FOREVER)]
                yield ctx.wait_condition(lambda: self.heard > 10**6, key="heard", timeout=20)
                slow = ctx.schedule_activity(
                    "double", [1], retry_policy=FOREVER, cancellation_policy="wait_cancellation_completed"
                )
                yield slow
                yield ctx.sleep(15)
        except WorkflowCancelled:
            yield ctx.side_effect(lambda: "undoing")
            yield ctx.schedule_activity("add", [count, 0], retry_policy=FOREVER)
            yield ctx.sleep(1)
            raise
        return count


@workflow.defn(name="swallows")
class Swallows:
    """Returns a result of its own when it is cancelled."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        try:
            for number in range(count):
                yield ctx.sleep(10 * number)
                yield [ctx.schedule_activity("double", [n], retry_policy=FOREVER) for n in range(3)]
        except WorkflowCancelled:
            return "cancelled, and glad of it"
        return "not cancelled"


@workflow.defn(name="chooses")
class Chooses:
    """Selections, one after the other; nobody awaits what has lost."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        keys = []
        for number in range(count):
            chosen = yield ctx.select(
                {
                    "late": ctx.start_timer(100_000_000),
                    "work": ctx.schedule_activity("double", [number], retry_policy=FOREVER),
                    "pair": [ctx.start_timer(90_000_000), ctx.schedule_activity("add", [1, 2], retry_policy=FOREVER)],
                    "never": ctx.wait_condition(lambda: False, key="never", timeout=90_000_000),
                }
            )
            keys.append(chosen.key)
        return keys


@workflow.defn(name="has-children")
class HasChildren:
    """Children that are told to cancel, waited for, and left alone."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        for number in range(count):
            yield ctx.start_child_workflow("swallows", [number], cancellation_policy="try_cancel")
            yield ctx.start_child_workflow("cleans-up", [1], cancellation_policy="wait_cancellation_completed")
            yield [
                ctx.start_child_workflow("swallows", [1], cancellation_policy="try_cancel"),
                ctx.start_child_workflow("swallows", [2], parent_close_policy="request_cancellation"),
                ctx.start_child_workflow("cleans-up", [1], cancellation_policy="wait_cancellation_completed"),
            ]
        return count


_OTHERS = [cls for cls in WORKFLOWS if cls not in (Listens, Selects, Updated)]
CANCELLED: list[Any] = [*_OTHERS, CleansUp, Swallows, Chooses, HasChildren]
"""Without calls that take no number: a condition that already holds when it is waited for, a selection's member that
has ended when it is awaited. Right before the call that a delivery interrupts, the SDK takes it for that one."""

CLASSES: dict[str, Any] = {cls.__workflow_name__: cls for cls in (*ALL_WORKFLOWS, *CANCELLED)}


class Cancelled(Trouble):
    """A world in which somebody asks the run to cancel itself at some moment, and its workers know what to do."""

    def _step(self) -> None:
        if self._rng.random() < 0.2:
            self.world.request_cancellation(seconds=3_600)
        super()._step()

    def _outcome(self, run_id: str, observed: Json | None) -> ReplayOutcome:
        events, run = self.world.events(run_id), self.world.run(run_id)
        (started,) = [event["payload"] for event in events if event["event_type"] == "WorkflowStarted"]
        return replay(
            CLASSES[run.workflow_type],
            events,
            decode_blob(started["input"]["blob"]),
            workflow_id=run.workflow_id,
            run_id=run_id,
            payload_codec="avro",
            cancellation_request=observed,
        )

    def _work(self, claimed: Claimed) -> None:
        if claimed.activity is not None:
            super()._work(claimed)
            return
        if self._troubled():
            accepted(self.world.submit(failed_task(claimed.task, "out of memory", "MemoryError")))
            return
        if self._rng.random() < 0.3:
            self.world.request_cancellation(seconds=3_600)
        observed = accepted(self.world.heartbeat(claimed.task)).get("cancellation_request")
        outcome = self._outcome(claimed.task.run_id, observed)
        for _ in range(3):
            intent = outcome.cancellation_delivery
            if intent is None or outcome.commands:
                break
            named = (claimed.task, intent.request_id, intent.sequence, intent.call_kind)
            spans: Json = {
                "sequence_span": intent.sequence_span,
                "operation_sequence": intent.operation_sequence,
                "operation_sequence_span": intent.operation_sequence_span,
            }
            reply = accepted(self.world.deliver(*named, **spans))
            if self._troubled():
                assert accepted(self.world.deliver(*named, **spans)) == reply
            if not reply["delivered"]:
                assert reply["claim_released"]
                return
            outcome = self._outcome(claimed.task.run_id, observed)
        assert outcome.cancellation_delivery is None or outcome.commands, "the replay takes the delivery"
        if self._troubled():
            return  # the worker is gone
        sent: Commands = commands_to_server_commands(outcome.commands, QUEUE)
        report = completion(claimed.task, *sent) if sent else failed_task(claimed.task, "", WAITING_FOR_HISTORY)
        accepted(self.world.submit(report))

    def check_end(self) -> str:
        """The whole history replays to the recorded end; its event type."""
        run_id = self.current_run_id
        outcome = self._outcome(run_id, None)
        end = [event for event in self.world.events(run_id) if event["event_type"] in CLOSINGS][-1]
        if end["workflow_task_id"] is None:
            deadline = self.world.run(run_id).cleanup_deadline_at
            assert deadline is not None and self.world.now >= deadline, "the server ends only what takes too long"
            return str(end["event_type"])
        (*_, terminal) = commands_to_server_commands(outcome.commands, QUEUE)
        ends = {"complete_workflow": {"WorkflowCompleted"}, "fail_workflow": {"WorkflowFailed", "WorkflowCancelled"}}
        assert end["event_type"] in ends[terminal["type"]]
        if end["event_type"] == "WorkflowCancelled":
            assert terminal["exception_type"] == "WorkflowCancelled"
        return str(end["event_type"])


@pytest.mark.parametrize("workflow", CANCELLED, ids=lambda cls: str(cls.__workflow_name__))
def test_a_cancellation_at_any_moment_replays(workflow: Any, rng: random.Random) -> None:
    ends = set()
    for example in range(2 * EXAMPLES):
        played = Cancelled(workflow.__workflow_name__, 1 + example % 4, rng, trouble=rng.choice([0.0, 0.1, 0.3]))
        played.play()
        ends.add(played.check_end())
    assert ends & {"WorkflowCancelled", "WorkflowCompleted"}
