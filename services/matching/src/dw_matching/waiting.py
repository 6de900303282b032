"""Waiting in a seat until a task comes or the window is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dw_core.engine.claims import Claimant
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_matching.broker import Broker
from dw_matching.seats import Grant, Poll, Seat


async def wait_for_task(broker: Broker, poll: Poll, kind: TaskKind, lease_seconds: int) -> Grant | None:
    """Hold a poll; the task it was granted, or None after its window.

    A task that is granted in the moment the window closes is still returned: the lease is committed.
    """
    seat = _take(broker, poll, kind, lease_seconds)
    if poll.on_hold is not None:
        poll.on_hold(lambda: broker.hang_up(seat))
    return await _wait(broker, poll, (seat,))


async def wait_for_either(broker: Broker, poll: Poll, kinds: Sequence[tuple[TaskKind, int]]) -> Grant | None:
    """Hold one poll for several kinds of task, each with the seconds of its lease; like :func:`wait_for_task`.

    The kinds are asked in the given order. What a second kind grants in the same moment is given back.
    """
    seats = [_take(broker, poll, kind, lease_seconds) for kind, lease_seconds in kinds]

    def hang_up() -> None:
        for seat in seats:
            broker.hang_up(seat)

    if poll.on_hold is not None:
        poll.on_hold(hang_up)
    return await _wait(broker, poll, seats)


def _take(broker: Broker, poll: Poll, kind: TaskKind, lease_seconds: int) -> Seat:
    return broker.take_seat(
        WakeKey(poll.namespace, kind, poll.task_queue),
        Claimant(
            lease_owner=poll.lease_owner,
            poll_request_id=poll.poll_request_id or None,
            lease_seconds=lease_seconds,
            is_cooperative=poll.is_cooperative,
        ),
        types=poll.types,
        build_id=poll.build_id,
        page_size=poll.page_size,
        is_single_look=poll.timeout_seconds == 0,
        leases_max=poll.leases_max,
        capabilities=poll.capabilities,
        sessions_max=poll.sessions_max,
    )


async def _wait(broker: Broker, poll: Poll, seats: Sequence[Seat]) -> Grant | None:
    granted = await _granted(broker, poll, seats)
    if granted is None and poll.on_throttled is not None and any(seat.is_throttled for seat in seats):
        poll.on_throttled()
    return granted


async def _granted(broker: Broker, poll: Poll, seats: Sequence[Seat]) -> Grant | None:
    timers = [
        asyncio.get_running_loop().call_later(poll.timeout_seconds, _close_window, broker, seat)
        for seat in seats
        if not seat.is_single_look
    ]
    granted: list[Grant] = []
    try:
        if len(seats) == 1:
            return await seats[0].future
        waiting = {seat.future for seat in seats}
        while waiting and not granted:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            granted = [grant for future in done if (grant := future.result()) is not None]
    finally:
        for timer in timers:
            timer.cancel()
        for seat in seats:
            broker.leave(seat)
    for extra in granted[1:]:
        broker.give_back(extra)
    return granted[0] if granted else None


def _close_window(broker: Broker, seat: Seat) -> None:
    """End the poll, unless a transaction is claiming for it right now: that one ends it, with or without a task."""
    seat.is_over = True
    if not seat.is_claiming:
        broker.leave(seat)
