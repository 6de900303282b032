"""The rows of signals and updates that decisions read and write, beside those of :mod:`dw_core.engine.rows`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class SignalMark(msgspec.Struct, frozen=True, kw_only=True):
    """The newest accepted signal of a run, by the command it came with."""

    command_id: str
    command_sequence: int


class Update(msgspec.Struct, kw_only=True):
    """An accepted update (engine §1.9). ``status`` accepted|completed|failed; an open one is still to be applied.

    ``queued_behind`` is the command of an earlier signal that no worker has closed a task on yet; ``caller`` names the
    process that waits for the outcome. ``target_scope`` is ``run`` for one that was sent to this very run.
    ``service_call_id`` is the service call that ends with it. ``arguments`` is read only for the update that a report
    names, and when the run closes.
    """

    update_id: str
    command_id: str
    run_id: str
    update_name: str
    target_scope: str = "instance"
    status: str = "accepted"
    outcome: str | None = None
    command_sequence: int
    workflow_sequence: int | None = None
    arguments: str | None = None
    result: str | None = None
    failure_id: str | None = None
    failure_message: str | None = None
    queued_behind: str | None = None
    caller: str | None = None
    service_call_id: str | None = None
    accepted_at: datetime
    applied_at: datetime | None = None
    closed_at: datetime | None = None


class OfferedContract(msgspec.Struct, frozen=True, kw_only=True):
    """What live workers of a queue declare for a workflow type; ``build_id`` is the build that a start asks for."""

    namespace: str
    queue: str
    workflow_type: str
    build_id: str | None = None
    contract: dict[str, Any]
