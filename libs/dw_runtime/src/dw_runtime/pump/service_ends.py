"""Ending service calls outside of a run's decision: by who has served them, or by who cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from dw_core.engine.inputs import TakeDeliveries
from dw_core.engine.transition import WakeKey
from dw_core.services.rows import CallEnd
from dw_core.services.wakes import SERVICE_RESULTS
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.services import END_SERVICE_CALLS

log = structlog.get_logger(__name__)


async def end_call(database: Database, pump: Pump, announce: Callable[[Iterable[WakeKey]], None], end: CallEnd) -> bool:
    """Close the call and tell who waits for it; False when it is closed already or the lease is not held any more.

    The word to waiting runs is written with the end. A run that does not hear of it now is found by the sweep.
    """
    ((runs, ended),) = await database.rows(END_SERVICE_CALLS, encode_rows([end]))
    announce((SERVICE_RESULTS,))
    told = [pump.submit(TakeDeliveries(run_id=run_id)) for run_id in runs or ()]
    for failure in await asyncio.gather(*told, return_exceptions=True):
        if isinstance(failure, BaseException):
            log.info("service_call.told_later", error=type(failure).__name__)
    return bool(ended)
