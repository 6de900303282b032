"""``GET …/runs/{run_id}/history/export`` (control-plane §10.6)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from dw_core.history.bundle import Sections, build_bundle
from dw_core.limits import HISTORY_EXPORT_BYTES_MAX
from dw_core.protocol.problems import Problem
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Reply
from dw_runtime.store.reads.runs import RunReads


class ExportHandlers:
    """Exports runs as bundles that can be verified and replayed anywhere."""

    def __init__(self, runs: RunReads) -> None:
        self._runs = runs

    async def export(self, call: Call) -> Reply:
        """The bundle of a run; one that is still open is marked as not complete.

        Raises ``Problem`` ``instance_not_found``, ``run_not_found`` or ``history_export_too_large``.
        """
        workflow_id, run_id = call.params["workflow_id"], call.params["run_id"]
        size = await self._runs.history_bytes(call.namespace, workflow_id, run_id)
        if size > HISTORY_EXPORT_BYTES_MAX:
            raise Problem(
                "history_export_too_large",
                f"The history has {size} bytes; at most {HISTORY_EXPORT_BYTES_MAX} can be exported.",
            )
        sections = await self._runs.sections(run_id)
        return Reply(await asyncio.to_thread(_encoded, sections))


def _encoded(sections: Sections) -> bytes:
    """In a thread: a long history takes a while to be put in its canonical form."""
    return msgspec.json.encode(build_bundle(sections, wire_time(datetime.now(UTC))))
