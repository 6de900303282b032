"""What the admission of a query needs to know of its run and of the workers."""

from __future__ import annotations

import msgspec

from dw_core.engine.rows import Run
from dw_core.queries.admission import CapableWorkers, QueryTarget
from dw_runtime.store.database import Database, first
from dw_runtime.store.reads.runs import instance_not_found, run_not_found

_decode_run = msgspec.json.Decoder(Run).decode
_decode_workers = msgspec.json.Decoder(list[CapableWorkers]).decode


class QueryReads:
    """Reads query targets. A worker silent for ``stale_after_seconds`` is not counted on."""

    def __init__(self, database: Database, *, stale_after_seconds: int) -> None:
        self._database = database
        self._stale_after_seconds = stale_after_seconds

    async def target(self, namespace: str, workflow_id: str, run_id: str | None) -> QueryTarget:
        """The named run, or the current one.

        Raises ``Problem`` ``instance_not_found`` or ``run_not_found`` (control-plane §13).
        """
        row = first(
            await self._database.read("read_query_target", namespace, workflow_id, run_id, self._stale_after_seconds)
        )
        if row is None:
            raise instance_not_found(workflow_id)
        is_current, run, has_history, workers = row
        if run is None:
            raise run_not_found(workflow_id, run_id)
        return QueryTarget(
            run=_decode_run(run),
            is_current=is_current,
            is_named=run_id is not None,
            has_history=has_history,
            workers=_decode_workers(workers) if workers else [],
        )
