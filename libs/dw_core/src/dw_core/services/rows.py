"""The rows of the service catalogue and of service calls. Field names are the column names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

RESOLVED_KINDS: Final = {
    "start_workflow": "workflow_run",
    "update_workflow": "workflow_update",
    "signal_workflow": "workflow_signal",
    "query_workflow": "workflow_query",
    "activity_execution": "activity_execution",
    "invocable_http": "invocable_carrier_request",
}
"""What a binding of the catalogue is called once a call has been resolved to it (engine §1.14)."""


class Endpoint(msgspec.Struct, kw_only=True):
    """A service endpoint of a namespace."""

    id: str
    namespace: str
    endpoint_name: str
    description: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime
    updated_at: datetime


class Service(Endpoint, kw_only=True):
    """A service of an endpoint."""

    endpoint_id: str
    service_name: str


class Operation(msgspec.Struct, kw_only=True):
    """An operation of a service: what a call of it is bound to, and under which policies."""

    id: str
    namespace: str
    service_id: str
    endpoint_name: str
    service_name: str
    operation_name: str
    operation_mode: str
    handler_binding_kind: str
    handler_target_reference: str | None = None
    handler_binding: dict[str, Any] | None = None
    deadline_policy: dict[str, Any] | None = None
    idempotency_policy: dict[str, Any] | None = None
    cancellation_policy: dict[str, Any] | None = None
    retry_policy: dict[str, Any] | None = None
    boundary_policy: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> OperationKey:
        """Where it stands in the catalogue."""
        return OperationKey(self.namespace, self.endpoint_name, self.service_name, self.operation_name)


class OperationKey(msgspec.Struct, frozen=True):
    """The four names of an operation, in lower case as the catalogue keeps them."""

    namespace: str
    endpoint_name: str
    service_name: str
    operation_name: str


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may say about the target of a call (worker-plane §9.3, control-plane §17.2)."""

    target_workflow_instance_id: str | None = None
    target_workflow_run_id: str | None = None
    connection: str | None = None
    queue: str | None = None
    business_key: str | None = None
    labels: dict[str, Any] | None = None
    memo: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None
    duplicate_start_policy: str | None = None


class CallAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One closed attempt to serve a call."""

    attempt: int
    outcome: str
    error_type: str | None = None
    message: str | None = None
    closed_at: datetime


class ServiceCall(msgspec.Struct, kw_only=True):
    """A service call. ``status`` accepted|started|completed|failed|cancelled, ``outcome`` as in engine §1.14.

    ``policies`` are those of the operation when the call was admitted, by name. ``due_at`` is when the dispatcher must
    look at it: to begin, to try again, because a lease has lapsed, or because the deadline has passed.
    """

    service_call_id: str
    namespace: str
    endpoint_name: str
    service_name: str
    operation_name: str
    operation_mode: str
    wait_for: str
    binding_kind: str
    target_reference: str | None = None
    handler_binding: dict[str, Any] | None = None
    policies: dict[str, Any] = {}
    options: CallOptions = CallOptions()
    metadata: dict[str, Any] | None = None
    caller_namespace: str | None = None
    caller_workflow_id: str | None = None
    caller_run_id: str | None = None
    idempotency_key: str | None = None
    request_payload: str
    status: str = "accepted"
    outcome: str = "accepted"
    outcome_reason: str | None = None
    reason: str | None = None
    message: str | None = None
    error_type: str | None = None
    response_payload: str | None = None
    linked_workflow_id: str | None = None
    linked_run_id: str | None = None
    linked_update_id: str | None = None
    attempts: list[CallAttempt] = []
    attempt_count: int = 0
    lease_owner: str | None = None
    due_at: datetime | None = None
    deadline_at: datetime | None = None
    accepted_at: datetime
    started_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def key(self) -> OperationKey:
        """The operation that was called."""
        return OperationKey(self.namespace, self.endpoint_name, self.service_name, self.operation_name)

    @property
    def is_accepted(self) -> bool:
        """Whether it was admitted; a call that was refused is kept for its idempotency key."""
        return not self.outcome.startswith("rejected")

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.closed_at is None


class ServiceWaiter(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is told the outcome of a call: the call of its workflow sequence."""

    service_call_id: str
    run_id: str
    sequence: int


class ServiceWait(msgspec.Struct, frozen=True, kw_only=True):
    """The service call a run is blocked on, with what its command says: names as authored (engine §6.18)."""

    sequence: int
    service_call_id: str
    endpoint_name: str
    service_name: str
    operation_name: str
    operation_mode: str
    wait_for: str
    target_namespace: str | None = None
    idempotency_key: str
    opened_at: datetime


class CallEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a call: named by its id, or by the run that answers it.

    With a ``lease_owner`` it counts only while that dispatcher holds the call at this ``attempt``.
    """

    service_call_id: str | None = None
    linked_run_id: str | None = None
    status: str
    outcome: str
    outcome_reason: str | None = None
    message: str | None = None
    error_type: str | None = None
    response_payload: str | None = None
    reason: str | None = None
    lease_owner: str | None = None
    attempt: int = 0
    attempts: list[CallAttempt] | None = None


class CallLink(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a run, or an update of a run, answers from now on."""

    service_call_id: str
    linked_workflow_id: str
    linked_run_id: str | None = None
    linked_update_id: str | None = None


class CallMove(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a run go on with its successor."""

    from_run_id: str
    to_run_id: str


class ServiceChanges(msgspec.Struct, kw_only=True):
    """What decisions change about service calls; written in the order of the fields."""

    calls: list[ServiceCall] = []
    waiters: list[ServiceWaiter] = []
    links: list[CallLink] = []
    moves: list[CallMove] = []
    ends: list[CallEnd] = []

    def extend(self, other: ServiceChanges) -> None:
        """Take over what a later decision changes."""
        self.calls.extend(other.calls)
        self.waiters.extend(other.waiters)
        self.links.extend(other.links)
        self.moves.extend(other.moves)
        self.ends.extend(other.ends)
