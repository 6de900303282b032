"""What the gateways do with replicas that are gone, in nginx itself, before replicas that tests make up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.deploy.gateways import chart_gateway, compose_gateway
from tests.harness.nginx import needs_nginx, replaced, running_nginx
from tests.harness.processes import free_port

pytestmark = needs_nginx
PATHS = {"api-ingress": "/api/workflows", "matching": "/api/worker/heartbeat"}


class Replica:
    """Takes requests, counts them, and answers with 200, or hangs up, or says nothing."""

    def __init__(self, behaviour: str = "answers") -> None:
        self._behaviour = behaviour
        self.taken = 0
        self.port = 0
        self._over = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Replica:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._over.set()
        self._server.close()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.taken += 1
        if self._behaviour == "answers":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
        elif self._behaviour == "is silent":
            await self._over.wait()
        writer.close()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that swallows connections, as the address of a machine that is gone does: its queue is full for ever."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting: list[socket.socket] = []
        try:
            while True:
                waiting.append(socket.socket())
                waiting[-1].settimeout(0.5)
                try:
                    waiting[-1].connect(address)
                except TimeoutError:
                    break
            yield address[1]
        finally:
            for it in waiting:
                it.close()


async def post(url: str, path: str) -> int:
    """The status of a POST that nobody repeats."""
    async with httpx.AsyncClient(timeout=30) as http:
        return (await http.post(url + path, json={})).status_code


@pytest.mark.parametrize("role", PATHS)
async def test_a_replica_that_refuses_connections_is_passed_over(tmp_path: Path, role: str) -> None:
    port, gone = free_port(), free_port()
    async with Replica() as well:
        ports = [gone, well.port]
        with running_nginx(tmp_path / "nginx", compose_gateway(port, ports, ports), port) as nginx:
            assert [await post(nginx.url, PATHS[role]) for _ in range(4)] == [200] * 4
            assert well.taken == 4
            assert [f"127.0.0.1:{gone}", f"127.0.0.1:{well.port}"] in [tried for _, tried in nginx.tries(4)]


@pytest.mark.parametrize("role", PATHS)
async def test_a_replica_that_swallows_connections_is_passed_over(tmp_path: Path, role: str) -> None:
    port = free_port()
    with deaf_port() as gone:
        async with Replica() as well:
            ports = [gone, well.port]
            with running_nginx(tmp_path / "nginx", compose_gateway(port, ports, ports), port) as nginx:
                assert await asyncio.gather(*(post(nginx.url, PATHS[role]) for _ in range(4))) == [200] * 4
                assert well.taken == 4
                assert [f"127.0.0.1:{gone}", f"127.0.0.1:{well.port}"] in [tried for _, tried in nginx.tries(4)]


@pytest.mark.parametrize(("behaviour", "status"), [("hangs up", 502), ("is silent", 504)])
@pytest.mark.parametrize("gateway", ["compose", "chart"])
async def test_a_post_that_was_sent_is_not_repeated(tmp_path: Path, gateway: str, behaviour: str, status: int) -> None:
    port = free_port()
    async with Replica(behaviour) as one, Replica(behaviour) as other:
        if gateway == "compose":
            text = compose_gateway(port, [one.port, other.port], [one.port, other.port])
        else:
            text = chart_gateway(port, one.port, other.port)
        text = replaced(text, "proxy_read_timeout 90s;", "proxy_read_timeout 1s;", times=2)
        with running_nginx(tmp_path / "nginx", text, port) as nginx:
            for count, path in enumerate(PATHS.values(), 1):
                assert await post(nginx.url, path) == status
                assert one.taken + other.taken == count


@pytest.mark.parametrize("role", PATHS)
async def test_the_one_address_of_a_service_is_tried_twice(tmp_path: Path, role: str) -> None:
    port, service = free_port(), free_port()
    with running_nginx(tmp_path / "nginx", chart_gateway(port, service, service), port) as nginx:
        assert await post(nginx.url, PATHS[role]) == 502
        assert nginx.tries(1) == [(502, [f"127.0.0.1:{service}"] * 2)]
