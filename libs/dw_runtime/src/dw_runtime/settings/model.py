"""The whole configuration of a process, and the list of everything that can be set."""

from __future__ import annotations

from typing import get_type_hints

import msgspec

from dw_runtime.settings.bridge import Bridge
from dw_runtime.settings.identity import Auth, Bootstrap, Http, Stores, Telemetry, Topology
from dw_runtime.settings.limits import (
    ExternalPayloads,
    HistoryBudget,
    Protocol,
    RequestLimits,
    Retention,
    StructuralLimits,
)
from dw_runtime.settings.services import Services
from dw_runtime.settings.variable import Declared, declared_fields
from dw_runtime.settings.work import Admission, Fleet, Leases, Polling, Recovery, Workers


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One process's configuration; every group is frozen, and ``msgspec.structs.replace`` makes variants."""

    topology: Topology
    http: Http
    stores: Stores
    auth: Auth
    polling: Polling
    leases: Leases
    workers: Workers
    recovery: Recovery
    admission: Admission
    protocol: Protocol
    request_limits: RequestLimits
    structural_limits: StructuralLimits
    history_budget: HistoryBudget
    external_payloads: ExternalPayloads
    retention: Retention
    fleet: Fleet
    services: Services
    bridge: Bridge
    telemetry: Telemetry
    bootstrap: Bootstrap


GROUPS: dict[str, type[msgspec.Struct]] = get_type_hints(Settings)
"""Group structs by the field of :class:`Settings` that holds them."""

REGISTRY: tuple[Declared, ...] = tuple(
    declared for group, struct in GROUPS.items() for declared in declared_fields(group, struct)
)
"""Every declared variable, in the order of the reference page."""

PARTS: dict[str, str] = {
    "DB_CONNECTION": "Kind of database; only pgsql.",
    "DB_HOST": "Host of Postgres.",
    "DB_PORT": "Port of Postgres (5432).",
    "DB_DATABASE": "Name of the database (durable_workflow).",
    "DB_USERNAME": "User of the database.",
    "DB_PASSWORD": "Password of that user; DB_PASSWORD_FILE names a file that holds it.",
    "DB_SSLMODE": "TLS mode of the connection, as libpq spells it.",
    "DB_SSLROOTCERT": "File with the certificates that sign the one of Postgres.",
    "DB_SSLCERT": "File with the client certificate.",
    "DB_SSLKEY": "File with its key.",
    "REDIS_HOST": "Host of Redis or Valkey.",
    "REDIS_PORT": "Port of Redis (6379).",
    "REDIS_DB": "Number of the Redis database (0).",
    "REDIS_USERNAME": "User of Redis.",
    "REDIS_PASSWORD": "Password of that user; REDIS_PASSWORD_FILE names a file that holds it.",
    "REDIS_SCHEME": "tcp or tls.",
    "REDIS_SSLROOTCERT": "File with the certificates that sign the one of Redis.",
    "REDIS_SSLCERT": "File with the client certificate.",
    "REDIS_SSLKEY": "File with its key.",
}
"""Variables that only help to build ``DATABASE_URL`` and ``REDIS_URL``."""

IGNORED: tuple[str, ...] = (
    "DW_SERVER_KEY",
    "DW_POLLING_CACHE_PATH",
    "DW_WORKER_LONG_POLL_RESERVED_HTTP_WORKERS",
    "DW_PACKAGE_PROVENANCE_PATH",
    "DW_V2_GUARDRAILS_BOOT",
    "DW_V2_CONNECTION",
    "DW_V2_QUEUE",
    "DW_V2_COMPATIBILITY_DISABLE_HEARTBEAT_TABLE",
    "DW_SERIALIZER",
    "APP_VERSION",
    "DW_EXPOSE_PACKAGE_PROVENANCE",
    "DW_CALLER_TYPE_HEADER",
    "DW_CALLER_LABEL_HEADER",
    "DW_AUTH_STATUS_HEADER",
    "DW_AUTH_METHOD_HEADER",
    "DW_WORKER_POLL_SIGNAL_CHECK_INTERVAL_MS",
    "DW_MAX_TASKS_PER_POLL",
    "DW_EXPIRED_WORKFLOW_TASK_RECOVERY_SCAN_LIMIT",
    "DW_EXPIRED_WORKFLOW_TASK_RECOVERY_TTL_SECONDS",
    "DW_DUE_TIMER_RECOVERY_SCAN_LIMIT",
    "DW_V2_TASK_REPAIR_LOOP_THROTTLE_SECONDS",
    "DW_V2_TASK_REPAIR_SCAN_LIMIT",
    "DW_V2_TASK_REPAIR_FAILURE_BACKOFF_MAX_SECONDS",
    "DW_EXTERNAL_EXECUTOR_CONFIG_PATH",
    "DW_EXTERNAL_EXECUTOR_CONFIG_OVERLAY",
    "DW_V2_HISTORY_EXPORT_SIGNING_KEY",
    "DW_V2_HISTORY_EXPORT_SIGNING_KEY_ID",
    "DW_V2_SUPPORTED_COMPATIBILITIES",
    "DW_V2_COMPATIBILITY_NAMESPACE",
    "DW_V2_COMPATIBILITY_HEARTBEAT_TTL",
    "DW_V2_PIN_TO_RECORDED_FINGERPRINT",
    "DW_V2_MULTI_NODE",
    "DW_V2_VALIDATE_CACHE_BACKEND",
    "DW_V2_CACHE_VALIDATION_MODE",
    "DW_METRICS_PROMETHEUS_WORKFLOW_SERIES_LIMIT",
    "DW_METRICS_PROMETHEUS_ACTIVITY_SERIES_LIMIT",
    "QUEUE_CONNECTION",
    "CACHE_STORE",
    "APP_KEY",
    "APP_ENV",
    "APP_DEBUG",
)
"""Names that mean something to other servers of this protocol and nothing to this one (topology §6.4)."""
