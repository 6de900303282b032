"""Request bodies of the control plane, as msgspec structs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dw_core.engine.rows import STANDALONE_ACTIVITY
from dw_core.limits import (
    CLEANUP_SECONDS_MAX,
    OUTPUT_APPEND_ITEMS_MAX,
    OUTPUT_ITEMS_MAX,
    OUTPUT_TEXT_CHARS_MAX,
    RETENTION_DAYS_MAX,
    SECONDS_MAX,
)
from dw_core.protocol.fields import Name255, Positive, Seconds, WorkflowId
from dw_core.protocol.problems import Invalid

RetentionDays = Annotated[int, Meta(ge=1, le=RETENTION_DAYS_MAX)]

UNSUPPORTED_START_FIELDS = (
    "workflow_execution_timeout",
    "workflow_run_timeout",
    "workflow_task_timeout",
    "retry_policy",
    "idempotency_key",
    "request_id",
)
"""Fields a start refuses by name (control-plane §12); a null value counts as absent."""


class WorkflowStart(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/workflows`` (control-plane §12).

    ``duplicate_policy`` ``reject`` is an alias of ``fail``; ``use_existing_open_run`` says which of the two was
    meant. ``build_id`` wins over ``compatibility``. Times are whole seconds. Raises ``Invalid`` for a field of
    :data:`UNSUPPORTED_START_FIELDS`.
    """

    workflow_type: Name255
    workflow_id: WorkflowId | None = None
    task_queue: Name255 | None = None
    input: Any = None
    business_key: Annotated[str, Meta(max_length=255)] | None = None
    memo: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None
    duplicate_policy: Literal["fail", "use-existing", "reject"] | None = None
    execution_timeout_seconds: Seconds | None = None
    run_timeout_seconds: Seconds | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    fairness_key: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}\Z")] | None = None
    fairness_weight: Annotated[int, Meta(ge=1, le=1000)] | None = None
    build_id: Annotated[str, Meta(max_length=255)] | None = None
    compatibility: Annotated[str, Meta(max_length=255)] | None = None
    observability_context: dict[str, Any] | None = None
    payload_codec: Literal["avro"] | None = None
    workflow_execution_timeout: Any = None
    workflow_run_timeout: Any = None
    workflow_task_timeout: Any = None
    retry_policy: Any = None
    idempotency_key: Any = None
    request_id: Any = None

    def __post_init__(self) -> None:
        refused = {
            name: ["This field is not supported when a workflow is started."]
            for name in UNSUPPORTED_START_FIELDS
            if getattr(self, name) is not None
        }
        if self.workflow_type == STANDALONE_ACTIVITY:
            refused["workflow_type"] = ["This type is reserved for standalone activities."]
        if refused:
            raise Invalid(refused)

    @property
    def use_existing_open_run(self) -> bool:
        """Whether an open run of the same id and type is returned instead of refused."""
        return self.duplicate_policy == "use-existing"


class BuildId(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/build-ids/{drain|resume}``: null is the unversioned cohort, but the key must be there (§19.3)."""

    build_id: Annotated[str, Meta(max_length=255)] | None


class RetryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a standalone activity is retried; no ``max_attempts`` is unlimited (worker-plane §12.6)."""

    max_attempts: Positive | None = None
    backoff_seconds: list[Annotated[int, Meta(ge=0, le=SECONDS_MAX)]] | None = None
    non_retryable_error_types: list[str] | None = None


class ActivityStart(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/activities`` (control-plane §15.1). A shorter timeout must not exceed the one that contains it."""

    activity_type: Name255
    task_queue: Name255 | None = None
    activity_id: WorkflowId | None = None
    activity_class: Annotated[str, Meta(max_length=255)] | None = None
    business_key: Annotated[str, Meta(max_length=255)] | None = None
    input: Any = None
    retry_policy: RetryOptions | None = None
    start_to_close_timeout_seconds: Seconds | None = None
    schedule_to_start_timeout_seconds: Seconds | None = None
    schedule_to_close_timeout_seconds: Seconds | None = None
    heartbeat_timeout_seconds: Seconds | None = None
    observability_context: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        errors: dict[str, list[str]] = {}
        for smaller, larger in (
            ("heartbeat_timeout_seconds", "start_to_close_timeout_seconds"),
            ("start_to_close_timeout_seconds", "schedule_to_close_timeout_seconds"),
            ("schedule_to_start_timeout_seconds", "schedule_to_close_timeout_seconds"),
        ):
            low, high = getattr(self, smaller), getattr(self, larger)
            if low is not None and high is not None and low > high:
                errors[smaller] = [f"must not exceed {larger}"]
        if errors:
            raise Invalid(errors)


class WorkflowSignal(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/signal/{signal_name}``, instance and run (control-plane §13.1); every field is optional."""

    input: Any = None
    request_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    observability_context: dict[str, Any] | None = None


class MessageAppend(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/message-streams/{stream_name}/messages`` (control-plane §14.1)."""

    message_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,191}\Z")]
    input: Any = None
    request_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class OutputAppend(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/streams/{stream_name}/items`` (control-plane §14.2); the items are read one by one."""

    items: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=OUTPUT_APPEND_ITEMS_MAX)]
    max_pending_items: Annotated[int, Meta(ge=1, le=OUTPUT_ITEMS_MAX)] | None = None


class OutputClose(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/streams/{stream_name}/close`` (control-plane §14.2); with ``error_reason`` the stream has failed."""

    error_reason: Annotated[str, Meta(min_length=1, max_length=OUTPUT_TEXT_CHARS_MAX)] | None = None
    retention_seconds: Seconds | None = None


class WorkflowTerminate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/terminate``, instance and run (control-plane §13.5); every field is optional."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None
    request_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class WorkflowCancel(WorkflowTerminate, frozen=True, kw_only=True):
    """``POST …/cancel``, instance and run (control-plane §13.5); every field is optional."""


class WorkflowRepair(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/repair``, instance and run (control-plane §13.7)."""

    request_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class NamespaceCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/namespaces`` (control-plane §16.2); names are kept in lower case.

    Without ``retention_days`` the namespace gets those that the server is set to.
    """

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._-]{1,128}\Z")]
    description: Annotated[str, Meta(max_length=1000)] | None = None
    retention_days: RetentionDays | None = None


class NamespaceUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``PUT /api/namespaces/{namespace}`` (control-plane §16.2): the members that were sent are changed."""

    description: Annotated[str, Meta(max_length=1000)] | UnsetType | None = UNSET
    retention_days: RetentionDays | UnsetType = UNSET


class RetentionPass(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/system/retention/pass`` (control-plane §22): only these runs, and at most ``limit``."""

    run_ids: Annotated[list[Annotated[str, Meta(min_length=1, max_length=128)]], Meta(max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] | None = None


class WorkflowArchive(WorkflowTerminate, frozen=True, kw_only=True):
    """``POST …/archive``, instance and run (control-plane §13.8); every field is optional."""


class SearchAttributeCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/search-attributes`` (control-plane §21)."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,127}\Z")]
    type: Literal["keyword", "text", "int", "double", "bool", "datetime", "keyword_list"]


class RepairPass(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/system/repair/pass`` (control-plane §22): only tasks of these runs, this workflow or this queue."""

    run_ids: Annotated[list[Annotated[str, Meta(min_length=1, max_length=128)]], Meta(max_length=100)] | None = None
    instance_id: Annotated[str, Meta(min_length=1, max_length=191)] | None = None
    connection: Annotated[str, Meta(max_length=191)] | None = None
    queue: Annotated[str, Meta(min_length=1, max_length=191)] | None = None
    respect_throttle: bool | None = None


class ActivityTimeoutPass(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/system/activity-timeouts/pass`` (control-plane §22): only these activities, and at most ``limit``."""

    execution_ids: Annotated[list[Annotated[str, Meta(min_length=1, max_length=128)]], Meta(max_length=100)] | None = (
        None
    )
    limit: Annotated[int, Meta(ge=1, le=100)] | None = None


class WorkflowRequestCancellation(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/request-cancellation``, instance and run (control-plane §13.6); every field is optional."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None
    cleanup_timeout_seconds: Annotated[int, Meta(ge=1, le=CLEANUP_SECONDS_MAX)] | None = None


class WorkflowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/query/{query_name}``, instance and run (control-plane §13.2)."""

    input: Any = None


class WorkflowUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/update/{update_name}``, instance and run (control-plane §13.3); every field is optional.

    Raises ``Invalid`` for the removed ``wait_policy``; a null value counts as absent.
    """

    input: Any = None
    request_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    wait_for: Literal["accepted", "completed"] | None = None
    wait_timeout_seconds: Seconds | None = None
    wait_policy: Any = None
    observability_context: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.wait_policy is not None:
            raise Invalid({"wait_policy": ["This field has been removed. Use wait_for."]})
