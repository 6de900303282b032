"""Removing external payloads that no run uses any more (control-plane §23)."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import psycopg
import structlog

from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.process.background import Background
from dw_runtime.telemetry.condition import Condition

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 60.0
BATCH: Final = 500


class PayloadCleanupLoop(Background):
    """Looks about once a minute, and again at once when there was more."""

    TASK_NAME = "payload-cleanup"

    def __init__(self, cleanup: PayloadCleanup, *, interval_seconds: float = LOOK_SECONDS) -> None:
        self._cleanup = cleanup
        self._interval = interval_seconds
        self._condition = Condition("payload-cleanup")
        self._storage = Condition("payload-storage")

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval * random.uniform(0.8, 1.2))
            try:
                while await self._look():
                    continue
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)

    async def _look(self) -> bool:
        """One pass; whether there may be more to do at once."""
        cleaned = await self._cleanup.pass_once(None, BATCH)
        if cleaned.deleted_count:
            log.info("payloads.deleted", payloads=len(cleaned.reference_ids), objects=cleaned.deleted_count)
        if cleaned.failed_count:
            self._storage.failed(OSError("objects could not be deleted"), objects=cleaned.failed_count)
        elif cleaned.taken_count:
            self._storage.works()
        return BATCH in (len(cleaned.reference_ids), cleaned.deleted_count)
