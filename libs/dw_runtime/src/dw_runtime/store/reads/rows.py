"""What the reads give out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import Run
from dw_runtime.store.pages import Page


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's start and close fixed. ``memo`` and ``search_attributes`` are encoded JSON objects."""

    run_id: str
    namespace: str
    workflow_id: str
    workflow_type: str
    queue: str
    compatibility: str | None
    business_key: str | None
    status_bucket: str
    started_at: datetime
    closed_at: datetime | None
    memo: msgspec.Raw
    search_attributes: msgspec.Raw
    search_attribute_types: dict[str, str] | None
    execution_timeout_seconds: int | None
    run_timeout_seconds: int | None
    arguments: str
    output: str | None

    @property
    def shown_attributes(self) -> msgspec.Raw | dict[str, Any]:
        """The search attributes. Postgres keeps numbers without an exponent, so that 1e16 looks like a whole one."""
        types = self.search_attribute_types or {}
        if "float" not in types.values():
            return self.search_attributes
        attributes: dict[str, Any] = msgspec.json.decode(self.search_attributes)
        is_double = {name for name, value in attributes.items() if types.get(name) == "float" and type(value) is int}
        return {name: float(value) if name in is_double else value for name, value in attributes.items()}


class TerminalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event that closed a failed run."""

    sequence: int
    event_type: str
    payload: dict[str, object]


class DescribedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what its description shows beside its own row.

    ``is_supported`` tells whether a live worker can take it; ``has_workflow_task`` whether one is open.
    """

    run: Run
    summary: Summary
    run_count: int
    is_current: bool
    is_supported: bool
    has_workflow_task: bool
    terminal_event: TerminalEvent | None


class InstanceRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the list of a workflow id's runs."""

    run: Run
    business_key: str | None
    is_current: bool
    is_supported: bool


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a listing; ``status`` is the exact one of this moment."""

    summary: Summary
    status: str
    is_supported: bool


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The last row a listing has shown; the next page begins behind it."""

    started_at: datetime
    run_id: str


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events after a position. ``last_sequence`` is the run's newest event."""

    page: Page
    last_sequence: int
    is_closed: bool


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace (control-plane §16.1)."""

    name: str
    description: str | None
    retention_days: int
    status: str
    external_payload_storage: msgspec.Raw
    created_at: datetime
    updated_at: datetime
