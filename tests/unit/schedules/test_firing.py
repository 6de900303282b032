"""What fires come to: every overlap policy against a reference model, and two clocks on one snapshot."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dw_core.limits import SCHEDULE_BUFFER_MAX
from dw_core.protocol.requests_schedules import ScheduleCreate, ScheduleUpdate
from dw_core.schedules.changes import create, pause, resume, update
from dw_core.schedules.firing import Started, backfill, evaluate, settle, trigger
from dw_core.schedules.rows import Fire, OverlapPolicy, PendingFire, Schedule, ScheduleSnapshot
from dw_core.schedules.writer import ScheduleWriter, workflow_id

POLICIES = get_args(OverlapPolicy)
START = datetime(2026, 3, 1, tzinfo=UTC)
ULID = "01HX0000000000000000000000"


class World:
    """A schedule with the runs it has started, and who has closed them."""

    def __init__(self, policy: str = "skip", max_runs: int | None = None) -> None:
        self.now = START
        self.numbers = itertools.count(1)
        body = {
            "spec": {"intervals": [{"every": "PT10S"}]},
            "action": {"workflow_type": "t"},
            "overlap_policy": policy,
            "max_runs": max_runs,
        }
        writer = create("ns", "s", ULID, msgspec.convert(body, ScheduleCreate), None, self.now, {})
        self.schedule: Schedule = writer.schedule
        self.events = list(writer.events)
        self.pending: list[Fire] = []
        self.open: set[str] = set()
        self.started: list[str] = []

    def snapshot(self) -> ScheduleSnapshot:
        stored = msgspec.json.decode(msgspec.json.encode(self.schedule), type=Schedule)
        pending = [
            PendingFire(trigger_number=f.trigger_number, occurrence_at=f.occurrence_at, workflow_id=f.workflow_id)
            for f in self.pending
        ]
        latest = stored.latest_workflow_instance_id
        return ScheduleSnapshot(schedule=stored, is_latest_open=latest in self.open, pending=pending)

    def writer(self) -> ScheduleWriter:
        return ScheduleWriter(self.snapshot(), self.now)

    def apply(self, writer: ScheduleWriter) -> None:
        self.schedule = writer.schedule
        self.events += writer.events
        self.pending += writer.fires
        assert [event.sequence for event in self.events] == list(range(1, len(self.events) + 1))

    def new_id(self) -> str:
        return f"run-{next(self.numbers)}"

    def tick(self) -> None:
        writer = self.writer()
        evaluate(writer, self.new_id, "clock")
        self.apply(writer)

    def carry_out(self, outcome: str = "started") -> None:
        for fire in list(self.pending):
            if fire.ends_workflow_id is not None:
                self.open.discard(fire.ends_workflow_id)
            if outcome == "started":
                assert fire.workflow_id not in self.started, "an occurrence is started once"
                self.started.append(fire.workflow_id)
                self.open.add(fire.workflow_id)
            writer = self.writer()
            settle(writer, fire, Started(outcome, fire.run_id, reason="refused"))  # type: ignore[arg-type]  # a word
            self.pending.remove(fire)
            self.apply(writer)

    def names(self) -> list[str]:
        return [event.event_type for event in self.events]

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Model:
    """The policies in a few words: what is open, what waits, what was started, what was left out."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.open: list[int] = []
        self.latest: int | None = None
        self.waiting = 0
        self.started = 0
        self.skipped = 0

    def start(self) -> None:
        self.started += 1
        self.latest = self.started
        self.open.append(self.started)

    def close(self) -> None:
        if self.latest in self.open:
            self.open.remove(self.latest)

    def drain(self) -> None:
        if self.waiting and self.latest not in self.open:
            self.waiting -= 1
            self.start()

    def fire(self) -> None:
        if self.latest not in self.open or self.policy == "allow_all":
            self.start()
        elif self.policy == "skip":
            self.skipped += 1
        elif self.policy in ("buffer_one", "buffer_all"):
            room = 1 if self.policy == "buffer_one" else SCHEDULE_BUFFER_MAX
            if self.waiting < room:
                self.waiting += 1
            else:
                self.skipped += 1
        else:
            self.close()
            self.start()


@given(policy=st.sampled_from(POLICIES), steps=st.lists(st.sampled_from(("tick", "close", "trigger")), max_size=40))
def test_every_overlap_policy_does_what_the_model_does(policy: str, steps: list[str]) -> None:
    world, model = World(policy), Model(policy)
    for step in steps:
        if step == "close":
            latest = world.schedule.latest_workflow_instance_id
            world.open.discard(latest or "")
            model.close()
            continue
        if step == "tick":
            world.advance(10)
            model.drain()
            model.fire()
            world.tick()
        else:
            world.advance(0.001)
            model.fire()
            writer = world.writer()
            trigger(writer, None, world.new_id, "me")
            world.apply(writer)
        world.carry_out()
        found = (len(world.started), len(world.open), len(world.schedule.buffered_actions))
        assert found == (model.started, len(model.open), model.waiting)
        assert world.schedule.skipped_trigger_count == model.skipped
        assert world.schedule.fires_count == model.started == world.names().count("ScheduleTriggered")


@given(seed=st.integers(0, 2**32), policy=st.sampled_from(POLICIES))
def test_two_clocks_on_one_snapshot_order_the_same_start(seed: int, policy: str) -> None:
    """The second one to write finds the row changed; what both have ordered has one workflow id and request id."""
    rng = random.Random(seed)
    world = World(policy)
    for _ in range(10):
        world.advance(rng.choice((3, 10, 25)))
        snapshots = [world.snapshot(), world.snapshot()]
        writers = [ScheduleWriter(snapshot, world.now) for snapshot in snapshots]
        for writer in writers:
            evaluate(writer, world.new_id, "clock")
        ordered = [[(f.workflow_id, f.request_id, f.trigger_number) for f in writer.fires] for writer in writers]
        assert ordered[0] == ordered[1]
        world.apply(writers[0])
        late = ScheduleWriter(world.snapshot(), world.now)
        evaluate(late, world.new_id, "clock")
        assert late.fires == [], "under the lock nothing is due any more"
        world.carry_out()
        if rng.random() < 0.5:
            world.open.clear()


@given(max_runs=st.integers(1, 5), failures=st.lists(st.booleans(), min_size=20, max_size=20))
def test_as_many_runs_are_started_as_may_be_and_then_the_schedule_is_deleted(
    max_runs: int, failures: list[bool]
) -> None:
    world = World("allow_all", max_runs)
    for is_failing in failures:
        world.advance(10)
        world.tick()
        world.carry_out("failed" if is_failing else "started")
    started = min(max_runs, failures.count(False))
    assert len(world.started) == world.schedule.fires_count == started
    assert (world.schedule.status == "deleted") == (started == max_runs)
    if started == max_runs:
        assert world.events[-1].payload["reason"] == "max_runs_exhausted"


def test_a_clock_that_was_away_fires_once_and_goes_on_from_now() -> None:
    world = World("allow_all")
    world.advance(3601)
    world.tick()
    world.tick()
    assert len(world.pending) == 1
    assert world.schedule.next_occurrence_at == START + timedelta(seconds=3600 + 10)


def test_fires_under_way_count_as_an_open_run() -> None:
    world = World("skip")
    world.advance(10)
    world.tick()
    world.advance(10)
    world.tick()
    assert (len(world.pending), world.schedule.last_skip_reason) == (1, "overlap_policy_skip")


def test_a_fire_that_makes_room_names_the_run_before_and_waits_for_it_when_somebody_else_starts_that() -> None:
    world = World("cancel_other")
    world.advance(10)
    world.tick()
    world.advance(10)
    world.tick()
    first, second = world.pending
    assert (first.ends, first.lease_owner) == (None, "clock")
    assert (second.ends, second.ends_workflow_id, second.lease_owner) == ("cancel", first.workflow_id, None)


def test_a_backfill_buffers_nothing_and_fires_in_order() -> None:
    world = World("buffer_all")
    writer = world.writer()
    window = list(writer.schedule.timing.between(START, START + timedelta(seconds=50)))
    fired = backfill(writer, window, None, world.new_id, "me")
    assert [one.outcome for one in fired] == ["fired"] * 5
    assert [fire.occurrence_at for fire in writer.fires] == [START + timedelta(seconds=10 * k) for k in range(5)]
    again = backfill(writer, window, None, world.new_id, "me")
    assert {one.reason for one in again} == {"occurrence_already_started"}


def test_pausing_keeps_what_waits_and_deleting_drops_it() -> None:
    world = World("buffer_all")
    for _ in range(3):
        world.advance(10)
        world.tick()
        world.carry_out()
    assert len(world.schedule.buffered_actions) == 2
    writer = world.writer()
    pause(writer, None)
    world.apply(writer)
    world.open.clear()
    world.advance(100)
    world.tick()
    assert (len(world.pending), len(world.schedule.buffered_actions)) == (0, 2)
    writer = world.writer()
    resume(writer, "go")
    world.apply(writer)
    assert world.schedule.next_occurrence_at == START + timedelta(seconds=140)
    world.tick()
    assert (len(world.pending), len(world.schedule.buffered_actions)) == (1, 1)
    writer = world.writer()
    writer.delete("deleted_by_command")
    assert (writer.schedule.buffered_actions, writer.schedule.next_fire_at) == ([], None)


def test_a_change_that_takes_away_what_is_left_ends_the_schedule() -> None:
    world = World("allow_all", 5)
    world.advance(10)
    world.tick()
    world.carry_out()
    writer = world.writer()
    update(writer, ScheduleUpdate(max_runs=1))
    assert writer.schedule.status == "deleted"
    assert [event.event_type for event in writer.events] == ["ScheduleUpdated", "ScheduleDeleted"]


def test_what_an_earlier_generation_has_ordered_is_recorded_and_counted_nowhere() -> None:
    world = World()
    world.advance(10)
    world.tick()
    (fire,) = world.pending
    world.schedule.schedule_ulid = "01HY0000000000000000000000"
    world.carry_out()
    assert (world.schedule.fires_count, world.names()[-1]) == (0, "ScheduleTriggered")
    assert world.events[-1].payload["schedule_ulid"] == fire.schedule_ulid


@pytest.mark.parametrize("length", [1, 64, 128])
def test_workflow_ids_fit_and_tell_apart_schedules_of_one_id(length: int) -> None:
    schedule = World().schedule
    changed: dict[str, Any] = {"schedule_id": "s" * length}
    first = msgspec.structs.replace(schedule, **changed)
    second = msgspec.structs.replace(first, schedule_ulid="01HX000000000000000000000Z")
    ids = {workflow_id(one, at) for one in (first, second) for at in (START, START + timedelta(microseconds=1))}
    assert len(ids) == 4 and all(len(one) <= 128 for one in ids)
