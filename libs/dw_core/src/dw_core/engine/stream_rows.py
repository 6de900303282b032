"""The rows of message streams (input) and of output streams, beside those of :mod:`dw_core.engine.rows`."""

from __future__ import annotations

from datetime import datetime

import msgspec

OPEN, CLOSED, ERRORED = "open", "closed", "errored"
"""What an output stream can be."""


class StreamWait(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for a message behind ``after_position``, as its newest workflow task has reported."""

    run_id: str
    after_position: int
    since: datetime


class MessageStream(msgspec.Struct, kw_only=True):
    """A named input stream of a workflow id (engine §1.15); it outlives the runs of a chain.

    ``last_position`` counts its messages, ``cursor_position`` is how far they have been consumed.
    """

    namespace: str
    workflow_id: str
    stream_name: str
    last_position: int = 0
    cursor_position: int = 0
    pending_wait: StreamWait | None = None
    duplicate_count: int = 0
    last_input_outcome: str | None = None
    last_input_message_id: str | None = None
    last_input_at: datetime | None = None


class StreamMessage(msgspec.Struct, kw_only=True):
    """A message, kept under the id that its sender gave it.

    ``fingerprint`` is that of ``arguments``, the blob of a list, which is None where only the identity was read.
    """

    namespace: str
    workflow_id: str
    stream_name: str
    position: int
    message_id: str
    fingerprint: str
    arguments: str | None = None
    run_id: str
    command_id: str
    command_sequence: int
    accepted_at: datetime

    @property
    def key(self) -> str:
        """What no other message of the workflow id has; names have no slash in them."""
        return message_key(self.stream_name, self.message_id)


def message_key(stream_name: str, message_id: str) -> str:
    """The key of a message within its workflow id."""
    return f"{stream_name}/{message_id}"


class OutputStream(msgspec.Struct, kw_only=True):
    """A named output stream of a run (engine §1.17). ``status`` open|closed|errored.

    ``total_items`` were ever appended, ``pending_items`` of them are kept: all, until ``expires_at``.
    """

    run_id: str
    stream_name: str
    status: str = OPEN
    total_items: int = 0
    pending_items: int = 0
    opened_at: datetime
    last_appended_at: datetime | None = None
    closed_at: datetime | None = None
    error_reason: str | None = None
    retention_seconds: int | None = None
    expires_at: datetime | None = None


class OutputItem(msgspec.Struct, kw_only=True):
    """An item of an output stream; offsets begin at 0. ``payload`` is a blob, unchanged as it was sent."""

    run_id: str
    stream_name: str
    item_offset: int
    idempotency_key: str | None = None
    origin: str
    origin_reference: str | None = None
    item_type: str | None = None
    content_type: str | None = None
    payload: str | None = None
    payload_reference: str | None = None
    emitted_at: datetime

    @property
    def key(self) -> str | None:
        """What a repetition of the item has in common with it; None when its writer gave it no identity."""
        return None if self.idempotency_key is None else item_key(self.stream_name, self.idempotency_key)


class KnownItem(msgspec.Struct, frozen=True, kw_only=True):
    """The offset of an item that is already there, by its identity."""

    run_id: str
    stream_name: str
    idempotency_key: str
    item_offset: int

    @property
    def key(self) -> str:
        """As for :class:`OutputItem`."""
        return item_key(self.stream_name, self.idempotency_key)


def item_key(stream_name: str, idempotency_key: str) -> str:
    """The key of an item within its run; names have no slash in them."""
    return f"{stream_name}/{idempotency_key}"
