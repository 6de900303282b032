"""Runs: one by name, those of a workflow id, and their history."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.rows import Run
from dw_core.history.bundle import Sections
from dw_core.protocol.problems import Problem
from dw_runtime.store.database import Database, first
from dw_runtime.store.pages import read_page
from dw_runtime.store.reads.rows import (
    DescribedRun,
    HistoryPage,
    InstanceRun,
    Summary,
    TerminalEvent,
)

_decode_run = msgspec.json.Decoder(Run).decode
_decode_summary = msgspec.json.Decoder(Summary).decode
_decode_row = msgspec.json.Decoder(dict[str, Any]).decode
_decode_rows = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_terminal = msgspec.json.Decoder(TerminalEvent).decode


class RunReads:
    """Reads runs. A worker silent for ``stale_after_seconds`` no longer counts as one that could take a pinned run."""

    def __init__(self, database: Database, *, stale_after_seconds: int) -> None:
        self._database = database
        self._stale_after_seconds = stale_after_seconds

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> DescribedRun:
        """The named run, or the current one.

        Raises ``Problem`` ``instance_not_found`` or ``run_not_found`` (control-plane §10.2).
        """
        row = first(
            await self._database.read("describe_run", namespace, workflow_id, run_id, self._stale_after_seconds)
        )
        if row is None:
            raise instance_not_found(workflow_id)
        run_count, is_current, run, summary, task_state, terminal, is_supported = row
        if run is None:
            raise run_not_found(workflow_id, run_id)
        return DescribedRun(
            run=_decode_run(run),
            summary=_decode_summary(summary),
            run_count=run_count,
            is_current=is_current,
            is_supported=is_supported,
            has_workflow_task=task_state is not None,
            terminal_event=None if terminal is None else _decode_terminal(terminal),
        )

    async def of_instance(
        self, namespace: str, workflow_id: str, *, after_number: int, size: int
    ) -> tuple[int, list[InstanceRun]]:
        """How many runs a workflow id has, and at most ``size`` behind a run number, oldest first.

        Raises ``Problem`` ``instance_not_found``.
        """
        rows = await self._database.read(
            "list_instance_runs", namespace, workflow_id, self._stale_after_seconds, after_number, size
        )
        if not rows:
            raise instance_not_found(workflow_id)
        return rows[0][0], [
            InstanceRun(
                run=_decode_run(run), business_key=business_key, is_current=is_current, is_supported=is_supported
            )
            for _, is_current, run, business_key, is_supported in rows
            if run is not None
        ]

    async def history_bytes(self, namespace: str, workflow_id: str, run_id: str) -> int:
        """Bytes of a run's history; raises ``Problem`` ``instance_not_found`` or ``run_not_found``."""
        row = first(await self._database.read("measure_run", namespace, workflow_id, run_id))
        if row is None:
            raise instance_not_found(workflow_id)
        if row[0] is None:
            raise run_not_found(workflow_id, run_id)
        return int(row[0])

    async def sections(self, run_id: str) -> Sections:
        """Everything that is known of an existing run, as one statement sees it."""
        row = first(await self._database.read("export_run", run_id))
        if row is None:
            raise Problem("run_not_found", f"Run {run_id} is gone.", run_id=run_id)
        run, summary, current_run_id, *lists = row
        named = dict(zip(Sections.__struct_fields__[3:], (_decode_rows(text or "[]") for text in lists), strict=True))
        return Sections(run=_decode_row(run), summary=_decode_row(summary), current_run_id=current_run_id, **named)

    async def history(
        self, namespace: str, workflow_id: str, run_id: str, *, after_sequence: int, size: int
    ) -> HistoryPage:
        """At most ``size`` events behind ``after_sequence``.

        Raises ``Problem`` ``instance_not_found`` or ``run_not_found``.
        """
        row = first(await self._database.read("read_run_history", namespace, workflow_id, run_id, after_sequence, size))
        if row is None:
            raise instance_not_found(workflow_id)
        last_sequence, is_closed, events = row
        if last_sequence is None:
            raise run_not_found(workflow_id, run_id)
        return HistoryPage(page=read_page(events), last_sequence=last_sequence, is_closed=is_closed)

    async def exists(self, namespace: str, workflow_id: str, run_id: str) -> bool:
        """Whether the run is one of the workflow id's runs."""
        ((found,),) = await self._database.read("run_exists", namespace, workflow_id, run_id)
        return bool(found)


def instance_not_found(workflow_id: str) -> Problem:
    """No workflow of the namespace has this id."""
    return Problem("instance_not_found", f"Workflow {workflow_id} does not exist.", workflow_id=workflow_id)


def run_not_found(workflow_id: str, run_id: str | None) -> Problem:
    """The workflow exists, the run does not."""
    return Problem(
        "run_not_found", f"Workflow {workflow_id} has no run {run_id}.", workflow_id=workflow_id, run_id=run_id
    )
