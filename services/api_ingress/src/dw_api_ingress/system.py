"""``/api/system``: health, bounded metrics and operator metrics (control-plane §22, topology §3.5, §6)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.coordination.counters import MatchingFacts
from dw_core.coordination.health import evaluated_health
from dw_core.coordination.operator_metrics import (
    COUNTED_MAX,
    NamespaceCounts,
    Surroundings,
    bounded_metrics,
    operator_metrics,
)
from dw_core.limits import Limits, structural_limits
from dw_runtime.discovery.probes import ClusterSnapshot
from dw_runtime.discovery.single_flight import SingleFlights
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.settings import Settings
from dw_runtime.store.database import Database
from dw_runtime.store.reads.probe import PostgresProbe

_decode = msgspec.json.Decoder(NamespaceCounts).decode


class SystemHandlers:
    """Answers what an operator asks about the deployment and about one namespace of it."""

    def __init__(self, database: Database, settings: Settings, limits: Limits, matching_role: dict[str, Any]) -> None:
        self._database = database
        self._settings = settings
        self._limits = limits
        self._matching_role = matching_role
        self._probe = PostgresProbe(database, settings)
        self._matching = MatchingFacts(
            queue_wake_enabled=matching_role["queue_wake_enabled"],
            matching_shape=matching_role["shape"],
            wake_owner=matching_role["wake_owner"],
            task_dispatch_mode=matching_role["task_dispatch_mode"],
        )
        self._readings = SingleFlights(self._read)

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "system_health": self.health,
            "system_metrics": self.metrics,
            "system_metrics_select": self.metrics,
            "system_operator_metrics": self.operator_metrics,
        }

    async def health(self, call: Call) -> Reply:
        """The twelve checks with what they have counted, and the operator metrics; 503 when a check is an error."""
        snapshot, counts = await self._readings.get(call.namespace)
        metrics = operator_metrics(call.namespace, counts, self._around(snapshot))
        checked = evaluated_health(snapshot.counters, self._matching, generated_at=metrics["generated_at"])
        health = {
            name: checked[name]
            for name in ("generated_at", "status", "checks", "categories", "warning_checks", "error_checks")
        } | {
            "healthy": checked["status"] != "error",
            "operator_metrics": metrics,
            "structural_limits": structural_limits(self._limits),
            "routing_drains": checked["routing_drains"],
        }
        return Reply(
            {"namespace": call.namespace, "health": health}, status=503 if checked["status"] == "error" else 200
        )

    async def metrics(self, call: Call) -> Reply:
        """Metrics with bounded labels."""
        _, counts = await self._readings.get(call.namespace)
        return Reply(bounded_metrics(call.namespace, counts, self._settings.telemetry.task_failure_type_limit))

    async def operator_metrics(self, call: Call) -> Reply:
        """What is counted of the namespace."""
        snapshot, counts = await self._readings.get(call.namespace)
        metrics = operator_metrics(call.namespace, counts, self._around(snapshot))
        return Reply({"namespace": call.namespace, "operator_metrics": metrics})

    async def _read(self, namespace: str) -> tuple[ClusterSnapshot, NamespaceCounts]:
        limits = self._limits
        near = (limits.history_warning_events, limits.history_warning_size_bytes, limits.history_warning_fan_out)
        snapshot = await self._probe.snapshot(namespace)
        ((text,),) = await self._database.read("read_operator_counts", namespace, COUNTED_MAX, *near)
        return snapshot, _decode(text)

    def _around(self, snapshot: ClusterSnapshot) -> Surroundings:
        settings = self._settings
        return Surroundings(
            counters=snapshot.counters,
            repair=snapshot.repair,
            workers=snapshot.workers,
            limits=self._limits,
            matching_role=self._matching_role,
            sticky_execution={
                "enabled": settings.fleet.sticky_execution_enabled,
                "ttl_seconds": settings.fleet.sticky_execution_ttl_seconds,
            },
            update_wait={
                "completion_timeout_seconds": settings.leases.update_completion_timeout_seconds,
                "poll_interval_milliseconds": settings.leases.update_poll_interval_ms,
            },
        )
