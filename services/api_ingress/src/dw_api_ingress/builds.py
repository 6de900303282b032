"""Build ids of a task queue: list, drain, resume, promote (control-plane §19.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import BuildId
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.database import Session
from dw_runtime.store.reads.builds import BuildCohort, BuildIntent, Builds, decode_intent

RELATION: Final = "build_id_rollouts"


class BuildHandlers:
    """Answers requests about the builds of a queue. Workers hear of a drain with their next poll or heartbeat."""

    def __init__(self, builds: Builds, auditor: Auditor) -> None:
        self._builds = builds
        self._auditor = auditor

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "build_id_list": self.all,
            "build_id_drain": self.drain,
            "build_id_resume": self.resume,
            "build_id_promote": self.promote,
        }

    async def all(self, call: Call) -> Reply:
        """Every cohort of the queue, also drained ones without workers."""
        queue = call.params["task_queue"]
        cohorts = await self._builds.of_queue(call.namespace, queue)
        return Reply(
            {
                "namespace": call.namespace,
                "task_queue": queue,
                "stale_after_seconds": self._builds.stale_after_seconds,
                "build_ids": [document(cohort) for cohort in cohorts],
            }
        )

    async def drain(self, call: Call) -> Reply:
        """Have a cohort take no more tasks; it keeps what it has leased."""
        return await self._set(call, "draining")

    async def resume(self, call: Call) -> Reply:
        """Let a cohort take tasks again."""
        return await self._set(call, "active")

    async def _set(self, call: Call, intent: str) -> Reply:
        body: BuildId = call.body
        queue, build_id = call.params["task_queue"], body.build_id or None
        async with self._changing(call, queue) as session:
            ((stored,),) = await session.rows("set_drain", call.namespace, queue, build_id or "", intent)
        return Reply(_intent(call, decode_intent(stored)))

    @asynccontextmanager
    async def _changing(self, call: Call, queue: str) -> AsyncIterator[Session]:
        """A transaction that changes the builds of a queue while nobody else does."""
        async with self._auditor.trail.change(RELATION, self._auditor.requested(call)) as session:
            await session.rows("lock_queues", msgspec.json.encode([f"builds/{call.namespace}/{queue}"]).decode())
            yield session

    async def promote(self, call: Call) -> Reply:
        """Pin new runs of the queue to a cohort; raises ``Problem`` with what speaks against it."""
        body: BuildId = call.body
        queue, build_id = call.params["task_queue"], body.build_id or None
        named = (call.namespace, queue, build_id or "")
        async with self._changing(call, queue) as session:
            cohorts = await self._builds.of_queue(call.namespace, queue, session)
            blockages = _blockages(next((cohort for cohort in cohorts if cohort.build_id == build_id), None))
            if blockages:
                raise _blocked(call.namespace, queue, build_id, blockages)
            await session.send("demote_build", *named)
            ((stored,),) = await session.rows("promote_build", *named)
        return Reply(_intent(call, decode_intent(stored)))


def _blocked(namespace: str, queue: str, build_id: str | None, blockages: list[tuple[str, str]]) -> Problem:
    reason, resolution = blockages[0]
    return Problem(
        reason,
        f"This build cannot be promoted: {resolution}",
        namespace=namespace,
        task_queue=queue,
        build_id=build_id,
        rejection_reason=reason,
        expected_resolution=resolution,
        outcome=f"rejected_{reason}",
        control_plane_outcome="rejected",
        command_status="rejected",
        deployment=None,
        blockages=[{"reason": name, "expected_resolution": text} for name, text in blockages],
    )


def _intent(call: Call, intent: BuildIntent) -> dict[str, Any]:
    """What a cohort is wanted for, as the verbs answer."""
    return {
        "namespace": call.namespace,
        "task_queue": call.params["task_queue"],
        "build_id": intent.build_id or None,
        "drain_intent": intent.drain_intent,
        "drained_at": wire_time(intent.drained_at),
        "promoted_at": wire_time(intent.promoted_at),
        "rolled_back_at": wire_time(intent.rolled_back_at),
        "new_start_selected": intent.is_selected,
    }


def _blockages(cohort: BuildCohort | None) -> list[tuple[str, str]]:
    """What speaks against promoting a cohort, the first reason first (control-plane §19.3)."""
    if cohort is None:
        return [("unknown_deployment", "Register a worker of this build on the queue first.")]
    found = []
    if cohort.drain_intent == "draining":
        found.append(("fleet_is_draining", "Resume the build before it is promoted."))
    if not cohort.live and not cohort.stale:
        found.append(("no_compatible_workers", "Start a worker of this build on the queue."))
    elif not cohort.live:
        found.append(("missing_worker_heartbeat", "Bring a worker of this build back, or start another."))
    if cohort.conflicts:
        found.append(("fingerprint_mismatch", "Have every worker of this build run the same workflow definitions."))
    return found


def document(cohort: BuildCohort) -> dict[str, Any]:
    """One cohort as it is listed."""
    is_draining = cohort.drain_intent == "draining"
    return {
        "build_id": cohort.build_id,
        "rollout_status": cohort.rollout_status,
        "drain_intent": cohort.drain_intent,
        "drained_at": wire_time(cohort.drained_at),
        "promoted_at": wire_time(cohort.promoted_at),
        "rolled_back_at": wire_time(cohort.rolled_back_at),
        "new_start_selected": cohort.is_selected,
        "active_worker_count": 0 if is_draining else cohort.live,
        "draining_worker_count": cohort.live if is_draining else 0,
        "stale_worker_count": cohort.stale,
        "total_worker_count": cohort.live + cohort.stale,
        "runtimes": cohort.runtimes,
        "sdk_versions": cohort.sdk_versions,
        "last_heartbeat_at": wire_time(cohort.last_heartbeat_at),
        "first_seen_at": wire_time(cohort.first_seen_at),
        "workflow_definition_fingerprint_count": len(cohort.marks),
        "workflow_definition_fingerprint_conflicts": cohort.conflicts,
    }
