"""Task queues as the control plane shows them: what waits, who serves it, and what holds it back (§19.2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.workers.admission import SECTIONS, QueueLimits

_KINDS = (TaskKind.WORKFLOW, TaskKind.ACTIVITY)


class KindCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one kind. ``late`` are ready longer than a dispatch may take, ``expired`` are leased no more in time."""

    kind: TaskKind
    ready: int = 0
    late: int = 0
    oldest_ready_at: datetime | None = None
    leased: int = 0
    expired: int = 0


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """One queue: its workers, the slots of the active ones by kind, and its tasks by kind."""

    name: str
    active_workers: int
    stale_workers: int
    draining_workers: int
    slots: Mapping[TaskKind, int]
    kinds: Mapping[TaskKind, KindCounts]
    pending_queries: int


class NamespaceUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a namespace uses of shared caps: leases by kind, dispatches of this minute by kind and scope."""

    leased: Mapping[TaskKind, int]
    dispatched: Mapping[tuple[TaskKind, str], int]
    now: datetime


def queue_document(
    state: QueueState, use: NamespaceUse, limits: Mapping[TaskKind, QueueLimits], queries_max: int
) -> dict[str, Any]:
    """A queue as it is listed; ``limits`` are its caps by kind, ``queries_max`` how many queries may wait."""
    return {
        "name": state.name,
        "stats": _stats(state, use.now),
        "repair": {
            "existing_task_candidates": sum(state.kinds[kind].late + state.kinds[kind].expired for kind in _KINDS),
            "dispatch_overdue": sum(state.kinds[kind].late for kind in _KINDS),
            "lease_expired": sum(state.kinds[kind].expired for kind in _KINDS),
        },
        "admission": {
            **{SECTIONS[kind]: _admission(state, use, kind, limits[kind]) for kind in _KINDS},
            "query_tasks": _query_admission(state.pending_queries, queries_max),
        },
    }


def _stats(state: QueueState, now: datetime) -> dict[str, Any]:
    waiting = [at for kind in _KINDS if (at := state.kinds[kind].oldest_ready_at) is not None]
    return {
        "approximate_backlog_count": sum(state.kinds[kind].ready for kind in _KINDS),
        "approximate_backlog_age": max(0, int((now - min(waiting)).total_seconds())) if waiting else 0,
        **{
            SECTIONS[kind]: {
                "ready_count": state.kinds[kind].ready,
                "leased_count": state.kinds[kind].leased,
                "expired_lease_count": state.kinds[kind].expired,
            }
            for kind in _KINDS
        },
        "pollers": {
            "active_count": state.active_workers + state.draining_workers,
            "stale_count": state.stale_workers,
        },
    }


def _admission(state: QueueState, use: NamespaceUse, kind: TaskKind, limits: QueueLimits) -> dict[str, Any]:
    counts, slots = state.kinds[kind], state.slots[kind]
    group = limits.budget_group
    scopes = {"queue": f"queue:{state.name}", "namespace": "namespace", "group": f"group:{group}"}
    sent = {name: use.dispatched.get((kind, scope), 0) for name, scope in scopes.items()}
    left = {
        "leases": _left(limits.queue_leases_max, counts.leased),
        "namespace_leases": _left(limits.namespace_leases_max, use.leased.get(kind, 0)),
        "dispatches": _left(limits.queue_dispatches_max, sent["queue"]),
        "namespace_dispatches": _left(limits.namespace_dispatches_max, sent["namespace"]),
        "group_dispatches": _left(limits.group_dispatches_max if group else None, sent["group"]),
    }
    available = max(0, slots - counts.leased)
    return {
        "status": _status(state.active_workers, slots, available, is_capped=0 in left.values()),
        "budget_source": f"worker_registration.max_concurrent_{SECTIONS[kind]}",
        "server_budget_source": "none" if limits.is_unlimited else "server_configuration",
        "active_worker_count": state.active_workers,
        "configured_slot_count": slots,
        "leased_count": counts.leased,
        "ready_count": counts.ready,
        "available_slot_count": available,
        "server_max_active_leases_per_queue": limits.queue_leases_max,
        "server_active_lease_count": counts.leased,
        "server_remaining_active_lease_capacity": left["leases"],
        "server_max_active_leases_per_namespace": limits.namespace_leases_max,
        "server_namespace_active_lease_count": use.leased.get(kind, 0),
        "server_remaining_namespace_active_lease_capacity": left["namespace_leases"],
        "server_max_dispatches_per_minute": limits.queue_dispatches_max,
        "server_dispatch_count_this_minute": sent["queue"],
        "server_remaining_dispatch_capacity": left["dispatches"],
        "server_max_dispatches_per_minute_per_namespace": limits.namespace_dispatches_max,
        "server_namespace_dispatch_count_this_minute": sent["namespace"],
        "server_remaining_namespace_dispatch_capacity": left["namespace_dispatches"],
        "server_dispatch_budget_group": group,
        "server_max_dispatches_per_minute_per_budget_group": limits.group_dispatches_max if group else None,
        "server_budget_group_dispatch_count_this_minute": sent["group"],
        "server_remaining_budget_group_dispatch_capacity": left["group_dispatches"],
        "server_lock_required": False,
        "server_lock_supported": True,
    }


def _status(workers: int, slots: int, available: int, *, is_capped: bool) -> str:
    """The first that holds (topology §5.8)."""
    if is_capped:
        return "throttled"
    if not workers:
        return "no_active_workers"
    if not slots:
        return "no_slots"
    return "accepting" if available else "saturated"


def _left(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(0, cap - used)


def _query_admission(pending: int, most: int) -> dict[str, Any]:
    return {
        "status": "accepting" if pending < most else "full",
        "budget_source": "server_configuration",
        "max_pending_per_queue": most,
        "approximate_pending_count": pending,
        "remaining_pending_capacity": max(0, most - pending),
        "lock_required": False,
        "lock_supported": True,
    }
