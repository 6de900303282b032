"""Webhook events: what they ask for, and what their senders are told (control-plane §18)."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from dw_core.protocol.fields import Name255, Seconds, WorkflowId

SCHEMA: Final = "durable-workflow.v2.bridge-adapter-outcome.contract"
VERSION: Final = 1
KEY_CHARS_MAX: Final = 255
_ADAPTER: Final = re.compile(r"[a-zA-Z0-9._:-]{1,128}")

Operation = Annotated[str, Meta(min_length=1, max_length=255)]


class BridgeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/bridge-adapters/webhook/{adapter}``. What is wrong with a member is told in an outcome."""

    action: Any = None
    idempotency_key: Any = None
    target: Any = None
    input: Any = None
    correlation: Any = None


class StartTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The run that an event starts."""

    workflow_type: Name255
    workflow_id: WorkflowId | None = None
    task_queue: Name255 | None = None
    business_key: Annotated[str, Meta(max_length=255)] | None = None
    duplicate_policy: Literal["reject_duplicate", "use_existing"] | None = None


class SignalTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The signal that an event sends."""

    workflow_id: WorkflowId
    signal_name: Operation


class UpdateTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The update that an event sends."""

    workflow_id: WorkflowId
    update_name: Operation
    wait_for: Literal["accepted", "completed"] | None = None
    wait_timeout_seconds: Seconds | None = None


TARGETS: Final[dict[str, type[StartTarget | SignalTarget | UpdateTarget]]] = {
    "start_workflow": StartTarget,
    "signal_workflow": SignalTarget,
    "update_workflow": UpdateTarget,
}
_SHOWN: Final = {name for target in TARGETS.values() for name in target.__struct_fields__}
_SHOWN_CHARS_MAX: Final = 255


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An event that can be followed."""

    adapter: str
    key: str
    target: StartTarget | SignalTarget | UpdateTarget

    @property
    def request_id(self) -> str:
        """The request id of its command; the same event has the same one."""
        text = f"bridge:{self.adapter}:{self.key}"
        return text if len(text) <= KEY_CHARS_MAX else f"bridge:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def workflow_id(self) -> str:
        """The workflow it is about; one that is to be started gets an id of the event unless it has one."""
        if self.target.workflow_id is not None:
            return self.target.workflow_id
        digest = hashlib.sha256(self.key.encode()).hexdigest()[:32]
        return f"bridge-{self.adapter}-{digest}"[-128:]


class Refused(msgspec.Struct, frozen=True):
    """An event that cannot be followed, by the name of what is wrong with it."""

    reason: str
    errors: dict[str, list[str]]


def read_event(adapter: str, event: BridgeEvent) -> Asked | Refused:
    """What an event asks for."""
    if _ADAPTER.fullmatch(adapter) is None:
        return Refused("malformed_payload", {"adapter": ["must have 1 to 128 letters, digits or ._:-"]})
    if not isinstance(event.idempotency_key, str) or not 1 <= len(event.idempotency_key) <= KEY_CHARS_MAX:
        return Refused(
            "malformed_payload", {"idempotency_key": [f"must be a string of 1 to {KEY_CHARS_MAX} characters"]}
        )
    if event.correlation is not None and not isinstance(event.correlation, dict):
        return Refused("malformed_payload", {"correlation": ["must be an object"]})
    kind = TARGETS.get(event.action) if isinstance(event.action, str) else None
    if kind is None:
        return Refused("unsupported_action", {"action": [f"must be one of {', '.join(TARGETS)}"]})
    if not isinstance(event.target, dict):
        return Refused("unsupported_routing", {"target": ["must be an object"]})
    try:
        target = msgspec.convert(event.target, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        return Refused("unsupported_routing", {f"target.{path.rstrip('`')}" if path else "target": [text]})
    return Asked(adapter=adapter, key=event.idempotency_key, target=target)


def outcome(adapter: str, event: BridgeEvent, word: str, **members: Any) -> dict[str, Any]:
    """The answer to an event: ``word`` is accepted|duplicate|rejected|unauthorized; members that are None are left out.

    Of the target it repeats what names something, and never the payload.
    """
    target = event.target if isinstance(event.target, dict) else {}
    shown = {
        name: value
        for name, value in target.items()
        if name in _SHOWN and (isinstance(value, int) or (isinstance(value, str) and len(value) <= _SHOWN_CHARS_MAX))
    }
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "adapter": adapter,
        "action": event.action if isinstance(event.action, str) else None,
        "accepted": word in ("accepted", "duplicate"),
        "outcome": word,
        "idempotency_key": event.idempotency_key if isinstance(event.idempotency_key, str) else None,
        "target": shown or None,
        "correlation": event.correlation if isinstance(event.correlation, dict) else None,
    }
    return {name: value for name, value in (document | members).items() if value is not None}
