"""Metrics of the whole deployment, which processes of the worker plane read from the database now and then.

Every such process gives the same numbers, so take the maximum over processes, never the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from dw_runtime.telemetry.spec import MetricSpec

QUEUE_KINDS: Final = ("workflow_task", "activity_task")
"""Kinds of task that wait in queues, by their number in the database."""

OVERDUE: Final = ("timer", "schedule", "schedule_fire", "task_deadline")
STUCK_REASONS: Final = ("replay_blocked", "task_failing")

_QUEUE: Final = {
    "workflow_namespace": "a namespace",
    "task_queue": "a task queue of it",
    "kind": ", ".join(QUEUE_KINDS),
}
_EVERYWHERE: Final = "Read from the database by every process of the worker plane: take the maximum."

QUEUE_READY: Final = MetricSpec(
    name="dw_task_queue_ready_tasks",
    kind="gauge",
    help=f"Tasks that are due and wait for a worker; at most 1000 of a queue are counted. {_EVERYWHERE}",
    labels=_QUEUE,
)
QUEUE_LEASED: Final = MetricSpec(
    name="dw_task_queue_leased_tasks",
    kind="gauge",
    help=f"Tasks that workers hold; at most 1000 of a queue are counted. {_EVERYWHERE}",
    labels=_QUEUE,
)
QUEUE_OLDEST: Final = MetricSpec(
    name="dw_task_queue_oldest_ready_seconds",
    kind="gauge",
    help=f"How long the oldest of the tasks counted as ready has been due. {_EVERYWHERE}",
    labels=_QUEUE,
)
QUEUES_LEFT_OUT: Final = MetricSpec(
    name="dw_task_queues_left_out",
    kind="gauge",
    help="1 when there are more queues with tasks than DW_METRICS_PROMETHEUS_TASK_QUEUE_SERIES_LIMIT, and the last of "
    "them by name have no series; otherwise 0.",
)
OVERDUE_SECONDS: Final = MetricSpec(
    name="dw_overdue_seconds",
    kind="gauge",
    help=f"How long the oldest thing that is due has not been done; 0 when nothing is late. {_EVERYWHERE}",
    labels={"what": ", ".join(OVERDUE)},
)
STUCK_RUNS: Final = MetricSpec(
    name="dw_stuck_runs",
    kind="gauge",
    help="Open runs whose code cannot replay them, and runs whose workflow task waits after it was handed out five "
    f"times or more; at most 1000 are counted, of each queue. {_EVERYWHERE}",
    labels={"reason": ", ".join(STUCK_REASONS)},
)

SAMPLED: Final = (QUEUE_READY, QUEUE_LEASED, QUEUE_OLDEST, QUEUES_LEFT_OUT, OVERDUE_SECONDS, STUCK_RUNS)


class QueueSample(msgspec.Struct, frozen=True):
    """How one queue stands; ``kind`` is an index of :data:`QUEUE_KINDS`, ``failing`` a part of ``ready``."""

    namespace: str
    queue: str
    kind: int
    ready: int
    leased: int
    oldest_ready_seconds: float
    failing: int


class Sampled:
    """The gauges; queues that have no tasks any more lose their series with the next sample."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(spec: MetricSpec) -> Gauge:
            return Gauge(spec.name, spec.help, list(spec.labels), registry=registry)

        self._ready, self._leased, self._oldest = gauge(QUEUE_READY), gauge(QUEUE_LEASED), gauge(QUEUE_OLDEST)
        self._left_out = gauge(QUEUES_LEFT_OUT)
        overdue, stuck = gauge(OVERDUE_SECONDS), gauge(STUCK_RUNS)
        self._overdue, self._stuck = overdue, stuck

    def set_queues(self, samples: Iterable[QueueSample], *, limit: int) -> None:
        """Replace the series of all queues by those of the first ``limit`` samples."""
        samples = list(samples)
        for family in (self._ready, self._leased, self._oldest):
            family.clear()
        for sample in samples[:limit]:
            labels = (sample.namespace, sample.queue, QUEUE_KINDS[sample.kind])
            self._ready.labels(*labels).set(sample.ready)
            self._leased.labels(*labels).set(sample.leased)
            self._oldest.labels(*labels).set(sample.oldest_ready_seconds)
        self._left_out.set(len(samples) > limit)

    def set_delays(self, overdue_seconds: Mapping[str, float], stuck_runs: Mapping[str, int]) -> None:
        """Set what is late, by :data:`OVERDUE`, and who is stuck, by :data:`STUCK_REASONS`."""
        for what in OVERDUE:
            self._overdue.labels(what).set(overdue_seconds[what])
        for reason in STUCK_REASONS:
            self._stuck.labels(reason).set(stuck_runs[reason])

    def clear(self) -> None:
        """Forget everything: what could not be read anew must not look like the present."""
        for family in (self._ready, self._leased, self._oldest, self._overdue, self._stuck):
            family.clear()
