"""Requests to HTTP targets on this machine: what is reached, and what never is."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dw_core.limits import SERVICE_RESPONSE_BYTES_MAX
from dw_core.services.addresses import ForbiddenTarget, Network
from dw_matching.http_targets import GuardedResolver, HttpTargets, TargetFailed

LOCAL: tuple[Network, ...] = (ip_network("127.0.0.1/32"),)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on 127.0.0.1; gives its port."""
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def targets(allowed: tuple[Network, ...] = LOCAL, ca_file: str | None = None) -> AsyncIterator[HttpTargets]:
    """The client under test."""
    client = HttpTargets(allowed, ca_file)
    try:
        yield client
    finally:
        await client.close()


async def echo(request: web.Request) -> web.Response:
    """The body as it came, and the key."""
    return web.Response(body=await request.read(), headers={"Key": request.headers["Idempotency-Key"]})


async def test_an_allowed_address_is_reached() -> None:
    async with serving(echo) as port, targets() as client:
        assert await client.post(f"http://127.0.0.1:{port}/work", b"{}", "key") == (200, b"{}")


async def test_a_local_address_is_out_of_reach_by_default() -> None:
    async with serving(echo) as port, targets(()) as client:
        with pytest.raises(ForbiddenTarget):
            await client.post(f"http://127.0.0.1:{port}/work", b"{}", "key")
        with pytest.raises(ForbiddenTarget):
            await client.post(f"https://localhost:{port}/work", b"{}", "key")


async def test_a_name_is_refused_when_one_of_its_addresses_is_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, 443)) for address in ("93.184.215.14", "169.254.169.254")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    with pytest.raises(ForbiddenTarget):
        await GuardedResolver(()).resolve("rebound.example", 443)


async def test_a_redirect_to_an_internal_address_is_not_followed() -> None:
    hits: list[str] = []

    async def redirect(request: web.Request) -> web.Response:
        hits.append(request.path)
        return web.Response(status=307, headers={"Location": "http://169.254.169.254/latest/meta-data"})

    async with serving(redirect) as port, targets() as client:
        with pytest.raises(ForbiddenTarget):
            await client.post(f"http://127.0.0.1:{port}/work", b"{}", "key")
    assert hits == ["/work"]


async def test_redirects_that_keep_the_request_are_followed_a_few_times() -> None:
    async def redirect(request: web.Request) -> web.Response:
        count = int(request.path.strip("/"))
        if count == 0:
            return web.Response(body=await request.read())
        return web.Response(status=308, headers={"Location": f"/{count - 1}"})

    async with serving(redirect) as port, targets() as client:
        assert await client.post(f"http://127.0.0.1:{port}/3", b"body", "key") == (200, b"body")
        with pytest.raises(TargetFailed):
            await client.post(f"http://127.0.0.1:{port}/4", b"body", "key")


async def test_an_answer_that_is_too_large_is_given_up() -> None:
    async def flood(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (SERVICE_RESPONSE_BYTES_MAX + 1))

    async with serving(flood) as port, targets() as client:
        with pytest.raises(TargetFailed):
            await client.post(f"http://127.0.0.1:{port}/", b"{}", "key")


async def test_a_target_that_is_not_there_is_a_failure_and_no_crash() -> None:
    async with serving(echo) as port:
        pass
    async with targets() as client:
        with pytest.raises(TargetFailed):
            await client.post(f"http://127.0.0.1:{port}/", b"{}", "key")


async def test_certificates_are_verified(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    await asyncio.to_thread(
        subprocess.run,
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with serving(echo, tls) as port:
        url = f"https://127.0.0.1:{port}/"
        async with targets() as client:
            with pytest.raises(TargetFailed):
                await client.post(url, b"{}", "key")
        async with targets(ca_file=str(certificate)) as client:
            assert await client.post(url, b"{}", "key") == (200, b"{}")
