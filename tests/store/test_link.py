"""The pump's connection: it outlives the connections that break under it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import psycopg
import pytest
import uvloop

from dw_runtime.store.link import EXCHANGE_SECONDS, Link
from dw_runtime.telemetry.metrics import Metrics
from tests.harness.waiting import eventually

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
APPLICATION = "dw-server"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
"""The backends of the link; every test process has a database of its own."""
LOSSES = 60


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest, database_url: str) -> Callable[[Callable[[Link], Awaitable[None]]], None]:
    """Runs a test on either event loop with a link that ends with it."""

    async def with_link(test: Callable[[Link], Awaitable[None]]) -> None:
        complaints: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        link = Link(database_url, Metrics())
        try:
            await test(link)
        finally:
            await link.close()
        assert complaints == []

    def runner(test: Callable[[Link], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as loop:
            loop.run(with_link(test))

    return runner


async def ask_once(link: Link) -> None:
    async with link.transaction() as transaction:
        (rows,) = await transaction.commit([("lock_runs", "[]")])
    assert rows == [(None,)]


async def terminate(database_url: str) -> None:
    """End the link's backend; return when it has gone."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as admin:
        await admin.execute(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS found", (APPLICATION,))

        async def has_gone() -> bool:
            return await (await admin.execute(BACKENDS, (APPLICATION,))).fetchone() is None

        await eventually(has_gone, "the backend has ended")


def test_a_connection_that_ends_while_idle_is_replaced_without_a_failure(
    run: Callable[[Callable[[Link], Awaitable[None]]], None], database_url: str
) -> None:
    async def test(link: Link) -> None:
        async def was_noticed() -> bool:
            return not link.is_connected

        for _ in range(3):
            await ask_once(link)
            assert link.is_connected
            await terminate(database_url)
            await eventually(was_noticed, "the idle link has noticed")
        await ask_once(link)

    run(test)


def test_a_connection_that_ends_in_a_transaction_fails_that_one_and_no_other(
    run: Callable[[Callable[[Link], Awaitable[None]]], None], database_url: str
) -> None:
    async def test(link: Link) -> None:
        for _ in range(3):
            with pytest.raises(psycopg.OperationalError):
                async with link.transaction() as transaction:
                    await transaction.ask([("lock_runs", "[]")])
                    await terminate(database_url)
                    await transaction.commit()
            await ask_once(link)

    run(test)


def test_a_connection_that_ends_at_any_moment_is_noticed_soon(
    run: Callable[[Callable[[Link], Awaitable[None]]], None], database_url: str, rng: random.Random
) -> None:
    """The event loop does not tell of every loss; an exchange that hears nothing looks for itself."""

    async def use_until_lost(link: Link) -> None:
        while link.is_connected:
            async with link.transaction() as transaction:
                await transaction.ask([("lock_runs", "[]")])
                await transaction.commit([("lock_runs", "[]")])

    async def test(link: Link) -> None:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as admin:
            for _ in range(LOSSES):
                await ask_once(link)
                loss = asyncio.create_task(kill_after(admin, rng.uniform(0, 0.002)))
                async with asyncio.timeout(EXCHANGE_SECONDS / 4):
                    with contextlib.suppress(psycopg.OperationalError):
                        await use_until_lost(link)
                await loss
        await ask_once(link)

    run(test)


async def kill_after(admin: psycopg.AsyncConnection[tuple[object, ...]], seconds: float) -> None:
    """End the link's backend in a moment, without waiting for its end."""
    await asyncio.sleep(seconds)
    await admin.execute(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS found", (APPLICATION,))


def test_a_statement_larger_than_every_buffer_is_sent_whole(
    run: Callable[[Callable[[Link], Awaitable[None]]], None],
) -> None:
    async def test(link: Link) -> None:
        runs = "[" + ",".join(f'{{"run_id":"{number:026}"}}' for number in range(400_000)) + "]"
        async with link.transaction() as transaction:
            (rows,) = await transaction.commit([("lock_runs", runs)])
        assert rows == [(None,)]
        await ask_once(link)

    run(test)


class CrashingServer:
    """Forwards one connection after the other to ``address``. After :meth:`crash` a warning and a reset, in one moment,
    take the place of the next answer: what an immediate shutdown of Postgres looks like."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._is_fatal = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more; the last connection must have ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def crash(self) -> None:
        """Break the connection with its next answer."""
        self._is_fatal = True

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener has been shut down
            while True:
                client, _ = self._listener.accept()
                with client, socket.create_connection(self._address) as server:
                    self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(65_536)
                if not data:
                    return
                if ready is client:
                    server.sendall(data)
                elif not self._is_fatal:
                    client.sendall(data)
                else:
                    self._is_fatal = False
                    text = b"SWARNING\0VWARNING\0C57P02\0Mterminating connection because of crash\0\0"
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.sendall(b"N" + (len(text) + 4).to_bytes(4, "big") + text)
                    return


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_reset_that_comes_with_a_last_word_is_noticed_soon(loop_name: str, database_url: str) -> None:
    parts = urlsplit(database_url)
    assert parts.hostname is not None and parts.port is not None
    address = (parts.hostname, parts.port)

    async def test() -> None:
        server = CrashingServer(address)
        link = Link(database_url.replace(f":{parts.port}/", f":{server.port}/"), Metrics())
        for _ in range(3):
            await ask_once(link)
            server.crash()
            with pytest.raises(psycopg.OperationalError):
                await asyncio.wait_for(ask_once(link), 10)
        await ask_once(link)
        await link.close()
        server.stop()

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(test())
