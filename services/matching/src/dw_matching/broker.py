"""The poll broker: who waits on which queue, and when a queue is worth looking at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dw_core.engine.claims import Claimant
from dw_core.engine.rows import Task, TaskKind
from dw_core.engine.sticky import replay_mode
from dw_core.engine.transition import WakeKey
from dw_core.workers.admission import AdmissionRules
from dw_matching.seats import Grant, Queue, Seat
from dw_runtime.pump.claims import LEASES_UNLIMITED, Claimed, Looked, Owner, Want
from dw_runtime.telemetry.metrics import Metrics
from dw_runtime.wake.bus import WakeBus

BUSY_PAUSE_SECONDS: Final = 0.005
"""When ready tasks were passed over because another transaction held their run, look again after this."""

QUERY_PAUSE_SECONDS: Final = 0.05
"""The same for queries that wait for the end of their run's leased workflow task."""

SHARED_SECONDS: Final = 60.0
"""How long a queue is claimed from under its lock after tasks with a fairness key have been seen on it."""

METRIC_KIND: Final = {
    TaskKind.WORKFLOW: "workflow_task",
    TaskKind.ACTIVITY: "activity_task",
    TaskKind.QUERY: "query_task",
    TaskKind.UPDATE_VALIDATION: "update_validation_task",
}

Identity = tuple[WakeKey, str, str]


class Broker:
    """Holds polls and asks a claimer to look at their queues when there is a reason.

    The claimer is the pump; that of query tasks, which no run's lock may delay, stands beside it.

    A queue is looked at when a poll arrives and the queue is not known to be empty for it, when a wake names it, and
    when the once-a-second lookout has found something ready. An idle poll costs no SQL. ``probe`` hands keys to their
    claimer; ``release`` gives back a task that was leased to a poll whose client had gone; ``hung_up`` is told of
    workers (namespace, id) whose client went away during a poll; ``rules`` are the caps of queues.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        probe: Callable[[Iterable[WakeKey]], None],
        release: Callable[[Grant], None],
        hung_up: Callable[[str, str], None] = lambda namespace, worker_id: None,
        rules: AdmissionRules | None = None,
    ) -> None:
        self._rules = rules or AdmissionRules()
        self._rooms: dict[Owner, int] = {}
        self._metrics = metrics
        self._probe = probe
        self._release = release
        self._hung_up = hung_up
        self._bus: WakeBus | None = None
        self.queues: dict[WakeKey, Queue] = {}
        self._by_request: dict[Identity, Seat] = {}
        self._unchecked: dict[Seat, None] = {}
        self._is_closed = False

    def attach(self, bus: WakeBus) -> None:
        """Hear of wakes from other processes through this bus."""
        self._bus = bus

    # -- polls -------------------------------------------------------------------------------------------------------

    def take_seat(
        self,
        key: WakeKey,
        claimant: Claimant,
        *,
        types: frozenset[str] | None,
        build_id: str | None,
        page_size: int,
        is_single_look: bool = False,
        leases_max: int = LEASES_UNLIMITED,
        capabilities: frozenset[str] = frozenset(),
        sessions_max: int = 0,
    ) -> Seat:
        """Hold a poll. A repeat of a held poll takes its place; the old connection is dead (worker-plane §7.5).

        ``is_single_look`` ends the poll with the first look at its queue: a poll with a window of 0 seconds.
        ``leases_max`` caps the leases of its worker and ``sessions_max`` its sessions, which need ``capabilities``.
        """
        seat = Seat(
            key=key,
            claimant=claimant,
            types=types,
            build_id=build_id,
            page_size=page_size,
            future=asyncio.get_running_loop().create_future(),
            is_unchecked=claimant.poll_request_id is not None,
            is_single_look=is_single_look,
            leases_max=leases_max,
            limits=self._rules.limits(key.namespace, key.kind, key.queue),
            capabilities=capabilities,
            sessions_max=sessions_max,
        )
        if claimant.poll_request_id is not None:
            identity = (key, claimant.lease_owner, claimant.poll_request_id)
            earlier = self._by_request.get(identity)
            if earlier is not None:
                self.leave(earlier)
            self._by_request[identity] = seat
            self._unchecked[seat] = None
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = Queue()
            if self._bus is not None:
                self._bus.listen(key)
        queue.add(seat)
        self._metrics.poll_waiters[METRIC_KIND[key.kind]].inc()
        if self._is_closed:
            self.leave(seat)
        elif is_single_look or seat.fit not in queue.empty_for:
            self._probe((key,))
        return seat

    def leave(self, seat: Seat) -> None:
        """End a poll without a task: its window is over, its client has gone, or this process drains."""
        queue = self.queues.get(seat.key)
        if queue is None or seat not in queue.seats:
            return
        queue.remove(seat)
        self._unchecked.pop(seat, None)
        self._metrics.poll_waiters[METRIC_KIND[seat.key.kind]].dec()
        request_id = seat.claimant.poll_request_id
        if request_id is not None:
            identity = (seat.key, seat.claimant.lease_owner, request_id)
            if self._by_request.get(identity) is seat:
                del self._by_request[identity]
        if not seat.future.done():
            if seat.is_throttled:
                self._metrics.polls_throttled[METRIC_KIND[seat.key.kind]].inc()
            seat.future.set_result(None)

    def hang_up(self, seat: Seat) -> None:
        """End a poll whose client has gone away."""
        self.leave(seat)
        self._hung_up(seat.key.namespace, seat.claimant.lease_owner)

    def owners(self) -> set[tuple[str, str]]:
        """The workers, by namespace and id, that hold a poll here."""
        return {
            (key.namespace, seat.claimant.lease_owner) for key, queue in self.queues.items() for seat in queue.seats
        }

    def close(self) -> None:
        """End every poll and hold no more."""
        self._is_closed = True
        for queue in list(self.queues.values()):
            for seat in list(queue.seats):
                self.leave(seat)

    def end_polls_of(self, namespace: str, worker_id: str) -> None:
        """End the polls of one worker, which may take no more tasks."""
        for key, queue in list(self.queues.items()):
            if key.namespace == namespace:
                for seat in [seat for seat in queue.seats if seat.claimant.lease_owner == worker_id]:
                    self.leave(seat)

    # -- reasons to look ---------------------------------------------------------------------------------------------

    def wake(self, key: WakeKey) -> None:
        """A queue may have something ready."""
        queue = self.queues.get(key)
        if queue is None:
            return
        queue.hear()
        queue.woken_at = queue.woken_at or time.monotonic()
        if queue.seats:
            self._probe((key,))

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        """A task of this queue becomes due in ``seconds``."""
        if key in self.queues and not self._is_closed:
            asyncio.get_running_loop().call_later(seconds, self.wake, key)

    def forget(self) -> None:
        """Signals may have been lost: no queue is known to be empty."""
        for queue in self.queues.values():
            queue.hear()

    def held(self) -> list[WakeKey]:
        """The queues with polls; queues that nobody waits on any more are dropped."""
        for key in [key for key, queue in self.queues.items() if not queue.seats]:
            del self.queues[key]
            if self._bus is not None:
                self._bus.ignore(key)
        present = {seat.owner for queue in self.queues.values() for seat in queue.seats}
        self._rooms = {owner: room for owner, room in self._rooms.items() if owner in present}
        return list(self.queues)

    # -- repeated polls ----------------------------------------------------------------------------------------------

    def unchecked(self, *, with_queries: bool = False) -> list[Claimant]:
        """The claimants of held polls that have not been compared with earlier leases yet.

        The leases of query tasks are not the pump's: their polls are named only ``with_queries``.
        """
        return [seat.claimant for seat in self._unchecked if with_queries or not seat.key.kind.is_asked]

    def checked(self, claimants: Sequence[Claimant], repeated: Iterable[str]) -> None:
        """These have been compared. Polls among ``repeated`` stay unchecked; a probe gives them their lease."""
        compared, again = {id(claimant) for claimant in claimants}, set(repeated)
        for seat in list(self._unchecked):
            if seat.claimant.poll_request_id in again:
                self._probe((seat.key,))
            elif id(seat.claimant) in compared:
                self._check(seat)

    def _check(self, seat: Seat) -> None:
        seat.is_unchecked = False
        self._unchecked.pop(seat, None)

    # -- the claimer's side --------------------------------------------------------------------------------------------

    def take_idle(self, task: Task) -> Want | None:
        """The first poll that may take this task without a look: its queue is known to be empty for it.

        Caps must be known to leave room for it: those of a queue are known only under its lock, and how many leases a
        worker holds from the newest look.
        """
        queue = self.queues.get(WakeKey(task.namespace, task.kind, task.queue))
        if queue is None or not queue.empty_for:
            return None
        for seat in queue.idle:
            is_free = not (seat.is_over or seat.is_unchecked or seat.limits)
            room = self._rooms.get(seat.owner, 0)
            if is_free and room and seat.fit in queue.empty_for and seat.takes(task):
                self._rooms[seat.owner] = room - 1
                return queue.begin_claim(seat)
        return None

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        """The polls on these queues that no other transaction is claiming for, in order of arrival."""
        found: list[Want] = []
        now = time.monotonic()
        for key in keys:
            queue = self.queues.get(key)
            if queue is None:
                continue
            if queue.woken_at is not None:
                self._metrics.wake_lag_seconds.observe(now - queue.woken_at)
                queue.woken_at = None
            found += [queue.begin_claim(seat) for seat in list(queue.idle) if not seat.is_over]
        return found

    def settle(self, wants: Sequence[Want], granted: Sequence[tuple[Want, Grant]], looked: Looked | None) -> None:
        """The transaction has ended: hand out what it granted and remember which queues it found empty."""
        for want, claimed in granted:
            self._deliver(_seat(want), claimed)
        if looked is not None:
            self._rooms.update(looked.rooms)
            for key in looked.shared & self.queues.keys():
                self.queues[key].shared_until = time.monotonic() + SHARED_SECONDS
            for key in looked.sessioned & self.queues.keys():
                self.queues[key].sessioned_until = time.monotonic() + SHARED_SECONDS
                self.queues[key].empty_for.clear()
        throttled = set() if looked is None else {id(token) for token in looked.throttled}
        leftover: set[WakeKey] = set() if looked is None else looked.leftover
        again: set[WakeKey] = set()
        for want in wants:
            seat = _seat(want)
            queue = self.queues.get(want.key)
            if queue is None or seat not in queue.seats:
                continue
            queue.end_claim(seat)
            if looked is not None:
                self._check(seat)
                seat.is_throttled = id(seat) in throttled
            elif seat.claimant.poll_request_id is not None:
                # A failed commit may have leased a task all the same: compare before anything else is granted.
                seat.is_unchecked = True
                self._unchecked[seat] = None
            if seat.is_over or seat.is_single_look:
                self.leave(seat)
            elif looked is not None and want.key not in leftover and not seat.is_throttled:
                if queue.wakes == seat.looked_after_wakes:
                    # What waits for the holder of a session is nothing for others: each poll has to look itself.
                    if queue.sessioned_until <= time.monotonic():
                        queue.empty_for.add(seat.fit)
                else:
                    again.add(want.key)
        self._probe(again)
        for key in leftover:
            pause = QUERY_PAUSE_SECONDS if key.kind.is_asked else BUSY_PAUSE_SECONDS
            asyncio.get_running_loop().call_later(pause, self.wake, key)

    def give_back(self, claimed: Grant) -> None:
        """Release a task that nobody will work on."""
        self._release(claimed)

    def _deliver(self, seat: Seat, claimed: Grant) -> None:
        if seat.future.done():
            self._release(claimed)
            return
        self._metrics.claims[METRIC_KIND[seat.key.kind]].inc()
        mode = replay_mode(claimed.run, claimed.task) if isinstance(claimed, Claimed) else None
        if isinstance(claimed, Claimed) and claimed.session_outcome is not None:
            self._metrics.session_admissions[claimed.session_outcome].inc()
        if mode is not None:
            self._metrics.sticky_claims["hit" if mode == "sticky_hit_expected" else "miss"].inc()
        seat.future.set_result(claimed)
        self.leave(seat)


def _seat(want: Want) -> Seat:
    assert isinstance(want.token, Seat)
    return want.token
