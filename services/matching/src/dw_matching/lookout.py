"""The fall-back of wake signals: one statement a second for every queue that polls wait on and for service calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import psycopg

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_matching.broker import Broker
from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition


class Lookout(Background):
    """Finds ready tasks and service calls whose wake was lost or that have become due, and polls that repeat an earlier
    one.

    With Redis gone this is how work of other processes is found: nothing is lost, only up to ``interval_seconds``
    (jittered by a fifth) of latency is added.
    """

    TASK_NAME = "lookout"

    def __init__(
        self, database: Database, broker: Broker, *, interval_seconds: float, on_service_calls: Callable[[], None]
    ) -> None:
        self._database = database
        self._broker = broker
        self._interval = interval_seconds
        self._on_service_calls = on_service_calls
        self._condition = Condition("lookout")

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval * random.uniform(0.8, 1.2))
            try:
                await self.look()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)

    async def look(self) -> None:
        """One look at every queue with held polls, and at the service calls."""
        keys = self._broker.held()
        named = encode_rows({"namespace": key.namespace, "kind": key.kind, "queue": key.queue} for key in keys)
        polls = self._broker.unchecked(with_queries=True)
        repeated = []
        for namespace, kind, queue, request_id in await self._database.read("look_around", named, encode_rows(polls)):
            if request_id is not None:
                repeated.append(request_id)
            elif queue is None:
                self._on_service_calls()
            else:
                self._broker.wake(WakeKey(namespace, TaskKind(kind), queue))
        self._broker.checked(polls, repeated)
