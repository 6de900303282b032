"""The programs of the golden histories: what happens to each workflow, step by step, in a world without chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from durable_workflow import serializer
from durable_workflow.errors import ActivityFailed
from durable_workflow.workflow import (
    RecordLocalActivity,
    ReplayOutcome,
    apply_update,
    commands_to_server_commands,
    replay,
)

from dw_core.engine.inputs import ArchiveWorkflow, RedriveWorkflow
from dw_core.engine.rows import TaskKind
from dw_core.engine.update_tasks import update_of
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.payloads.codec import decode_blob, encode_blob
from dw_runtime.pump.claims import Claimed
from tests.unit.engine.golden_workflows import golden_workflows
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import NAMESPACE, QUEUE, World, accepted, completion, failed_task

Json = dict[str, Any]
CLASSES: dict[str, Any] = {found.__workflow_name__: found for found in golden_workflows()}
ROUNDS_MAX = 100


class Stage:
    """One world, one workflow ``w``, and a worker that is as good as the published one."""

    def __init__(self, workflow_type: str) -> None:
        self.world = World()
        self.watch = Watch(self.world)
        self.workflow_type = workflow_type
        self.left: list[Claimed] = []
        self.heals = False

    def start(self, *arguments: Any, **changes: Any) -> str:
        """Start the workflow."""
        return self.world.start(workflow_type=self.workflow_type, arguments=encode_blob(list(arguments)), **changes)

    def work(self) -> None:
        """Let the worker do all there is to do now; what other runs have caused is taken at once."""
        for _ in range(ROUNDS_MAX):
            claimed = [*self.world.poll(TaskKind.WORKFLOW), *self.world.poll(TaskKind.ACTIVITY)]
            for one in claimed:
                self.world.later(1)
                (self._decide if one.task.kind is TaskKind.WORKFLOW else self._execute)(one)
            sent = [change for change in self.world.due() if type(change).__name__ == "TakeDeliveries"]
            self.world.transact(sent)
            self.watch.look()
            if not claimed and not sent:
                return
        raise AssertionError("the worker never comes to rest")

    def pass_time(self, seconds: float) -> None:
        """Time passes, the sweeps look once, and the worker works."""
        self.world.later(seconds)
        self.world.sweep()
        self.work()

    def replayed(self, claimed: Claimed, observed: Json | None) -> ReplayOutcome:
        """What the published worker would decide."""
        task, events = claimed.task, self.world.events(claimed.task.run_id)
        run = self.world.run(task.run_id)
        return replay(
            CLASSES[run.workflow_type],
            events,
            started_with(events),
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            workflow_command_id=(task.resume or {}).get("workflow_command_id") or f"{task.run_id}.t{task.task_number}",
            payload_codec="avro",
            cancellation_request=observed,
            local_activity_executor=execute_locally,
        )

    def _decide(self, claimed: Claimed) -> None:
        update_id = update_of(claimed.task)
        if update_id is not None:
            events = self.world.events(claimed.task.run_id)
            workflow_type = self.world.run(claimed.task.run_id).workflow_type
            command = apply_update(
                CLASSES[workflow_type], events, started_with(events), update_id, payload_codec="avro"
            )
            accepted(self.world.submit(completion(claimed.task, command.to_server_command(QUEUE))))
            return
        observed = accepted(self.world.heartbeat(claimed.task)).get("cancellation_request")
        outcome = self.replayed(claimed, observed)
        intent = outcome.cancellation_delivery
        if intent is not None and not outcome.commands:
            spans: Json = {
                "sequence_span": intent.sequence_span,
                "operation_sequence": intent.operation_sequence,
                "operation_sequence_span": intent.operation_sequence_span,
            }
            accepted(self.world.deliver(claimed.task, intent.request_id, intent.sequence, intent.call_kind, **spans))
            outcome = self.replayed(claimed, observed)
        sent = commands_to_server_commands(outcome.commands, QUEUE)
        if not sent:
            accepted(self.world.submit(failed_task(claimed.task, "", WAITING_FOR_HISTORY)))
            return
        accepted(self.world.submit(completion(claimed.task, *map(portable, sent), **positions(outcome))))

    def _execute(self, claimed: Claimed) -> None:
        assert claimed.activity is not None and claimed.arguments is not None
        task, name = claimed.task, claimed.activity.activity_type
        if name == "never":
            self.left.append(claimed)
            return
        if name == "broken" or (name == "flaky" and task.attempt == 1 and not self.heals):
            failure = {"message": f"{name} is broken", "type": "Broken", "class": "shop.Broken", "non_retryable": False}
            accepted(self.world.fail_activity(task, failure))
            return
        if name == "flaky":
            accepted(self.world.heartbeat_activity(task, {"message": "half way", "current": 1, "total": 2}))
        accepted(self.world.complete_activity(task, decode_blob(claimed.arguments)[0]))


def started_with(events: list[Json]) -> list[Any]:
    """The arguments of a run."""
    started = next(event["payload"] for event in events if event["event_type"] == "WorkflowStarted")
    arguments: list[Any] = decode_blob(started["input"]["blob"])
    return arguments


def portable(command: Json) -> Json:
    """Without the fingerprint of a predicate, which each version of Python computes differently."""
    return {key: value for key, value in command.items() if key != "condition_definition_fingerprint"}


def positions(outcome: ReplayOutcome) -> Json:
    """What the published worker reports of message streams beside its commands."""
    return {
        "cursors": {found["stream_name"]: found["through_position"] for found in outcome.message_stream_cursors},
        "waits": {found["stream_name"]: found["after_position"] for found in outcome.message_stream_waits},
    }


def execute_locally(command: RecordLocalActivity) -> Any:
    """A local activity as the published worker records it: ``flaky`` succeeds at the second attempt."""
    command.arguments_envelope = serializer.envelope(command.arguments)
    failed = {"attempt_number": 1, "outcome": "failed", "duration_ms": 5, "message": "no", "exception_type": "Broken"}
    if command.activity_type == "broken":
        ended = {"message": "no", "exception_type": "Broken", "non_retryable": False}
        command.outcome = {"outcome": "failed", "attempts": [failed], **ended}
        return ActivityFailed("no", activity_type="broken", exception_type="Broken", non_retryable=False)
    retried = failed | {"backoff_seconds": 5, "retry_reason": "failure"}
    done = {"attempt_number": 2, "outcome": "completed", "duration_ms": 7}
    command.outcome = {"outcome": "completed", "attempts": [retried, done]}
    command.result_envelope = serializer.envelope(command.arguments[0])
    return command.arguments[0]


class Golden(NamedTuple):
    """A program: ``play`` starts the workflow and brings about all that happens to it."""

    name: str
    family: str
    workflow_type: str
    play: Callable[[Stage], None]


def simple(*arguments: Any, **changes: Any) -> Callable[[Stage], None]:
    """Start and work."""

    def play(stage: Stage) -> None:
        stage.start(*arguments, **changes)
        stage.work()

    return play


def waiting(*seconds: float, arguments: tuple[Any, ...] = (), **changes: Any) -> Callable[[Stage], None]:
    """Start and work, then let time pass, once and again."""

    def play(stage: Stage) -> None:
        simple(*arguments, **changes)(stage)
        for one in seconds:
            stage.pass_time(one)

    return play


def _signals(stage: Stage) -> None:
    stage.start(4)
    stage.world.signal("w", "note", "before")
    task = stage.world.claim_workflow()
    stage.world.signal("w", "note", "during", request_id="r-1")
    stage.world.signal("w", "note", "during", request_id="r-1")
    stage._decide(task)
    stage.world.signal("w", "note", {"after": True})
    stage.work()
    stage.world.signal("w", "note", None)
    stage.work()


def _waits(stage: Stage) -> None:
    waiting()(stage)
    stage.world.signal("w", "go")
    stage.work()
    stage.pass_time(60)
    for _ in range(2):
        stage.world.signal("w", "go")
        stage.work()


def _updates(stage: Stage) -> None:
    simple()(stage)
    for number in (2, -1, 3):
        stage.world.update("w", "add", number)
    stage.work()
    task = None
    stage.world.update("w", "add", 10, request_id="r")
    stage.world.update("w", "add", 10, request_id="r")
    task = stage.world.claim_workflow()
    stage.world.signal("w", "done")
    stage.world.update("w", "add", 20)
    stage._decide(task)
    stage.work()


def _continues(stage: Stage) -> None:
    simple()(stage)
    stage.world.signal("w", "note", 1)
    task = stage.world.claim_workflow()
    stage.world.signal("w", "note", 2)
    stage.world.update("w", "count")
    stage._decide(task)
    stage.work()


def _told(stage: Stage) -> None:
    simple()(stage)
    stage.world.signal("w", "go")
    stage.work()


def _ended(verb: str) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        simple()(stage)
        getattr(stage.world, verb)("w", reason="not needed any more")
        stage.work()

    return play


def _cleans_up(stage: Stage) -> None:
    simple()(stage)
    stage.world.request_cancellation("w", 600, reason="not needed any more")
    stage.work()
    (claimed,) = stage.left
    request = stage.world.run(claimed.task.run_id).cancellation
    assert request is not None
    accepted(stage.world.acknowledge(claimed.task, request.request_id))
    stage.work()


def _cleans_up_too_long(stage: Stage) -> None:
    simple()(stage)
    stage.world.request_cancellation("w", 60)
    stage.pass_time(61)


def _messages(stage: Stage) -> None:
    simple()(stage)
    for number in (1, 2):
        stage.world.append("w", "orders", f"m{number}", number)
        stage.work()
    task_messages = [(n, f"m{n}") for n in (3, 4, 5, 5, 6)]
    for number, message_id in task_messages:
        stage.world.append("w", "orders", message_id, number)
    stage.work()


def _troubled(stage: Stage) -> None:
    stage.start("x")
    lost = stage.world.claim_workflow("lost")
    assert lost.task.attempt == 1
    stage.pass_time(301)
    accepted(
        stage.world.submit(stage.world.start_input(duplicate_policy="use-existing", workflow_type=stage.workflow_type))
    )
    stage.pass_time(5)


def _failed_tasks(stage: Stage) -> None:
    stage.start("x")
    accepted(stage.world.fail(stage.world.claim_workflow().task, "out of memory", "MemoryError"))
    accepted(stage.world.repair())
    stage.pass_time(5)
    stage.pass_time(5)


def _services(stage: Stage) -> None:
    stage.world.catalogue("greet", "invocable_http", handler_target_reference="https://example.com")
    run_id = stage.start()
    ends: tuple[tuple[int, str, Json], ...] = (
        (1, "completed", {"response_payload": encode_blob("hello ann")}),
        (3, "failed", {"outcome": "handler_failed", "error_type": "Refused", "message": "no"}),
        (4, "cancelled", {"error_type": "ServiceCallCancelled", "message": "not needed any more"}),
    )
    stage.work()
    for sequence, status, members in ends:
        stage.world.later(1)
        stage.world.end_call(f"{run_id}.v{sequence}", status, **members)
        stage.work()


def _archived(stage: Stage) -> None:
    simple("x")(stage)
    stage.pass_time(5)
    fields: Json = {"namespace": NAMESPACE, "workflow_id": "w", "command_id": stage.world.new_id()}
    accepted(stage.world.submit(ArchiveWorkflow(reason="audit", **fields)))


def _redriven(stage: Stage) -> None:
    run_id = stage.start()
    stage.work()
    fields: Json = {"namespace": NAMESPACE, "workflow_id": "w", "command_id": stage.world.new_id()}
    accepted(stage.world.submit(RedriveWorkflow(run_id=run_id, target_scope="run", **fields)))
    stage.heals = True
    stage.work()


PROGRAMS = (
    Golden("activities", "activity", "golden.activities", waiting(5, arguments=("x",))),
    Golden("activity-timeouts", "activity", "golden.activity-timeouts", waiting(10, 20, 5, 20, 6)),
    Golden("saga", "saga-compensation", "golden.saga", simple("o-1")),
    Golden("groups", "parallel", "golden.groups", waiting(30)),
    Golden("group-failure", "parallel", "golden.group-failure", simple()),
    Golden("timers", "timer", "golden.timers", waiting(0, 3600)),
    Golden("signals", "signal-update", "golden.signals", _signals),
    Golden("waits", "wait-condition", "golden.waits", _waits),
    Golden("updates", "signal-update", "golden.updates", _updates),
    Golden("children", "child", "golden.children", waiting(5)),
    Golden("parent-close", "child", "golden.leaves-children", waiting(10, 1)),
    Golden("parent-terminated", "child", "golden.leaves-children", _ended("terminate")),
    Golden("countdown", "continue-as-new", "golden.countdown", simple(2)),
    Golden("continue-as-new", "continue-as-new", "golden.continues", _continues),
    Golden("selection", "selection", "golden.selection", simple()),
    Golden("selected-condition", "selection", "golden.selected-condition", _told),
    Golden("selected-group", "selection", "golden.selected-condition", waiting(600)),
    Golden("cancelled", "cancellation", "golden.activity-timeouts", _ended("cancel")),
    Golden("terminated", "cancellation", "golden.groups", _ended("terminate")),
    Golden("cleaned-up", "cancellation", "golden.cleans-up", _cleans_up),
    Golden("cleanup-over", "cancellation", "golden.activity-timeouts", _cleans_up_too_long),
    Golden("run-timeout", "timeout", "golden.sleeper", waiting(60, run_timeout=60)),
    Golden("execution-timeout", "timeout", "golden.sleeper", waiting(90, execution_timeout=90, run_timeout=100)),
    Golden("recorded", "version-marker", "golden.recorded", simple()),
    Golden("local-activities", "local-activity", "golden.local", simple()),
    Golden("message-stream", "stream", "golden.messages", _messages),
    Golden("output-stream", "stream", "golden.output", simple()),
    Golden("failure", "failure", "golden.fails", simple()),
    Golden("services", "service-call", "golden.services", _services),
    Golden("archived", "archive", "golden.activities", _archived),
    Golden("redriven", "redrive", "golden.mended", _redriven),
    Golden("lost-worker", "recovery", "golden.activities", _troubled),
    Golden("failed-task", "recovery", "golden.activities", _failed_tasks),
)
"""Every golden history, in the order in which they are read best."""


def played(golden: Golden) -> Json:
    """The histories of all runs of a program, as a fixture of the published replay verifier."""
    stage = Stage(golden.workflow_type)
    golden.play(stage)
    cases = [_case(stage.world, golden, run_id, number) for number, run_id in enumerate(_run_ids(stage.world), 1)]
    source = {"runtime": "durable-workflow-server", "version": "1"}
    return {"fixture_schema": "durable-workflow.golden-history.v1", "source": source, "cases": cases}


def _run_ids(world: World) -> list[str]:
    return [run_id for (run_id,) in world.memory.tables["runs"]]


def _case(world: World, golden: Golden, run_id: str, number: int) -> Json:
    run, events = world.run(run_id), world.events(run_id)
    case: Json = {
        "name": f"{golden.name}/{number}",
        "family": golden.family,
        "workflow_type": run.workflow_type,
        "status": run.status,
        "start_input": started_with(events),
        "history": events,
    }
    for event in events:
        if event["event_type"] == "WorkflowCompleted":
            result = decode_blob(event["payload"]["output"])
            case["expected"] = {"command_type": "CompleteWorkflow", "result": result}
    return case
