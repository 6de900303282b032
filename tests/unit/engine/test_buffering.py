"""What arrives while a workflow task is leased waits until the lease ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dw_core.engine.rows import Task, TaskKind
from tests.unit.engine.commands import activity, finish, give_up, retrying
from tests.unit.engine.world import World, accepted, completion


class Leased:
    """A run whose workflow task is leased while two activities are open, one of them claimed."""

    def __init__(self) -> None:
        self.world = World()
        self.run_id = self.world.start()
        policy = retrying(3, 5)
        first, second, third = (activity(name, retry_policy=policy) for name in ("first", "second", "third"))
        self.world.decide_with(first, second, third)
        self.running = self.claim()
        self.world.complete_activity(self.claim())
        self.task = self.world.claim_workflow().task
        self.seen = self.world.types(self.run_id)

    def claim(self) -> Task:
        return self.world.claim_activity().task

    @property
    def news(self) -> list[str]:
        """The event types after those the lease has seen."""
        return self.world.types(self.run_id)[len(self.seen) :]


@pytest.fixture
def leased() -> Leased:
    return Leased()


def arrive(leased: Leased) -> None:
    """A result, a start and a failure that will be retried arrive, in this order."""
    leased.world.complete_activity(leased.running)
    leased.world.fail_activity(leased.claim())


ARRIVED = ["ActivityCompleted", "ActivityStarted", "ActivityRetryScheduled"]


def test_arrivals_are_stored_and_answered_at_once_but_not_appended(leased: Leased) -> None:
    arrive(leased)
    assert leased.news == []
    assert [row["event_type"] for row in leased.world.memory.inbox] == ARRIVED
    assert leased.world.activity(leased.run_id, 1).status == "completed"
    assert leased.world.run(leased.run_id).open_activity_count == 1


def expire(world: World, task: Task) -> None:
    """The lease of the workflow task runs out; the activities are swept in the same pass."""
    world.later(300)
    world.sweep()


def complete(world: World, task: Task) -> None:
    """The worker schedules one more activity."""
    accepted(world.complete(task, activity("fourth")))


def wait(world: World, task: Task) -> None:
    """The worker has nothing to do yet."""
    accepted(world.wait(task))


def fail(world: World, task: Task) -> None:
    """The worker fails the task."""
    accepted(world.fail(task))


@pytest.mark.parametrize(("end", "before"), [(complete, ["ActivityScheduled"]), (wait, []), (fail, []), (expire, [])])
def test_arrivals_are_appended_in_order_when_the_lease_ends(
    leased: Leased, end: Callable[[World, Task], None], before: list[str]
) -> None:
    arrive(leased)
    end(leased.world, leased.task)
    assert leased.news == [*before, *ARRIVED]
    assert leased.world.memory.inbox == []
    run = leased.world.run(leased.run_id)
    assert run.last_wake_sequence == len(leased.seen) + len(before) + 1


@pytest.mark.parametrize("end", [complete, wait])
def test_a_wake_during_the_lease_opens_exactly_one_follow_up(
    leased: Leased, end: Callable[[World, Task], None]
) -> None:
    arrive(leased)
    end(leased.world, leased.task)
    follow_up = leased.world.workflow_task(leased.run_id)
    assert follow_up is not None and follow_up.attempt == 0
    assert follow_up.resume is not None and follow_up.resume["workflow_sequence"] == 1
    assert (
        leased.world.claim_workflow().task.claimed_history_sequence
        == leased.world.run(leased.run_id).last_history_sequence
    )
    assert leased.world.poll(TaskKind.WORKFLOW) == []


def test_a_replacement_after_a_failure_carries_the_newest_wake(leased: Leased) -> None:
    arrive(leased)
    fail(leased.world, leased.task)
    replacement = leased.world.workflow_task(leased.run_id)
    assert replacement is not None and replacement.resume is not None
    assert replacement.resume["workflow_sequence"] == 1


@pytest.mark.parametrize("end", [complete, wait])
def test_no_wake_during_the_lease_opens_no_follow_up(leased: Leased, end: Callable[[World, Task], None]) -> None:
    leased.claim()
    end(leased.world, leased.task)
    assert leased.world.workflow_task(leased.run_id) is None
    assert leased.news[-1] == "ActivityStarted"


@pytest.mark.parametrize("command", [finish(), give_up()])
def test_results_that_a_closing_completion_did_not_see_are_left_out(leased: Leased, command: dict[str, str]) -> None:
    arrive(leased)
    accepted(leased.world.complete(leased.task, command))
    assert leased.news[:-1] == ["ActivityCancelled"]
    assert leased.world.memory.inbox == []
    assert leased.world.activity(leased.run_id, 1).status == "completed"


def test_results_that_a_terminate_finds_waiting_are_kept(leased: Leased) -> None:
    arrive(leased)
    accepted(leased.world.terminate())
    assert leased.news == [*ARRIVED, "TerminateRequested", "ActivityCancelled", "WorkflowTerminated"]


def test_an_arrival_and_the_completion_in_one_batch_keep_their_order(leased: Leased) -> None:
    arrive(leased)
    retried = leased.world.tasks(leased.run_id, TaskKind.ACTIVITY)
    assert len(retried) == 1
    leased.world.transact([completion(leased.task, activity("fourth"))])
    assert leased.news == ["ActivityScheduled", *ARRIVED]


def test_a_heartbeat_during_the_lease_renews_without_an_event(leased: Leased) -> None:
    reply = accepted(leased.world.heartbeat_activity(leased.running, {"done": 1}))
    assert (reply["can_continue"], reply["heartbeat_recorded"]) == (True, True)
    assert leased.world.memory.inbox == []
    assert leased.world.tasks(leased.run_id, TaskKind.ACTIVITY)[0].heartbeat_details == {"done": 1}


def test_a_timeout_during_the_lease_is_buffered_too() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity("slow", start_to_close_timeout=10), activity("other"))
    world.claim_activity()
    world.complete_activity(world.claim_activity().task)
    task = world.claim_workflow().task
    world.later(10)
    world.sweep()
    assert "ActivityTimedOut" not in world.types(run_id)
    accepted(world.wait(task))
    assert world.types(run_id)[-1] == "ActivityTimedOut"
    assert world.workflow_task(run_id) is not None


def test_a_claim_beside_a_ready_workflow_task_opens_no_second_one() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    world.complete_activity(world.claim_activity().task)
    ready = world.workflow_task(run_id)
    world.claim_activity()
    assert world.workflow_task(run_id) == ready
    assert world.types(run_id)[-1] == "ActivityStarted"


def test_two_wakes_before_the_claim_share_one_task() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    for _ in range(2):
        world.complete_activity(world.claim_activity().task)
    assert len(world.tasks(run_id)) == 1
    world.decide_with(finish())
    assert world.run(run_id).status == "completed"
