"""Seats: the polls that this process holds, by queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from dw_core.engine.claims import Claimant
from dw_core.engine.rows import Task
from dw_core.engine.transition import WakeKey
from dw_core.limits import HISTORY_PAGE_SIZE_DEFAULT, LONG_POLL_DEFAULT_SECONDS
from dw_core.workers.admission import QueueLimits
from dw_matching.query_claims import ClaimedQuery
from dw_runtime.pump.claims import LEASES_UNLIMITED, Claimed, Owner, Want

Grant = Claimed | ClaimedQuery
"""A task leased to a poll."""

Fit = tuple[frozenset[str] | None, str | None, bool]
"""What a poll can take: task types (None: any), the build id of its worker, and whether it may take cancelled runs."""


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A long poll, as the bridges take it.

    ``types`` None takes any task type; an empty set takes none. ``timeout_seconds`` 0 looks once. ``page_size`` counts
    history events of the first page, ``accept_encoding`` asks for a compressed one. ``is_cooperative`` polls may be
    given runs that are to be cancelled. ``on_hold`` is called with a function that ends the poll, for a caller that
    notices that its client has gone. ``leases_max`` caps the leases of its worker, ``sessions_max`` the
    sessions, which need ``capabilities``; ``on_throttled`` is called when the
    poll ends without a task and a cap was the reason.
    """

    namespace: str
    task_queue: str
    lease_owner: str
    types: frozenset[str] | None
    build_id: str | None = None
    poll_request_id: str | None = None
    timeout_seconds: float = LONG_POLL_DEFAULT_SECONDS
    page_size: int = HISTORY_PAGE_SIZE_DEFAULT
    accept_encoding: str | None = None
    is_cooperative: bool = False
    leases_max: int = LEASES_UNLIMITED
    capabilities: frozenset[str] = frozenset()
    sessions_max: int = 0
    on_hold: Callable[[Callable[[], None]], None] | None = None
    on_throttled: Callable[[], None] | None = None


class Seat(msgspec.Struct, eq=False):
    """One held poll. ``future`` gives the claimed task, or None when the poll ends without one.

    ``is_unchecked`` until its request id has been compared with earlier leases; ``is_claiming`` while a transaction
    may grant it a task, which began after ``looked_after_wakes`` wakes of its queue; ``is_over`` when its window has
    closed meanwhile; ``is_single_look`` for a poll that ends with the first look. ``leases_max`` caps the leases of its
    worker and ``limits`` those of its queue; ``is_throttled`` when the newest look was stopped by such a cap.
    """

    key: WakeKey
    claimant: Claimant
    types: frozenset[str] | None
    build_id: str | None
    page_size: int
    future: asyncio.Future[Grant | None]
    is_unchecked: bool
    is_single_look: bool = False
    is_claiming: bool = False
    looked_after_wakes: int = 0
    is_over: bool = False
    leases_max: int = LEASES_UNLIMITED
    limits: QueueLimits | None = None
    is_throttled: bool = False
    capabilities: frozenset[str] = frozenset()
    sessions_max: int = 0

    @property
    def fit(self) -> Fit:
        """What this poll can take."""
        return self.types, self.build_id, self.claimant.is_cooperative

    def takes(self, task: Task) -> bool:
        """A pinned task goes only to its build, an unpinned one to any (worker-plane §7.6); a new task that is reserved
        goes only to that worker."""
        return (
            (self.types is None or task.task_type in self.types)
            and task.compatibility in (None, self.build_id)
            and task.reserved_for in (None, self.claimant.lease_owner)
        )

    @property
    def owner(self) -> Owner:
        """Whose leases a grant counts among."""
        return self.key.namespace, self.key.kind, self.claimant.lease_owner

    def want(self, *, is_shared: bool = False, is_sessioned: bool = False) -> Want:
        """What the pump needs to know of this poll; ``is_shared`` when fairness keys are in use on its queue,
        ``is_sessioned`` when activities of worker sessions wait there."""
        return Want(
            key=self.key,
            claimant=self.claimant,
            types=self.types,
            build_id=self.build_id,
            page_size=self.page_size,
            is_retry_unchecked=self.is_unchecked,
            token=self,
            leases_max=self.leases_max,
            limits=self.limits,
            is_shared=is_shared,
            capabilities=self.capabilities,
            sessions_max=self.sessions_max,
            is_sessioned=is_sessioned,
        )


class Queue:
    """The seats of one queue, those that no transaction is claiming for in ``idle``, in order of arrival.

    ``wakes`` counts the wakes heard; ``empty_for`` are the fits that have found nothing since the last one. Fairness
    keys count as in use until ``shared_until`` on the monotonic clock, worker sessions until ``sessioned_until``.
    """

    __slots__ = ("empty_for", "idle", "seats", "sessioned_until", "shared_until", "wakes", "woken_at")

    def __init__(self) -> None:
        self.seats: dict[Seat, None] = {}
        self.idle: dict[Seat, None] = {}
        self.empty_for: set[Fit] = set()
        self.wakes = 0
        self.woken_at: float | None = None
        self.shared_until = 0.0
        self.sessioned_until = 0.0

    def add(self, seat: Seat) -> None:
        """A poll arrives."""
        self.seats[seat] = None
        self.idle[seat] = None

    def remove(self, seat: Seat) -> None:
        """A poll ends."""
        del self.seats[seat]
        self.idle.pop(seat, None)

    def begin_claim(self, seat: Seat) -> Want:
        """A transaction may grant this seat a task."""
        seat.is_claiming = True
        seat.looked_after_wakes = self.wakes
        del self.idle[seat]
        now = time.monotonic()
        return seat.want(is_shared=self.shared_until > now, is_sessioned=self.sessioned_until > now)

    def end_claim(self, seat: Seat) -> None:
        """The transaction has ended without a task for this seat."""
        seat.is_claiming = False
        if seat in self.seats:
            self.idle[seat] = None

    def hear(self) -> None:
        """A wake, or the news that wakes may have been lost."""
        self.empty_for.clear()
        self.wakes += 1
