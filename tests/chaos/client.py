"""Clients that repeat, cut and double their requests, as real ones do on a bad network."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.payloads.codec import encode_blob
from tests.chaos.cluster import TOKEN, Process

Json = dict[str, Any]

PAYLOAD = {"codec": "avro", "blob": encode_blob([1])}
HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Content-Type": "application/json",
    "X-Durable-Workflow-Control-Plane-Version": "2",
    "X-Durable-Workflow-Protocol-Version": "1.20",
}
RETRY_SECONDS = 0.05


class Cut(Exception):
    """The connection ended before the answer was complete."""


class Answer(msgspec.Struct, frozen=True):
    """Status, decoded body, and the head as it came."""

    status: int
    body: Json
    head: str = ""


async def exchange(
    port: int, method: str, path: str, body: Json | bytes, headers: dict[str, str], *, cut_after: float | None = None
) -> Answer:
    """One request on a connection of its own; :class:`Cut` when it breaks, or after ``cut_after`` seconds by itself."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: chaos", f"Content-Length: {len(raw)}", "Connection: close"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise Cut from error
    try:
        writer.write(head.encode() + raw)
        await writer.drain()
        async with asyncio.timeout(cut_after if cut_after is not None else 40):
            answer = await reader.read()
    except (OSError, TimeoutError) as error:
        raise Cut from error
    finally:
        writer.transport.abort()
    top, found, content = answer.partition(b"\r\n\r\n")
    if not found:
        raise Cut
    try:
        is_json = b"content-type: application/json" in top.lower()
        body = msgspec.json.decode(content) if content and is_json else {}
        return Answer(int(top.split(b" ", 2)[1]), body, top.decode())
    except (ValueError, msgspec.DecodeError) as error:
        raise Cut from error


class Client:
    """Sends requests to any of ``processes`` until one is answered, and remembers the statuses it was given.

    ``mischief`` is the share of requests that are sent twice, cut off and repeated, or repeated after their answer.
    """

    def __init__(self, processes: Sequence[Process], rng: random.Random, *, mischief: float) -> None:
        self._processes = processes
        self._rng = rng
        self._mischief = mischief
        self.statuses: Counter[tuple[str, int, str]] = Counter()
        self.is_over = False

    async def send(self, name: str, path: str, body: Json, method: str = "POST") -> Answer:
        """The first answer that is not a passing trouble of the server (5xx)."""
        while True:
            try:
                answer = await self._once(path, body, method)
            except Cut:
                self.statuses[name, 0, "cut"] += 1
            else:
                self.statuses[name, answer.status, str(answer.body.get("reason"))] += 1
                if answer.status < 500:
                    return answer
            if self.is_over:
                return Answer(0, {})
            await asyncio.sleep(RETRY_SECONDS * self._rng.random())

    async def _once(self, path: str, body: Json, method: str) -> Answer:
        dice = self._rng.random()
        if dice < self._mischief / 3:
            first, second = (asyncio.create_task(self._try(path, body, method)) for _ in range(2))
            both = await asyncio.gather(first, second, return_exceptions=True)
            answers = [answer for answer in both if isinstance(answer, Answer)]
            if not answers:
                raise Cut
            return min(answers, key=lambda answer: answer.status)
        if dice < self._mischief * 2 / 3:
            await self._try(path, body, method, cut_after=self._rng.random() * 0.02)
        answer = await self._try(path, body, method)
        if self._mischief * 2 / 3 <= dice < self._mischief:
            again = await self._try(path, body, method)
            return again if again.status < 400 else answer
        return answer

    async def _try(self, path: str, body: Json, method: str, cut_after: float | None = None) -> Answer:
        process = self._rng.choice(self._processes)
        try:
            return await exchange(process.port, method, path, body, HEADERS, cut_after=cut_after)
        except Cut:
            if cut_after is None:
                raise
            return Answer(0, {})
