"""Which external payloads a transition writes into the rows of its run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dw_core.engine.transition import Transition
from dw_core.payloads.references import IN_EVENTS, REFERENCE_ID, RUNTIME_SCHEMA, RuntimeReference, reference_of

_IN_EVENTS: Final = IN_EVENTS.encode()
_ENVELOPE: Final = re.compile(
    re.escape(IN_EVENTS + RUNTIME_SCHEMA)
    + rf'","reference_id":"({REFERENCE_ID})","codec":"avro","size_bytes":[0-9]+,"sha256":"[0-9a-f]{{64}}"}}}}',
    re.ASCII,
)
"""A whole envelope: one that stood in a request has been checked, and anything else is somebody's own data."""


def named_payloads(transition: Transition) -> Iterator[str]:
    """The reference ids, some of them perhaps more than once; without any, this looks for one text in each event."""
    for event in transition.events:
        if IN_EVENTS in event.body:
            yield from _ENVELOPE.findall(event.body)
    for buffered in transition.inbox_added:
        if _IN_EVENTS in bytes(buffered.payload):
            yield from _ENVELOPE.findall(bytes(buffered.payload).decode())
    for payload in _stored(transition):
        reference = None if payload is None else reference_of(payload)
        if isinstance(reference, RuntimeReference):
            yield reference.reference_id


def _stored(transition: Transition) -> Iterator[str | None]:
    """The payloads that are kept in rows and not in events."""
    for sequence in transition.created_activities:
        yield transition.activities[sequence].arguments
    for item in transition.output_items:
        yield item.payload
