"""The published SDK replays every history: at every claim, and once more after the run has closed (invariants 40-42).

A random scheduler loses workers, lets leases expire, repeats and delays reports, and fails attempts that are retried.
None of it may change the result. Each workflow is played 12 times, or a
twentieth of ``DW_TEST_EXAMPLES`` times.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from durable_workflow import serializer
from durable_workflow.workflow import Replayer, ReplayOutcome, apply_update, commands_to_server_commands

from dw_core.engine.inputs import Input
from dw_core.engine.invariants import CLOSINGS
from dw_core.engine.rows import TaskKind
from dw_core.engine.update_tasks import update_of
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.payloads.codec import encode_blob
from dw_runtime.pump.claims import Claimed
from tests.unit.engine.invariants import BY_ITS_CODE, Watch
from tests.unit.engine.replay_workflows import ACTIVITIES, ALL_WORKFLOWS, WORKFLOWS, Doomed
from tests.unit.engine.world import (
    NAMESPACE,
    QUEUE,
    World,
    accepted,
    activity_result,
    completion,
    failed_activity,
    failed_task,
)

EXAMPLES = max(12, int(os.environ.get("DW_TEST_EXAMPLES", "0")) // 20)
STEPS_MAX = 3000

Json = dict[str, Any]
Commands = list[Json]
BY_NAME: dict[str, Any] = {cls.__workflow_name__: cls for cls in WORKFLOWS}


def replay(events: list[Json]) -> ReplayOutcome:
    """What the SDK's replayer makes of these events."""
    return Replayer(workflows=ALL_WORKFLOWS).replay(events, payload_codec="avro")


def replayed(events: list[Json]) -> Commands:
    """The commands that the SDK's worker would send after these events."""
    return commands_to_server_commands(replay(events).commands, QUEUE)


def positions(outcome: ReplayOutcome) -> Json:
    """What the SDK's worker would report of message streams beside its commands."""
    return {
        "cursors": {found["stream_name"]: found["through_position"] for found in outcome.message_stream_cursors},
        "waits": {found["stream_name"]: found["after_position"] for found in outcome.message_stream_waits},
    }


def updated(events: list[Json], update_id: str) -> Json:
    """The command that the SDK's worker would send for an update."""
    started = events[1]["payload"]
    workflow_type = BY_NAME[started["workflow_type"]]
    arguments = serializer.decode_envelope(started["input"])
    command = apply_update(workflow_type, events, arguments, update_id, payload_codec="avro")
    return command.to_server_command(QUEUE)


def comparable(commands: Commands) -> Commands:
    """Without the values of side effects, and without the id of the task, which differ at every live execution."""
    return [
        {key: value for key, value in command.items() if command["type"] != "record_side_effect" or key == "type"}
        for command in commands
    ]


class Trouble:
    """A world with workers that die, dawdle and repeat themselves, as often as ``trouble`` says (0 to 1)."""

    def __init__(self, workflow_type: str, argument: int, rng: random.Random, trouble: float) -> None:
        self.world = World()
        self.watch = Watch(self.world)
        for operation in ("double", "refuse"):
            self.world.catalogue(operation, "invocable_http", handler_target_reference="https://example.com")
        self.run_id = self.world.start(workflow_type=workflow_type, arguments=encode_blob([argument]))
        self._rng = rng
        self._trouble = trouble
        self._late: list[Input] = []
        self.decisions: list[tuple[str, int, Commands]] = []

    def _troubled(self) -> bool:
        return self._rng.random() < self._trouble

    def play(self) -> None:
        """Run until the run closes."""
        for _ in range(STEPS_MAX):
            self._step()
            self.watch.look()
            if self.world.run(self.current_run_id).is_terminal:
                return
        raise AssertionError(f"the run never ends: {self.world.types(self.current_run_id)}")

    def _step(self) -> None:
        owner = self._rng.choice(["ann", "bob"])
        for kind in self._rng.sample([TaskKind.WORKFLOW, TaskKind.ACTIVITY], 2):
            for claimed in self.world.poll(kind, owner=owner, slots=self._rng.randint(1, 3)):
                self._work(claimed)
        if self._late and self._troubled():
            self.world.submit(self._rng.choice(self._late))
        if self._type in ("listens", "cleans-up", "updated") and self._rng.random() < 0.3:
            self.world.signal("w", "go", self._rng.randint(1, 9))
        if self._type == "updated" and self._rng.random() < 0.5:
            self.world.update("w", "add", self._rng.randint(1, 9), request_id=self._rng.choice("abcdefgh"))
        self._serve_calls()
        if self._type == "reads-messages" and self._rng.random() < 0.5:
            self._append()
        if self._troubled():
            self.world.submit(self.world.start_input(duplicate_policy="use-existing", workflow_type=self._type))
        self.world.later(self._rng.choice([0.01, 1, 5]) if self._rng.random() > self._trouble / 2 else 300)
        due = self.world.due()
        self.world.transact(self._rng.sample(due, len(due)))

    def _serve_calls(self) -> None:
        """The dispatcher, which now and then is late, or settles a call again."""
        calls = (
            self.world.memory.services.calls
            if self._troubled()
            else [call.service_call_id for call in self.world.accepted_calls()]
        )
        for call_id in list(calls):
            call = self.world.call(call_id)
            if self._troubled():
                continue
            if call.operation_name == "refuse":
                self.world.end_call(call_id, "failed", outcome="handler_failed", error_type="Refused", message="no")
                continue
            (value,) = serializer.decode(call.request_payload, codec="avro")
            self.world.end_call(call_id, response_payload=encode_blob(value * 2))

    def _append(self) -> None:
        """The next message, or one that was sent before: the n-th one carries n."""
        stream = self.world.memory.tables["streams"].get((NAMESPACE, "w", "in"), {"last_position": 0})
        number = stream["last_position"] + 1
        if self._troubled():
            number = self._rng.randint(1, number)
        self.world.append("w", "in", f"m{number}", number)

    @property
    def current_run_id(self) -> str:
        """The run that the workflow id stands for."""
        return self.world.memory.instances[NAMESPACE, "w"]

    @property
    def _type(self) -> str:
        return self.world.run(self.run_id).workflow_type

    def _work(self, claimed: Claimed) -> None:
        sent: Commands | None = None
        if claimed.task.kind is TaskKind.ACTIVITY:
            report = self._executed(claimed)
        elif self._troubled():
            report = failed_task(claimed.task, "out of memory", "MemoryError")
        elif (update_id := update_of(claimed.task)) is not None:
            report = completion(claimed.task, updated(self.world.events(self.run_id), update_id))
        else:
            outcome = replay(self.world.events(claimed.task.run_id))
            sent = commands_to_server_commands(outcome.commands, QUEUE)
            if sent:
                report = completion(claimed.task, *sent, **positions(outcome))
            else:
                report = failed_task(claimed.task, "", WAITING_FOR_HISTORY)
        if self._troubled():
            self._late.append(report)  # the worker is gone, or so slow that others have taken over
            return
        reply = accepted(self.world.submit(report))
        if sent is not None:
            self.decisions.append((claimed.task.run_id, claimed.task.claimed_history_sequence, comparable(sent)))
        if self._troubled():
            assert self.world.submit(report) == reply, "a repeated report gets the same answer"

    def _executed(self, claimed: Claimed) -> Input:
        assert claimed.activity is not None and claimed.arguments is not None
        activity_type = claimed.activity.activity_type
        if activity_type != "doomed" and self._troubled():
            return failed_activity(claimed.task, {"message": "flaky", "type": "Flaky", "class": "tests.Flaky"})
        try:
            result = ACTIVITIES[activity_type](*serializer.decode(claimed.arguments, codec="avro"))
        except Doomed as error:
            return failed_activity(claimed.task, {"message": str(error), "type": "Doomed"})
        return activity_result(claimed.task, result)

    @property
    def end(self) -> Json:
        """The last event's type and what it says about the result."""
        event = closing_event(self.world.events(self.current_run_id))
        members = ("output", "message", "exception_type", "failed_step_sequence")
        return {"event_type": event["event_type"]} | {name: event["payload"].get(name) for name in members}


def closing_event(events: list[Json]) -> Json:
    """The event that closed the run; the end of open updates follows it."""
    return next(event for event in reversed(events) if event["event_type"] in CLOSINGS)


def check_replays(played: Trouble) -> None:
    """Every prefix that a worker decided on yields that decision; the whole history yields the recorded end."""
    for run_id, mark, commands in played.decisions:
        assert comparable(replayed(played.world.events(run_id)[:mark])) == commands
    for (run_id,) in played.world.memory.tables["runs"]:
        if played.world.run(run_id).is_terminal:
            check_end(played.world.events(run_id))


def check_end(events: list[Json]) -> None:
    """A whole history yields the end that is recorded in it."""
    end = closing_event(events)
    if end["event_type"] not in BY_ITS_CODE:
        return
    terminal = replayed(events)[-1]
    payload = end["payload"]
    if terminal["type"] == "complete_workflow":
        assert end["event_type"] == "WorkflowCompleted"
        assert terminal["result"] == {"codec": "avro", "blob": payload["output"]}
    elif terminal["type"] == "continue_as_new":
        assert end["event_type"] == "WorkflowContinuedAsNew"
    else:
        assert (terminal["type"], end["event_type"]) == ("fail_workflow", "WorkflowFailed")
        assert terminal["message"] == payload["message"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda cls: str(cls.__workflow_name__))
def test_trouble_changes_neither_replay_nor_result(workflow: Any, rng: random.Random) -> None:
    for example in range(EXAMPLES):
        argument = 1 + example % 4
        calm = Trouble(workflow.__workflow_name__, argument, rng, trouble=0.0)
        calm.play()
        check_replays(calm)
        troubled = Trouble(workflow.__workflow_name__, argument, rng, trouble=rng.choice([0.1, 0.3, 0.5]))
        troubled.play()
        check_replays(troubled)
        assert troubled.end == calm.end
