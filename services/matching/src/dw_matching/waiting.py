"""Waiting in a seat until a task comes or the window is over."""

from __future__ import annotations

import asyncio

from dw_core.engine.claims import Claimant
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_matching.broker import Broker
from dw_matching.seats import Grant, Poll, Seat


async def wait_for_task(broker: Broker, poll: Poll, kind: TaskKind, lease_seconds: int) -> Grant | None:
    """Hold a poll; the task it was granted, or None after its window.

    A task that is granted in the moment the window closes is still returned: the lease is committed.
    """
    seat = broker.take_seat(
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
    )
    if poll.on_hold is not None:
        poll.on_hold(lambda: broker.hang_up(seat))
    granted = await _granted(broker, poll, seat)
    if granted is None and seat.is_throttled and poll.on_throttled is not None:
        poll.on_throttled()
    return granted


async def _granted(broker: Broker, poll: Poll, seat: Seat) -> Grant | None:
    if seat.is_single_look:
        return await seat.future
    timer = asyncio.get_running_loop().call_later(poll.timeout_seconds, _close_window, broker, seat)
    try:
        return await seat.future
    finally:
        timer.cancel()
        broker.leave(seat)


def _close_window(broker: Broker, seat: Seat) -> None:
    """End the poll, unless a transaction is claiming for it right now: that one ends it, with or without a task."""
    seat.is_over = True
    if not seat.is_claiming:
        broker.leave(seat)
