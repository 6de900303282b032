"""Which external payloads a transition writes into the rows of its run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dw_core.engine.transition import Transition
from dw_core.payloads.references import IN_EVENTS, REFERENCE_ID, RUNTIME

_STORED: Final = f'{{"{RUNTIME}":'
_IN_EVENTS: Final = IN_EVENTS.encode()
_ID: Final = re.compile(rf'"{RUNTIME}":{{"schema":"[^"]*","reference_id":"({REFERENCE_ID})"', re.ASCII)


def named_payloads(transition: Transition) -> Iterator[str]:
    """The reference ids, some of them perhaps more than once; without any, this looks for one text in each event.

    Only what this server has written as a reference counts. Text that looks like one stands in quotes, with its own
    escaped.
    """
    for text in _texts(transition):
        yield from _ID.findall(text)


def _texts(transition: Transition) -> Iterator[str]:
    """The texts of a transition that have references."""
    for event in transition.events:
        if IN_EVENTS in event.body:
            yield event.body
    for buffered in transition.inbox_added:
        if _IN_EVENTS in bytes(buffered.payload):
            yield bytes(buffered.payload).decode()
    for sequence in transition.created_activities:
        arguments = transition.activities[sequence].arguments
        if arguments is not None and arguments.startswith(_STORED):
            yield arguments
    for item in transition.output_items:
        if item.payload is not None and item.payload.startswith(_STORED):
            yield item.payload
