"""Which payloads the rows of a run use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dw_core.engine.rows import Run
from dw_core.engine.run_rows import Activity, Event, InboxEvent
from dw_core.engine.stream_rows import OutputItem
from dw_core.engine.transition import Transition
from dw_core.history.event import encode_event, encode_payload
from dw_core.payloads.envelope import envelope
from dw_core.payloads.references import RuntimeReference, stored
from dw_runtime.store.payload_uses import named_payloads

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RUN = Run(
    run_id="r", namespace="n", workflow_id="w", workflow_type="t", queue="q", started_at=NOW, last_progress_at=NOW
)


def reference(number: int) -> str:
    """The stored form of a reference."""
    return stored(RuntimeReference(reference_id=f"ep_{number:026d}", size_bytes=1, sha256="0" * 64))


def transition(payload: dict[str, Any], **rows: Any) -> Transition:
    """A transition that appends one event."""
    body = encode_event("r", "n", 1, "SideEffectRecorded", payload, NOW)
    event = Event(run_id="r", sequence=1, event_type="SideEffectRecorded", body=body)
    return Transition(run=RUN, events=[event], reply={}, **rows)


def test_references_are_found_in_events_activities_items_and_the_inbox() -> None:
    buffered = InboxEvent(
        run_id="r", event_type="SignalReceived", payload=encode_payload({"arguments": envelope(reference(2))})
    )
    activity = Activity(run_id="r", sequence=1, activity_type="a", queue="q", arguments=reference(3), scheduled_at=NOW)
    found = transition(
        {"result": envelope(reference(1)), "more": [envelope(reference(5)), envelope(reference(1))]},
        inbox_added=[buffered],
        activities={1: activity},
        created_activities={1},
        output_items=[
            OutputItem(
                run_id="r",
                stream_name="s",
                item_offset=0,
                idempotency_key="k",
                origin="workflow",
                payload=reference(4),
                emitted_at=NOW,
            )
        ],
    )
    assert sorted(set(named_payloads(found))) == [f"ep_{number:026d}" for number in range(1, 6)]


def test_what_only_looks_like_a_reference_is_none() -> None:
    text = reference(1)
    spoofed = {
        "memo": {
            "text": text,
            "object": {"reference_id": f"ep_{2:026d}"},
            "quoted": f'{{"codec":"avro",{text[1:]}',
            "with_more": envelope(text) | {"more": 1},
            "with_more_inside": {"codec": "avro", "external_payload": envelope(text)["external_payload"] | {"more": 1}},
        },
        "result": "wwHioz3/VYAiNwA=",
    }
    assert list(named_payloads(transition(spoofed))) == []
