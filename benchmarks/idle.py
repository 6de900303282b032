"""Polls that find nothing: many queues, many workers, no work."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from benchmarks.plans import IdleOutcome, IdlePlan
from benchmarks.protocol import Api, poll_body
from benchmarks.wire import Connection

WORKERS_PER_QUEUE: Final = 2
POLL_WINDOW_SECONDS: Final = 60


class Idle:
    """One run of an :class:`IdlePlan`; every poll has a connection of its own."""

    def __init__(self, plan: IdlePlan) -> None:
        self._plan = plan
        self._api = Api(plan.url)
        self._run = uuid.uuid4().hex[:12]
        self._polls: list[asyncio.Task[None]] = []
        self._ended = 0

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Register the workers and send every poll once."""
        registrar = await Connection.open(self._plan.url)
        for queue in range(self._plan.queues):
            for worker in range(WORKERS_PER_QUEUE):
                await self._api.register(registrar, self._worker(queue, worker), self._queue(queue))
        registrar.close()
        for number in range(self._plan.polls):
            connection = await Connection.open(self._plan.url)
            self._polls.append(group.create_task(self._hold(connection, number)))

    def begin(self) -> None:
        """The measured window begins."""
        self._ended = 0

    def end(self) -> IdleOutcome:
        """The measured window ends."""
        return IdleOutcome(ended_early=self._ended)

    async def close(self) -> None:
        """Let go of the polls."""
        for poll in self._polls:
            poll.cancel()

    async def _hold(self, connection: Connection, number: int) -> None:
        # Kinds alternate, then queues, then workers, so that every queue has both workers polling for both kinds.
        is_activity, rest = number % 2, number // 2
        queue, rest = rest % self._plan.queues, rest // self._plan.queues
        body = poll_body(
            self._worker(queue, rest % WORKERS_PER_QUEUE), self._queue(queue), str(number), POLL_WINDOW_SECONDS
        )
        poll = self._api.poll_activity if is_activity else self._api.poll_workflow
        await poll(connection, body)
        self._ended += 1

    def _queue(self, number: int) -> str:
        return f"{self._plan.queue}-{number}"

    def _worker(self, queue: int, number: int) -> str:
        return f"idle-{self._run}-{queue}-{number}"
