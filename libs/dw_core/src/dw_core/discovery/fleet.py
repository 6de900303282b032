"""The dynamic blocks about workers and repair, and what they are when nothing could be measured."""

from __future__ import annotations

from typing import Any

import msgspec

WORKERS_MAX = 100
"""Workers listed in ``worker_fleet``, newest first; more set ``workers_truncated``."""

SCAN_LIMIT = 25
_SCAN_STRATEGY = "scope_fair_round_robin"


class FleetWorker(msgspec.Struct, frozen=True, kw_only=True):
    """An active worker as cluster info shows it; times are in wire form."""

    worker_id: str
    queues: list[str]
    build_ids: list[str]
    recorded_at: str
    expires_at: str


def worker_fleet(namespace: str, workers: list[FleetWorker]) -> dict[str, Any]:
    """The ``worker_fleet`` block for the active workers of a namespace, newest first (topology §3.3.4).

    ``active_worker_scopes`` counts the distinct pairs of worker and queue.
    """
    return {
        "namespace": namespace,
        "active_workers": len({worker.worker_id for worker in workers}),
        "active_worker_scopes": len({(worker.worker_id, queue) for worker in workers for queue in worker.queues}),
        "queues": sorted({queue for worker in workers for queue in worker.queues}),
        "build_ids": sorted({build for worker in workers for build in worker.build_ids}),
        "workers": [msgspec.to_builtins(worker) for worker in workers[:WORKERS_MAX]],
        "workers_truncated": len(workers) > WORKERS_MAX,
    }
