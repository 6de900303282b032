"""Waiting in a seat until a task comes or the window is over."""

from __future__ import annotations

import asyncio

from dw_matching.broker import Broker
from dw_matching.seats import Seat
from dw_runtime.pump.claims import Claimed


async def wait_in(broker: Broker, seat: Seat, timeout_seconds: float) -> Claimed | None:
    """The task claimed for this seat, or None after ``timeout_seconds``.

    A task that is granted in the moment the window closes is still returned: the lease is committed.
    """
    if seat.is_single_look:
        return await seat.future
    timer = asyncio.get_running_loop().call_later(timeout_seconds, _close_window, broker, seat)
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
