"""Where new runs of a queue go: which build they are pinned to, and whether anybody is left to take them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dw_core.engine.transition import Rejection


class BuildWish(msgspec.Struct, frozen=True, kw_only=True):
    """What operators want of a cohort; None is the unversioned one."""

    build_id: str | None
    is_draining: bool
    is_selected: bool


class CohortSize(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a cohort."""

    build_id: str | None
    live: int
    stale: int


class QueueRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with a wish about one of its builds at least, and the workers that serve it."""

    namespace: str
    queue: str
    intents: Sequence[BuildWish]
    cohorts: Sequence[CohortSize]

    @property
    def selected_build(self) -> str | None:
        """The build that a new run is pinned to when it asks for none."""
        return next((intent.build_id for intent in self.intents if intent.is_selected), None)

    def refuse(self, pin: str | None) -> Rejection | None:
        """Why a new run would wait for ever: all live workers that could take it are being drained (§12)."""
        drained = {intent.build_id for intent in self.intents if intent.is_draining}
        able = [cohort for cohort in self.cohorts if pin is None or cohort.build_id == pin]
        active = sum(cohort.live for cohort in able if cohort.build_id not in drained)
        draining = sum(cohort.live for cohort in able if cohort.build_id in drained)
        if active or not draining:
            return None
        return Rejection(
            "task_queue_draining",
            f"Every worker of task queue {self.queue} that could take this run is being drained.",
            {
                "task_queue": self.queue,
                "routing_status": "draining",
                "active_worker_count": 0,
                "draining_worker_count": draining,
                "stale_worker_count": sum(cohort.stale for cohort in able),
                "draining_build_ids": sorted(drained, key=lambda build_id: build_id or ""),
                "drain_intent": "draining",
            },
        )
