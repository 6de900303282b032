"""The JSON form of a history event (engine §2.1), the same bytes on both planes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.ids import event_id
from dw_core.protocol.timestamps import wire_time


class EventDocument(msgspec.Struct):
    """Members in wire order. ``timestamp`` repeats ``recorded_at`` for control-plane readers."""

    id: str
    sequence: int
    event_type: str
    namespace: str
    payload: Any
    workflow_task_id: str | None
    workflow_command_id: str | None
    recorded_at: str
    timestamp: str


_encoder = msgspec.json.Encoder()


def encode_event(
    run_id: str,
    namespace: str,
    sequence: int,
    event_type: str,
    payload: dict[str, Any] | msgspec.Raw,
    recorded_at: datetime,
    *,
    workflow_task_id: str | None = None,
    workflow_command_id: str | None = None,
) -> str:
    """Encode one event. ``payload`` may be already encoded JSON, which is spliced unchanged."""
    at = wire_time(recorded_at)
    document = EventDocument(
        event_id(run_id, sequence),
        sequence,
        event_type,
        namespace,
        payload,
        workflow_task_id,
        workflow_command_id,
        at,
        at,
    )
    return _encoder.encode(document).decode()


def with_member(payload: dict[str, Any] | msgspec.Raw, key: str, value: int) -> dict[str, Any] | msgspec.Raw:
    """A payload with one more member at its end; encoded JSON (an object that is not empty) is not decoded."""
    if isinstance(payload, dict):
        return payload | {key: value}
    return msgspec.Raw(bytes(payload)[:-1] + f',"{key}":{value}}}'.encode())


def encode_payload(payload: dict[str, Any]) -> msgspec.Raw:
    """Encode a payload ahead of its event, for an event that waits in the inbox."""
    return msgspec.Raw(_encoder.encode(payload))
