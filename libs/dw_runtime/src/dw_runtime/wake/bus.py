"""Wake signals over Redis publish/subscribe: one connection in, one out, shared by every poll of the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol
from uuid import uuid4

import redis.asyncio as redis
from redis.exceptions import RedisError

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_runtime.process.background import end_task
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

HEARTBEAT_SECONDS: Final = 5.0
"""How often the bus sends itself a message; a subscription that misses two of them is taken for dead."""
RECONNECT_SECONDS: Final = 1.0
PUBLISH_TIMEOUT_SECONDS: Final = 0.5
PUBLISH_GAP_SECONDS: Final = 0.005
"""Signals that come faster than this go out together; the first of a burst goes out at once."""
PUBLISH_PAUSE_SECONDS: Final = 3.0
"""How long publishing is skipped after a failure."""

_PREFIX: Final = "dw:wake:"
_ERRORS: Final = (RedisError, OSError, TimeoutError)


class WakeBus(Protocol):
    """What a process needs of wake signals."""

    def publish(self, keys: Iterable[WakeKey]) -> None:
        """Tell other processes, soon and without waiting; equal keys coalesce."""

    def listen(self, key: WakeKey) -> None:
        """Be told of wakes for this queue from now on."""

    def ignore(self, key: WakeKey) -> None:
        """No longer be told."""

    @property
    def is_healthy(self) -> bool:
        """Whether signals from other processes arrive."""


class NoBus:
    """No Redis: every other process finds work by its once-a-second probe."""

    is_healthy = False

    def publish(self, keys: Iterable[WakeKey]) -> None:
        """Nobody to tell."""

    def listen(self, key: WakeKey) -> None:
        """Nobody to hear."""

    def ignore(self, key: WakeKey) -> None:
        """Nobody to hear."""


class RedisBus:
    """Publishes and receives wake signals. ``on_wake`` is called with each key another process has published;
    ``on_reset`` when signals may have been lost, so that every queue counts as unknown."""

    def __init__(
        self, url: str, metrics: Metrics, *, on_wake: Callable[[WakeKey], None], on_reset: Callable[[], None]
    ) -> None:
        self._client = redis.Redis.from_url(url, socket_connect_timeout=2.0, socket_timeout=2.0)
        # A subscriber waits as long as it takes; the heartbeat notices a dead connection.
        self._subscriber = redis.Redis.from_url(url, socket_connect_timeout=2.0, socket_timeout=None)
        self._pubsub = self._subscriber.pubsub()
        self._metrics = metrics
        self._on_wake = on_wake
        self._on_reset = on_reset
        self._origin = uuid4().hex.encode()
        self._keys: dict[bytes, WakeKey] = {}
        self._pending: dict[bytes, None] = {}
        self._has_pending = asyncio.Event()
        self._changes: dict[bytes, bool] = {}
        self._has_changes = asyncio.Event()
        self._heard_at = 0.0
        self._publishing = Condition("wake.publish")
        self._subscription = Condition("wake.subscription")
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_healthy(self) -> bool:
        """Whether the own heartbeat has come back lately."""
        return time.monotonic() - self._heard_at < 2 * HEARTBEAT_SECONDS

    def start(self) -> None:
        """Connect in the background, and again whenever the connection is lost."""
        self._tasks = [asyncio.create_task(work(), name=f"wake-{work.__name__}") for work in (self._hear, self._speak)]

    async def stop(self) -> None:
        """Close both connections."""
        await asyncio.gather(*map(end_task, self._tasks))
        await self._pubsub.aclose()  # type: ignore[no-untyped-call]  # redis ships it untyped
        await self._subscriber.aclose()
        await self._client.aclose()

    def publish(self, keys: Iterable[WakeKey]) -> None:
        """Queue the signals for the publishing task."""
        self._pending.update((_channel(key), None) for key in keys)
        if self._pending:
            self._has_pending.set()

    def listen(self, key: WakeKey) -> None:
        """Subscribe to the queue's channel."""
        self._change(key, wanted=True)

    def ignore(self, key: WakeKey) -> None:
        """Unsubscribe from the queue's channel."""
        self._change(key, wanted=False)

    def _change(self, key: WakeKey, *, wanted: bool) -> None:
        channel = _channel(key)
        if wanted:
            self._keys[channel] = key
        else:
            self._keys.pop(channel, None)
        self._changes[channel] = wanted
        self._has_changes.set()

    async def _speak(self) -> None:
        while True:
            await self._has_pending.wait()
            self._has_pending.clear()
            channels, self._pending = list(self._pending), {}
            try:
                async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
                    pipeline = self._client.pipeline(transaction=False)
                    for channel in channels:
                        pipeline.publish(channel, self._origin)
                    await pipeline.execute()
                self._publishing.works()
                await asyncio.sleep(PUBLISH_GAP_SECONDS)
            except _ERRORS as error:
                self._metrics.wake_publish_failures.inc(len(channels))
                self._publishing.failed(error)
                await asyncio.sleep(PUBLISH_PAUSE_SECONDS)
                self._pending.clear()

    async def _hear(self) -> None:
        own = _PREFIX.encode() + b"heartbeat:" + self._origin
        while True:
            try:
                await self._pubsub.subscribe(own, *self._keys)
                self._changes.clear()
                self._subscription.works()
                self._on_reset()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._receive(own))
                    group.create_task(self._follow_changes())
                    group.create_task(self._beat(own))
            except* _ERRORS as errors:
                self._subscription.failed(errors.exceptions[0])
            self._heard_at = 0.0
            self._on_reset()
            await self._pubsub.aclose()  # type: ignore[no-untyped-call]  # redis ships it untyped
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _receive(self, own: bytes) -> None:
        async for message in self._pubsub.listen():
            if message["type"] != "message":
                continue
            self._heard_at = time.monotonic()
            channel = message["channel"]
            key = self._keys.get(channel)
            if key is not None and channel != own and message["data"] != self._origin:
                self._on_wake(key)

    async def _follow_changes(self) -> None:
        """Subscribe and unsubscribe as polls come and go."""
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            changes, self._changes = self._changes, {}
            wanted = [channel for channel, is_wanted in changes.items() if is_wanted]
            unwanted = [channel for channel, is_wanted in changes.items() if not is_wanted]
            if wanted:
                await self._pubsub.subscribe(*wanted)
            if unwanted:
                await self._pubsub.unsubscribe(*unwanted)

    async def _beat(self, own: bytes) -> None:
        """Send the heartbeat; two that do not come back mean that the subscription is dead."""
        self._heard_at = time.monotonic()
        while True:
            async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
                await self._client.publish(own, self._origin)
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self.is_healthy:
                raise TimeoutError("no heartbeat has come back")


def _channel(key: WakeKey) -> bytes:
    return f"{_PREFIX}{TaskKind(key.kind).name.lower()}:{key.namespace}:{key.queue}".encode()
