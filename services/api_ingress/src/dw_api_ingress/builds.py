"""Build ids of a task queue: list, drain, resume (control-plane §19.3)."""

from __future__ import annotations

from typing import Any

from dw_api_ingress.auditing import Auditor
from dw_core.protocol.requests_control import BuildId
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.builds import BuildCohort, Builds


class BuildHandlers:
    """Answers requests about the builds of a queue. Workers hear of a drain with their next poll or heartbeat."""

    def __init__(self, builds: Builds, auditor: Auditor) -> None:
        self._builds = builds
        self._auditor = auditor

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"build_id_list": self.all, "build_id_drain": self.drain, "build_id_resume": self.resume}

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
        asked = (call.namespace, queue, build_id or "", intent)
        ((stored, drained_at),) = await self._auditor.change(call, "build_id_rollouts", "set_drain", *asked)
        return Reply(
            {
                "namespace": call.namespace,
                "task_queue": queue,
                "build_id": build_id,
                "drain_intent": stored,
                "drained_at": wire_time(drained_at),
                "promoted_at": None,
                "rolled_back_at": None,
                "new_start_selected": False,
            }
        )


def document(cohort: BuildCohort) -> dict[str, Any]:
    """One cohort as it is listed; builds are not promoted by this server."""
    types: dict[str, set[str]] = {}
    for fingerprints in cohort.fingerprints:
        for workflow_type, fingerprint in fingerprints.items():
            types.setdefault(workflow_type, set()).add(fingerprint)
    is_draining = cohort.drain_intent == "draining"
    return {
        "build_id": cohort.build_id,
        "rollout_status": cohort.rollout_status,
        "drain_intent": cohort.drain_intent,
        "drained_at": wire_time(cohort.drained_at),
        "promoted_at": None,
        "rolled_back_at": None,
        "new_start_selected": False,
        "active_worker_count": 0 if is_draining else cohort.live,
        "draining_worker_count": cohort.live if is_draining else 0,
        "stale_worker_count": cohort.stale,
        "total_worker_count": cohort.live + cohort.stale,
        "runtimes": cohort.runtimes,
        "sdk_versions": cohort.sdk_versions,
        "last_heartbeat_at": wire_time(cohort.last_heartbeat_at),
        "first_seen_at": wire_time(cohort.first_seen_at),
        "workflow_definition_fingerprint_count": len(types),
        "workflow_definition_fingerprint_conflicts": sorted(name for name, marks in types.items() if len(marks) > 1),
    }
