"""The pump's connection, on the event loop that role processes run on."""

from __future__ import annotations

import asyncio
import random

import psycopg
import uvloop

from dw_runtime.store.link import EXCHANGE_SECONDS, Link
from dw_runtime.telemetry.metrics import Metrics

LOSSES = 60
KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s"


def test_a_lost_connection_is_noticed_and_replaced(database_url: str, rng: random.Random) -> None:
    """Killed at any moment of an exchange: the exchange fails soon, and the next transaction works."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_lose_connections(database_url, rng))


async def _lose_connections(database_url: str, rng: random.Random) -> None:
    link, losses = Link(database_url, Metrics()), 0
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as admin:
        while losses < LOSSES:
            async with asyncio.timeout(EXCHANGE_SECONDS / 4), link.transaction() as transaction:
                await transaction.commit([("list_namespaces",)])
            killing = asyncio.create_task(_kill(admin, link.backend_pid, rng.uniform(0, 0.002)))
            try:
                async with asyncio.timeout(EXCHANGE_SECONDS / 4):
                    await _use_until_lost(link)
            except psycopg.OperationalError:
                losses += 1
            await killing
    await link.close()


async def _use_until_lost(link: Link) -> None:
    """Exchange after exchange on one connection; returns when it was lost between two of them."""
    pid = link.backend_pid
    while link.backend_pid == pid:
        async with link.transaction() as transaction:
            await transaction.ask([("list_namespaces",)])
            await transaction.commit([("list_namespaces",)])


async def _kill(admin: psycopg.AsyncConnection[tuple[object, ...]], pid: int | None, after_seconds: float) -> None:
    await asyncio.sleep(after_seconds)
    await admin.execute(KILL, (pid,))
