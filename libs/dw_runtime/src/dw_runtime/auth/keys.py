"""The public keys of an issuer of tokens, fetched in the background and whenever a token names an unknown one."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import jwt
import msgspec
import structlog

from dw_runtime.process.background import Background
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

REFRESH_SECONDS: Final = 300.0
RETRY_SECONDS: Final = 5.0
"""Pause between attempts while there are no keys, and the least between two that unknown keys have asked for."""
FETCH_TIMEOUT_SECONDS: Final = 5.0
DOCUMENT_BYTES_MAX: Final = 1_048_576
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(url: str) -> str | None:
    """What is wrong with the URL of a document of keys: it must be https, but on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return None
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return None
    return "must be an https URL"


class SigningKeys(Background):
    """Keys by id. With ``jwks_url`` None the issuer's discovery document says where they are."""

    TASK_NAME = "signing-keys"

    def __init__(self, issuer: str, jwks_url: str | None, metrics: Metrics) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._wanted = asyncio.Event()
        self._fetched_at = float("-inf")
        self._flight: asyncio.Task[None] | None = None
        self._condition = Condition("signing-keys")
        self._metrics = metrics

    @property
    def are_known(self) -> bool:
        """Whether keys have been fetched; those that have been are kept when a later attempt fails."""
        return bool(self._keys)

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of a token; one that names none can only mean the only one."""
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    async def refresh(self) -> None:
        """Fetch again, unless that was done a moment ago; returns when it is done, whatever has come of it."""
        if time.monotonic() - self._fetched_at < RETRY_SECONDS:
            return
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._attempt(), name="signing-keys-fetch")
        await asyncio.shield(self._flight)

    async def _loop(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS if self.are_known else RETRY_SECONDS)

    async def _attempt(self) -> None:
        self._fetched_at = time.monotonic()
        try:
            self._keys = await self._fetch()
            self._metrics.signing_key_fetches.labels(outcome="ok").inc()
            self._condition.works()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, jwt.PyJWTError) as error:
            self._metrics.signing_key_fetches.labels(outcome="failed").inc()
            self._condition.failed(error)

    async def _fetch(self) -> dict[str | None, jwt.PyJWK]:
        timeout = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            url = self._jwks_url
            if url is None:
                discovered = await _document(session, self._issuer.rstrip("/") + DISCOVERY_PATH)
                url = discovered.get("jwks_uri")
                if not isinstance(url, str) or check_url(url) is not None:
                    raise ValueError("the issuer names no https URL of its keys")
            found = jwt.PyJWKSet.from_dict(await _document(session, url))
        keys = {key.key_id: key for key in found.keys if key.public_key_use in (None, "sig")}
        if not keys:
            raise ValueError("the issuer has no key for signatures")
        return keys


async def _document(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.get(url, allow_redirects=False) as response:
        response.raise_for_status()
        body = await response.content.read(DOCUMENT_BYTES_MAX)
    document: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    return document
