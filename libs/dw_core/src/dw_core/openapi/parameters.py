"""The query parameters that routes read."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dw_core.payloads.codec import CODEC
from dw_core.payloads.transport import CODEC_HEADER, SHA256_HEADER, SIZE_HEADER


class QueryParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One query parameter. ``choices`` are its values when they are a closed set; bounds are for integers."""

    name: str
    summary: str
    kind: Literal["string", "integer", "boolean"] = "string"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        members: dict[str, Any] = {"type": self.kind}
        if self.choices:
            members["enum"] = list(self.choices)
        if self.minimum is not None:
            members["minimum"] = self.minimum
        if self.maximum is not None:
            members["maximum"] = self.maximum
        return members


def paged(maximum: int) -> tuple[QueryParameter, ...]:
    """The parameters of a listing by pages of at most ``maximum`` entries."""
    return (
        QueryParameter(name="page_size", summary="Entries of a page.", kind="integer", minimum=1, maximum=maximum),
        QueryParameter(name="next_page_token", summary="Where the page begins: what the last page gave."),
    )


_STATUS = QueryParameter(name="status", summary="Only those.", choices=("running", "completed", "failed"))
_PREVIEW = QueryParameter(
    name="include_last_event_payload", summary="Whether to show the beginning of the last event.", kind="boolean"
)
_OBSERVED = (
    QueryParameter(name="search_attribute_keys", summary="At most 20 names, with commas between or repeated."),
    QueryParameter(name="history_page_size", summary="Events of a page.", kind="integer", minimum=1, maximum=1000),
    QueryParameter(name="history_page_token", summary="Where the page begins: what the last page gave."),
)
_CALLS = (QueryParameter(name="limit", summary="How many are shown.", kind="integer", minimum=1, maximum=200),)
_LIMIT = QueryParameter(name="limit", summary="How many are looked at.", kind="integer", minimum=1, maximum=100)

PARAMETERS: dict[str, tuple[QueryParameter, ...]] = {
    "workflow_history": (
        *paged(1000),
        QueryParameter(name="wait_new_event", summary="Whether to wait for more at the end.", kind="boolean"),
    ),
    "activity_list": (*paged(200), _STATUS),
    "output_stream_read": (
        QueryParameter(name="from", summary="The first offset.", kind="integer", minimum=0),
        QueryParameter(name="max_items", summary="Items of an answer.", kind="integer", minimum=1),
        QueryParameter(name="wait_seconds", summary="How long to wait for an item.", kind="integer", minimum=0),
    ),
    "worker_list": (
        QueryParameter(name="task_queue", summary="Only workers of this queue."),
        QueryParameter(name="status", summary="Only those.", choices=("active", "draining", "stale")),
    ),
    "task_queue_list": paged(1000),
    "workflow_debug": (_PREVIEW,),
    "workflow_run_debug": (_PREVIEW,),
    "workflow_observe": _OBSERVED,
    "workflow_run_observe": _OBSERVED,
    "workflow_nexus_operations": _CALLS,
    "workflow_run_nexus_operations": _CALLS,
    "schedule_list": (
        *paged(200),
        QueryParameter(name="status", summary="Only those.", choices=("active", "paused")),
        QueryParameter(name="workflow_type", summary="Only schedules that start this type."),
        QueryParameter(name="query", summary="Comparisons with =, joined by AND."),
    ),
    "schedule_history": (
        QueryParameter(name="limit", summary="Entries of a page.", kind="integer", minimum=1, maximum=500),
        QueryParameter(name="after_sequence", summary="Where the page begins.", kind="integer", minimum=0),
    ),
    "system_activity_timeouts": (_LIMIT,),
    "system_retention": (_LIMIT,),
    "system_external_payload_cleanup": (_LIMIT,),
    "system_audit": (
        *paged(1000),
        QueryParameter(name="subject", summary="Who has given the command."),
        QueryParameter(name="command", summary="The name of the route."),
        QueryParameter(name="target", summary="What the command acts on."),
        QueryParameter(name="outcome", summary="What became of it.", choices=("accepted", "rejected")),
        QueryParameter(name="since", summary="ISO 8601 time from which on entries count."),
        QueryParameter(name="until", summary="ISO 8601 time before which entries count."),
        QueryParameter(name="all_namespaces", summary="Whether every namespace is read.", kind="boolean"),
    ),
}
"""By route name."""

_PAYLOAD: tuple[tuple[str, dict[str, Any]], ...] = (
    (CODEC_HEADER, {"type": "string", "const": CODEC}),
    (SIZE_HEADER, {"type": "integer", "minimum": 0}),
    (SHA256_HEADER, {"type": "string", "pattern": "^[a-f0-9]{64}$"}),
)
HEADERS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "external_payload_upload": _PAYLOAD,
    "external_payload_fetch": _PAYLOAD,
}
"""Request headers with their JSON Schemas, by route name; those of the gates are not among them."""
