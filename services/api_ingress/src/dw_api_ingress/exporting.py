"""``GET …/runs/{run_id}/history/export`` (control-plane §10.6)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from dw_core.history.bundle import Sections, build_bundle
from dw_core.history.inlining import external_payloads, with_payloads
from dw_core.limits import HISTORY_EXPORT_BYTES_MAX
from dw_core.payloads.references import reference_of
from dw_core.protocol.problems import Problem
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Reply
from dw_runtime.payloads.service import Payloads
from dw_runtime.store.reads.runs import RunReads


class ExportHandlers:
    """Exports runs as bundles that can be verified and replayed anywhere."""

    def __init__(self, runs: RunReads, payloads: Payloads) -> None:
        self._runs = runs
        self._payloads = payloads

    async def export(self, call: Call) -> Reply:
        """The bundle of a run; one that is still open is marked as not complete.

        Payloads that are kept elsewhere are part of it, so that it needs no storage. Raises ``Problem``
        ``instance_not_found``, ``run_not_found``, ``history_export_too_large``, and for such a payload what reading it
        raises.
        """
        workflow_id, run_id = call.params["workflow_id"], call.params["run_id"]
        size = await self._runs.history_bytes(call.namespace, workflow_id, run_id)
        _check_size(size)
        sections = await self._runs.sections(run_id)
        elsewhere = await asyncio.to_thread(external_payloads, sections)
        if elsewhere:
            references = [reference_of(payload) for payload in elsewhere]
            _check_size(size + sum(reference.size_bytes for reference in references if reference is not None))
            blobs = await self._payloads.load_all(call.namespace, elsewhere)
            sections = await asyncio.to_thread(with_payloads, sections, blobs)
        return Reply(await asyncio.to_thread(_encoded, sections))


def _check_size(size_bytes: int) -> None:
    if size_bytes > HISTORY_EXPORT_BYTES_MAX:
        raise Problem(
            "history_export_too_large",
            f"The history has {size_bytes} bytes; at most {HISTORY_EXPORT_BYTES_MAX} can be exported.",
        )


def _encoded(sections: Sections) -> bytes:
    """In a thread: a long history takes a while to be put in its canonical form."""
    return msgspec.json.encode(build_bundle(sections, wire_time(datetime.now(UTC))))
