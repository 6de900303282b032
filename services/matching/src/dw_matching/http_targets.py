"""Requests to HTTP targets: TLS is verified, internal addresses are out of reach, nothing is followed blindly.

A name is resolved once per connection, by a resolver that refuses internal addresses, and the connection goes to the
very address that was checked: a second answer of the name server changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from dw_core.limits import SERVICE_REDIRECTS_MAX, SERVICE_RESPONSE_BYTES_MAX
from dw_core.services.addresses import ForbiddenTarget, Network, check_url, may_call
from dw_core.services.invocation import INPUT_MEDIA_TYPE, RESULT_MEDIA_TYPE

_REDIRECTS: Final = (307, 308)
"""Redirects that keep method and body; any other one is an answer like any other, and no result."""

CONNECTIONS_MAX: Final = 100


class TargetFailed(Exception):
    """The target could not be reached, or has answered too much."""


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead to an internal address."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Every address of the name; raises :class:`ForbiddenTarget` when one of them is internal."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, address in found:
            if not may_call(ip_address(str(address[0]).partition("%")[0]), self._allowed):
                raise ForbiddenTarget(f"{host} leads to an internal address.")
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=int(address[1]),
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Nothing is kept open."""


class HttpTargets:
    """Posts documents to HTTP targets. ``allowed`` are networks an operator has opened, ``ca_file`` further roots."""

    def __init__(self, allowed: Sequence[Network], ca_file: str | None = None) -> None:
        self._allowed = allowed
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, idempotency_key: str) -> tuple[int, bytes]:
        """Status and body of the answer; how long to wait is the caller's matter.

        Raises :class:`ForbiddenTarget` before anything is sent to an address that must not be called, also when a
        redirect leads there, and :class:`TargetFailed` when there is no answer or it is too large.
        """
        try:
            for _ in range(SERVICE_REDIRECTS_MAX + 1):
                check_url(url, self._allowed)
                async with self._open().post(
                    url, data=body, headers=_headers(idempotency_key), allow_redirects=False
                ) as response:
                    location = response.headers.get("Location")
                    if response.status not in _REDIRECTS or location is None:
                        return response.status, await _read(response)
                    url = urljoin(url, location)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TargetFailed(f"The target cannot be reached: {type(error).__name__}.") from error
        raise TargetFailed(f"The target redirects more than {SERVICE_REDIRECTS_MAX} times.")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=GuardedResolver(self._allowed), use_dns_cache=False, ssl=self._tls, limit=CONNECTIONS_MAX
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()


def _headers(idempotency_key: str) -> dict[str, str]:
    return {"Content-Type": INPUT_MEDIA_TYPE, "Accept": RESULT_MEDIA_TYPE, "Idempotency-Key": idempotency_key}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(SERVICE_RESPONSE_BYTES_MAX + 1)
    while not response.content.at_eof() and len(body) <= SERVICE_RESPONSE_BYTES_MAX:
        body += await response.content.read(SERVICE_RESPONSE_BYTES_MAX + 1 - len(body))
    if len(body) > SERVICE_RESPONSE_BYTES_MAX:
        raise TargetFailed(f"The answer has more than {SERVICE_RESPONSE_BYTES_MAX} bytes.")
    return body
