"""Every metric of the server: one home for name, help, labels and their bounded values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from dw_core.sessions.session import SessionLoss
from dw_runtime.telemetry.sampled import SAMPLED, Sampled
from dw_runtime.telemetry.spec import MetricSpec

KINDS: Final = ("workflow_task", "activity_task", "query_task", "update_validation_task")
"""Kinds of task a worker polls for."""

STATUS_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_FAST_SECONDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_COUNTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_KIND: Final = {"kind": ", ".join(KINDS)}

REQUEST_SECONDS: Final = MetricSpec(
    name="dw_http_request_seconds",
    kind="histogram",
    help="Time from the first byte of a request to the last byte of its response; held polls count their wait.",
    labels={"route": "a route name of the catalogue, or unrouted", "status": ", ".join(STATUS_CLASSES)},
    buckets=_SECONDS,
)
REQUESTS_IN_FLIGHT: Final = MetricSpec(
    name="dw_http_requests_in_flight", kind="gauge", help="Requests being served now, held polls included."
)
PUMP_BATCH_INPUTS: Final = MetricSpec(
    name="dw_pump_batch_inputs", kind="histogram", help="Inputs committed together by the pump.", buckets=_COUNTS
)
PUMP_WAIT_SECONDS: Final = MetricSpec(
    name="dw_pump_wait_seconds",
    kind="histogram",
    help="Time the oldest input of a batch waited before the batch began.",
    buckets=_FAST_SECONDS,
)
PUMP_BATCH_SECONDS: Final = MetricSpec(
    name="dw_pump_batch_seconds",
    kind="histogram",
    help="Time from the locked read of a batch to its commit.",
    buckets=_FAST_SECONDS,
)
PUMP_QUEUE_INPUTS: Final = MetricSpec(
    name="dw_pump_queue_inputs", kind="gauge", help="Inputs waiting for the next batch."
)
PUMP_SPLITS: Final = MetricSpec(
    name="dw_pump_batch_splits_total",
    kind="counter",
    help="Batches that a database error split into single inputs.",
)
RUNS_PRUNED: Final = MetricSpec(
    name="dw_runs_pruned_total", kind="counter", help="Closed runs removed because their retention was over."
)
INVARIANT_BREACHES: Final = MetricSpec(
    name="dw_engine_invariant_breaches_total",
    kind="counter",
    help="Decisions that were not written because they would have broken an invariant. Each is a fault of the server.",
)
SIGNING_KEY_FETCHES: Final = MetricSpec(
    name="dw_auth_signing_key_fetches_total",
    kind="counter",
    help="Attempts to fetch the keys of the issuer of tokens.",
    labels={"outcome": "ok, failed"},
)
COMMITS: Final = MetricSpec(name="dw_store_commits_total", kind="counter", help="Transactions committed.")
STATEMENTS: Final = MetricSpec(name="dw_store_statements_total", kind="counter", help="SQL statements sent.")
POOL_IN_USE: Final = MetricSpec(
    name="dw_store_pool_in_use", kind="gauge", help="Database connections that are handed out now."
)
POOL_SIZE: Final = MetricSpec(
    name="dw_store_pool_size", kind="gauge", help="Database connections that the pool of this process may open."
)
POOL_WAITING: Final = MetricSpec(
    name="dw_store_pool_waiting", kind="gauge", help="Requests that wait for a database connection now."
)
READINESS_CHECKS: Final = ("database", "migrations", "default_namespace", "auth")
"""The checks of readiness without which a process takes no requests."""

READINESS_FAILING: Final = MetricSpec(
    name="dw_readiness_failing",
    kind="gauge",
    help="1 while this check keeps the process from being ready, otherwise 0.",
    labels={"check": ", ".join(READINESS_CHECKS)},
)
CERTIFICATE_EXPIRY: Final = MetricSpec(
    name="dw_certificate_expiry_timestamp_seconds",
    kind="gauge",
    help="When the first certificate in the file ends, in seconds since 1970; 0 when the file cannot be read.",
    labels={"use": "postgres_ca, postgres_client, redis_ca, redis_client"},
)
CLAIMS: Final = MetricSpec(
    name="dw_task_claims_total", kind="counter", help="Tasks leased to a polling worker.", labels=_KIND
)
POLL_WAITERS: Final = MetricSpec(
    name="dw_poll_waiters", kind="gauge", help="Polls that are held and wait for a task now.", labels=_KIND
)
POLLS_THROTTLED: Final = MetricSpec(
    name="dw_polls_throttled_total",
    kind="counter",
    help="Polls that ended without a task because a cap on leases or dispatches kept it back.",
    labels=_KIND,
)
STICKY_CLAIMS: Final = MetricSpec(
    name="dw_sticky_claims_total",
    kind="counter",
    help="Workflow tasks of runs that a worker keeps in its cache: claimed by that worker, or by another.",
    labels={"result": "hit, miss"},
)
LEASE_EXPIRIES: Final = MetricSpec(
    name="dw_lease_expiries_total", kind="counter", help="Leases that ran out before an outcome came.", labels=_KIND
)
WAKE_LAG_SECONDS: Final = MetricSpec(
    name="dw_wake_lag_seconds",
    kind="histogram",
    help="Time from the commit that made a task ready to the probe that looked for it.",
    buckets=_FAST_SECONDS,
)
WAKE_PUBLISH_FAILURES: Final = MetricSpec(
    name="dw_wake_publish_failures_total",
    kind="counter",
    help="Wake signals that could not be published; each costs latency, never work.",
)
QUERY_OUTCOMES: Final = (
    "answered",
    "failed",
    "refused",
    "queue_full",
    "not_claimed",
    "worker_timeout",
    "abandoned",
    "unavailable",
)
"""How a query ended: abandoned by its caller, unavailable when the database was, failed by the worker's own word."""

QUERY_SECONDS: Final = MetricSpec(
    name="dw_query_seconds",
    kind="histogram",
    help="Time from a query's request to its outcome, as the process that holds the request sees it.",
    labels={"outcome": ", ".join(QUERY_OUTCOMES)},
    buckets=_SECONDS,
)

SERVICE_OUTCOMES: Final = ("completed", "handler_failed", "timed_out")
SERVICE_ATTEMPTS: Final = MetricSpec(
    name="dw_service_call_attempts_total",
    kind="counter",
    help="Attempts to serve a service call that this process has ended; calls that a run answers end with the run.",
    labels={"outcome": ", ".join(SERVICE_OUTCOMES)},
)
UPDATE_OUTCOMES: Final = ("accepted", "completed", "failed", "wait_timed_out", "refused")
"""What the sender of an update was told; only one that asked to wait for completion can be told of a time-out."""

UPDATE_SECONDS: Final = MetricSpec(
    name="dw_update_seconds",
    kind="histogram",
    help="Time from an update's request to its response, validation and wait included.",
    labels={"outcome": ", ".join(UPDATE_OUTCOMES)},
    buckets=_SECONDS,
)
VALIDATION_OUTCOMES: Final = ("approved", "rejected", "no_verdict")
"""What came of asking a worker whether an update may be accepted."""

UPDATE_VALIDATION_SECONDS: Final = MetricSpec(
    name="dw_update_validation_seconds",
    kind="histogram",
    help="Time from the request for a validator's verdict to the verdict, or to the end of the wait for it.",
    labels={"outcome": ", ".join(VALIDATION_OUTCOMES)},
    buckets=_SECONDS,
)

STREAM_MESSAGE_OUTCOMES: Final = ("accepted", "duplicate", "refused")
"""What the sender of a message was told."""

STREAM_MESSAGES: Final = MetricSpec(
    name="dw_stream_messages_total",
    kind="counter",
    help="Messages sent to message streams, by what their senders were told.",
    labels={"outcome": ", ".join(STREAM_MESSAGE_OUTCOMES)},
)
STREAM_READ_WAIT_SECONDS: Final = MetricSpec(
    name="dw_output_stream_read_wait_seconds",
    kind="histogram",
    help="How long readers at the end of an output stream were held until there was an item, or their time was over.",
    buckets=_SECONDS,
)
SESSION_ADMISSIONS: Final = MetricSpec(
    name="dw_worker_session_admissions_total",
    kind="counter",
    help="Times a worker was given a session, or another activity of one it holds.",
    labels={"outcome": "created, reused, reacquired"},
)
SESSIONS_LOST: Final = MetricSpec(
    name="dw_worker_sessions_lost_total",
    kind="counter",
    help="Worker sessions that were taken from their holder.",
    labels={"reason": "ttl_expired, lease_expired, worker_heartbeat_stale"},
)
SCHEDULE_DECISIONS_MADE: Final = ("fired", "buffered", "buffer_full", "skipped")
"""What the clock made of an occurrence, or of a fire that had been held back."""

SCHEDULE_DECISIONS: Final = MetricSpec(
    name="dw_schedule_decisions_total",
    kind="counter",
    help="Occurrences of schedules that this process has decided on.",
    labels={"outcome": ", ".join(SCHEDULE_DECISIONS_MADE)},
)
SCHEDULE_FIRE_OUTCOMES: Final = ("started", "already_started", "failed")
SCHEDULE_FIRES: Final = MetricSpec(
    name="dw_schedule_fires_total",
    kind="counter",
    help="Starts ordered by schedules that this process has carried out.",
    labels={"outcome": ", ".join(SCHEDULE_FIRE_OUTCOMES)},
)

PAYLOAD_OPERATIONS: Final = ("put", "get")
PAYLOAD_BYTES: Final = MetricSpec(
    name="dw_external_payload_bytes_total",
    kind="counter",
    help="Bytes of external payloads that were written to or read from their storage.",
    labels={"operation": ", ".join(PAYLOAD_OPERATIONS)},
)
PAYLOAD_FAILURES: Final = MetricSpec(
    name="dw_external_payload_failures_total",
    kind="counter",
    help="Times a storage did not take an external payload, or did not give it back as it was.",
    labels={"operation": ", ".join(PAYLOAD_OPERATIONS)},
)
PAYLOADS_DELETED: Final = MetricSpec(
    name="dw_external_payload_objects_deleted_total",
    kind="counter",
    help="Objects deleted because no run uses their payload any more.",
    labels={"outcome": "deleted, failed"},
)

METRICS: Final = (
    REQUEST_SECONDS,
    REQUESTS_IN_FLIGHT,
    PUMP_BATCH_INPUTS,
    PUMP_WAIT_SECONDS,
    PUMP_BATCH_SECONDS,
    PUMP_QUEUE_INPUTS,
    PUMP_SPLITS,
    RUNS_PRUNED,
    SIGNING_KEY_FETCHES,
    INVARIANT_BREACHES,
    COMMITS,
    STATEMENTS,
    POOL_IN_USE,
    POOL_SIZE,
    POOL_WAITING,
    READINESS_FAILING,
    CERTIFICATE_EXPIRY,
    CLAIMS,
    POLL_WAITERS,
    POLLS_THROTTLED,
    STICKY_CLAIMS,
    LEASE_EXPIRIES,
    WAKE_LAG_SECONDS,
    WAKE_PUBLISH_FAILURES,
    QUERY_SECONDS,
    SERVICE_ATTEMPTS,
    UPDATE_SECONDS,
    UPDATE_VALIDATION_SECONDS,
    STREAM_MESSAGES,
    STREAM_READ_WAIT_SECONDS,
    SESSION_ADMISSIONS,
    SESSIONS_LOST,
    SCHEDULE_DECISIONS,
    SCHEDULE_FIRES,
    PAYLOAD_BYTES,
    PAYLOAD_FAILURES,
    PAYLOADS_DELETED,
    *SAMPLED,
)
"""Every metric, in the order of the reference page."""


class Metrics:
    """The metrics of one process on their own registry, with label children resolved once.

    Observing is a method call on an attribute: ``metrics.commits.inc()``, ``metrics.claims["workflow_task"].inc(3)``.
    Gauges that mirror a number someone already keeps take a function instead: ``metrics.pool_in_use.set_function``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._request_seconds = self._histogram(REQUEST_SECONDS)
        self.requests_in_flight = self._gauge(REQUESTS_IN_FLIGHT)
        self.pump_batch_inputs = self._histogram(PUMP_BATCH_INPUTS)
        self.pump_wait_seconds = self._histogram(PUMP_WAIT_SECONDS)
        self.pump_batch_seconds = self._histogram(PUMP_BATCH_SECONDS)
        self.pump_queue_inputs = self._gauge(PUMP_QUEUE_INPUTS)
        self.pump_splits = self._counter(PUMP_SPLITS)
        self.runs_pruned = self._counter(RUNS_PRUNED)
        self.invariant_breaches = self._counter(INVARIANT_BREACHES)
        self.signing_key_fetches = self._counter(SIGNING_KEY_FETCHES)
        self.commits = self._counter(COMMITS)
        self.statements = self._counter(STATEMENTS)
        self.pool_in_use, self.pool_size = self._gauge(POOL_IN_USE), self._gauge(POOL_SIZE)
        self.pool_waiting = self._gauge(POOL_WAITING)
        failing = self._gauge(READINESS_FAILING)
        self.readiness_failing = {check: failing.labels(check) for check in READINESS_CHECKS}
        self.certificate_expiry = self._gauge(CERTIFICATE_EXPIRY)
        self.sampled = Sampled(self.registry)
        claims, waiters, expiries = self._counter(CLAIMS), self._gauge(POLL_WAITERS), self._counter(LEASE_EXPIRIES)
        self.claims = {kind: claims.labels(kind) for kind in KINDS}
        self.poll_waiters = {kind: waiters.labels(kind) for kind in KINDS}
        self.lease_expiries = {kind: expiries.labels(kind) for kind in KINDS}
        sticky = self._counter(STICKY_CLAIMS)
        self.sticky_claims = {result: sticky.labels(result) for result in ("hit", "miss")}
        throttled = self._counter(POLLS_THROTTLED)
        self.polls_throttled = {kind: throttled.labels(kind) for kind in KINDS}
        self.wake_lag_seconds = self._histogram(WAKE_LAG_SECONDS)
        self.wake_publish_failures = self._counter(WAKE_PUBLISH_FAILURES)
        queries = self._histogram(QUERY_SECONDS)
        self.query_seconds = {outcome: queries.labels(outcome) for outcome in QUERY_OUTCOMES}
        updates, validations = self._histogram(UPDATE_SECONDS), self._histogram(UPDATE_VALIDATION_SECONDS)
        self.update_seconds = {outcome: updates.labels(outcome) for outcome in UPDATE_OUTCOMES}
        self.update_validation_seconds = {outcome: validations.labels(outcome) for outcome in VALIDATION_OUTCOMES}
        messages = self._counter(STREAM_MESSAGES)
        self.stream_messages = {outcome: messages.labels(outcome) for outcome in STREAM_MESSAGE_OUTCOMES}
        self.stream_read_wait_seconds = self._histogram(STREAM_READ_WAIT_SECONDS)

        admissions, lost = self._counter(SESSION_ADMISSIONS), self._counter(SESSIONS_LOST)
        self.session_admissions = {name: admissions.labels(name) for name in ("created", "reused", "reacquired")}
        self.sessions_lost = {reason: lost.labels(reason.value) for reason in SessionLoss}
        decisions, fires = self._counter(SCHEDULE_DECISIONS), self._counter(SCHEDULE_FIRES)
        self.schedule_decisions = {outcome: decisions.labels(outcome) for outcome in SCHEDULE_DECISIONS_MADE}
        self.schedule_fires = {outcome: fires.labels(outcome) for outcome in SCHEDULE_FIRE_OUTCOMES}
        moved, failures = self._counter(PAYLOAD_BYTES), self._counter(PAYLOAD_FAILURES)
        self.payload_bytes = {operation: moved.labels(operation) for operation in PAYLOAD_OPERATIONS}
        self.payload_failures = {operation: failures.labels(operation) for operation in PAYLOAD_OPERATIONS}
        deleted = self._counter(PAYLOADS_DELETED)
        self.payloads_deleted = {outcome: deleted.labels(outcome) for outcome in ("deleted", "failed")}
        attempts = self._counter(SERVICE_ATTEMPTS)
        self.service_attempts = {outcome: attempts.labels(outcome) for outcome in SERVICE_OUTCOMES}

    def request_observer(self, route: str) -> Callable[[int, float], None]:
        """The recorder of one route: takes HTTP status and seconds. Series appear with the first observation."""
        children: dict[int, Histogram] = {}

        def observe(status: int, seconds: float) -> None:
            child = children.get(status // 100)
            if child is None:
                child = self._request_seconds.labels(route, STATUS_CLASSES[status // 100 - 1])
                children[status // 100] = child
            child.observe(seconds)

        return observe

    def _histogram(self, spec: MetricSpec) -> Histogram:
        return Histogram(spec.name, spec.help, list(spec.labels), registry=self.registry, buckets=spec.buckets)

    def _gauge(self, spec: MetricSpec) -> Gauge:
        return Gauge(spec.name, spec.help, list(spec.labels), registry=self.registry)

    def _counter(self, spec: MetricSpec) -> Counter:
        return Counter(spec.name, spec.help, list(spec.labels), registry=self.registry)
