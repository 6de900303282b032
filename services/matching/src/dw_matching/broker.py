"""The poll broker: who waits on which queue, and when a queue is worth looking at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from dw_core.engine.claims import Claimant
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_runtime.pump.claims import Claimed, Want
from dw_runtime.telemetry.metrics import Metrics
from dw_runtime.wake.bus import WakeBus

BUSY_PAUSE_SECONDS: Final = 0.005
"""When ready tasks were passed over because another transaction held their run, look again after this."""

METRIC_KIND: Final = {TaskKind.WORKFLOW: "workflow_task", TaskKind.ACTIVITY: "activity_task"}


class Seat(msgspec.Struct, eq=False):
    """One held poll. ``future`` gives the claimed task, or None when the poll ends without one.

    ``is_claiming`` while a transaction may grant it a task, which began after ``looked_after_wakes`` wakes of its
    queue; ``is_over`` when its window has closed meanwhile.
    """

    key: WakeKey
    claimant: Claimant
    types: frozenset[str] | None
    build_id: str | None
    page_size: int
    future: asyncio.Future[Claimed | None]
    is_retry_unchecked: bool
    is_single_look: bool = False
    is_claiming: bool = False
    looked_after_wakes: int = 0
    is_over: bool = False

    def want(self) -> Want:
        """What the pump needs to know of this poll."""
        return Want(
            key=self.key,
            claimant=self.claimant,
            types=self.types,
            build_id=self.build_id,
            page_size=self.page_size,
            is_retry_unchecked=self.is_retry_unchecked,
            token=self,
        )


class _Queue:
    """The seats of one queue. ``wakes`` counts the wakes heard; ``empty_for`` are the kinds of poll that have found
    nothing since the last one."""

    __slots__ = ("empty_for", "seats", "wakes", "woken_at")

    def __init__(self) -> None:
        self.seats: dict[Seat, None] = {}
        self.empty_for: set[object] = set()
        self.wakes = 0
        self.woken_at: float | None = None


class Broker:
    """Holds polls and asks the pump to look at their queues when there is a reason.

    A queue is looked at when a poll arrives and the queue is not known to be empty, when a wake names it, and when the
    once-a-second tick has found something ready. An idle poll costs no SQL. ``probe`` hands keys to the pump;
    ``release`` gives back a task that was leased to a poll whose client had gone.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        probe: Callable[[Iterable[WakeKey]], None],
        release: Callable[[Claimed], None],
    ) -> None:
        self._metrics = metrics
        self._probe = probe
        self._release = release
        self._bus: WakeBus | None = None
        self._queues: dict[WakeKey, _Queue] = {}
        self._earlier: dict[tuple[WakeKey, str, str], Seat] = {}
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
    ) -> Seat:
        """Hold a poll. A repeat of a held poll takes its place; the old connection is dead (worker-plane §7.5).

        ``is_single_look`` ends the poll with the first look at its queue: a poll with a window of 0 seconds.
        """
        seat = Seat(
            key=key,
            claimant=claimant,
            types=types,
            build_id=build_id,
            page_size=page_size,
            future=asyncio.get_running_loop().create_future(),
            is_retry_unchecked=claimant.poll_request_id is not None,
            is_single_look=is_single_look,
        )
        if claimant.poll_request_id is not None:
            identity = (key, claimant.lease_owner, claimant.poll_request_id)
            earlier = self._earlier.get(identity)
            if earlier is not None:
                self.leave(earlier)
            self._earlier[identity] = seat
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            if self._bus is not None:
                self._bus.listen(key)
        queue.seats[seat] = None
        self._metrics.poll_waiters[METRIC_KIND[key.kind]].inc()
        if self._is_closed:
            self.leave(seat)
        elif (types, build_id) not in queue.empty_for:
            self._probe((key,))
        elif is_single_look:
            self.leave(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """End a poll without a task: its window is over, its client has gone, or this process drains."""
        queue = self._queues.get(seat.key)
        if queue is None or seat not in queue.seats:
            return
        del queue.seats[seat]
        self._metrics.poll_waiters[METRIC_KIND[seat.key.kind]].dec()
        request_id = seat.claimant.poll_request_id
        if request_id is not None:
            identity = (seat.key, seat.claimant.lease_owner, request_id)
            if self._earlier.get(identity) is seat:
                del self._earlier[identity]
        if not seat.future.done():
            seat.future.set_result(None)

    def close(self) -> None:
        """End every poll and hold no more."""
        self._is_closed = True
        for queue in list(self._queues.values()):
            for seat in list(queue.seats):
                self.leave(seat)

    def end_polls_of(self, namespace: str, worker_id: str) -> None:
        """End the polls of one worker: its cohort has been drained."""
        for key, queue in list(self._queues.items()):
            if key.namespace == namespace:
                for seat in [seat for seat in queue.seats if seat.claimant.lease_owner == worker_id]:
                    self.leave(seat)

    # -- reasons to look ---------------------------------------------------------------------------------------------

    def wake(self, key: WakeKey) -> None:
        """A queue may have something ready."""
        queue = self._queues.get(key)
        if queue is None:
            return
        queue.empty_for.clear()
        queue.wakes += 1
        queue.woken_at = queue.woken_at or time.monotonic()
        if queue.seats:
            self._probe((key,))

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        """A task of this queue becomes due in ``seconds``."""
        if key in self._queues and not self._is_closed:
            asyncio.get_running_loop().call_later(seconds, self.wake, key)

    def forget(self) -> None:
        """Signals may have been lost: no queue is known to be empty."""
        for queue in self._queues.values():
            queue.empty_for.clear()
            queue.wakes += 1

    def held(self) -> list[WakeKey]:
        """The queues with polls; queues that nobody waits on any more are dropped."""
        for key in [key for key, queue in self._queues.items() if not queue.seats]:
            del self._queues[key]
            if self._bus is not None:
                self._bus.ignore(key)
        return list(self._queues)

    def unchecked_requests(self) -> list[str]:
        """Request ids of held polls that have not been compared with earlier leases; they now count as compared."""
        found = []
        for queue in self._queues.values():
            for seat in queue.seats:
                if seat.is_retry_unchecked and seat.claimant.poll_request_id is not None:
                    found.append(seat.claimant.poll_request_id)
                    seat.is_retry_unchecked = False
        return found

    def recheck(self, request_ids: Iterable[str]) -> None:
        """These polls repeat earlier ones that still hold leases: look them up with the next probe."""
        wanted = set(request_ids)
        for key, queue in self._queues.items():
            for seat in queue.seats:
                if seat.claimant.poll_request_id in wanted:
                    seat.is_retry_unchecked = True
                    self._probe((key,))

    # -- the pump's side ---------------------------------------------------------------------------------------------

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        """The polls on these queues that no other transaction is claiming for, in order of arrival."""
        found: list[Want] = []
        now = time.monotonic()
        for key in keys:
            queue = self._queues.get(key)
            if queue is None:
                continue
            if queue.woken_at is not None:
                self._metrics.wake_lag_seconds.observe(now - queue.woken_at)
                queue.woken_at = None
            for seat in queue.seats:
                if not (seat.is_claiming or seat.is_over):
                    seat.is_claiming = True
                    seat.looked_after_wakes = queue.wakes
                    found.append(seat.want())
        return found

    def settle(
        self, wants: Sequence[Want], granted: Sequence[tuple[Want, Claimed]], leftover: set[WakeKey], *, looked: bool
    ) -> None:
        """The transaction has ended: hand out what it granted and remember which queues it found empty."""
        for want, claimed in granted:
            self._deliver(_seat(want), claimed)
        again: set[WakeKey] = set()
        for want in wants:
            seat = _seat(want)
            queue = self._queues.get(want.key)
            seat.is_claiming = False
            # A failed commit may have leased a task all the same; the next look compares request ids first.
            seat.is_retry_unchecked = not looked and seat.claimant.poll_request_id is not None
            if seat.is_over or seat.is_single_look:
                self.leave(seat)
            if not looked or queue is None or seat not in queue.seats or want.key in leftover:
                continue
            if queue.wakes == seat.looked_after_wakes:
                queue.empty_for.add((seat.types, seat.build_id))
            else:
                again.add(want.key)
        self._probe(again)
        for key in leftover:
            asyncio.get_running_loop().call_later(BUSY_PAUSE_SECONDS, self.wake, key)

    def _deliver(self, seat: Seat, claimed: Claimed) -> None:
        if seat.future.done():
            self._release(claimed)
            return
        self._metrics.claims[METRIC_KIND[seat.key.kind]].inc()
        seat.future.set_result(claimed)
        self.leave(seat)


def _seat(want: Want) -> Seat:
    assert isinstance(want.token, Seat)
    return want.token
