"""The cache check of readiness: one key written, read back and deleted."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import redis.asyncio as redis

from dw_runtime.telemetry.condition import Condition

PROBE_TIMEOUT_SECONDS: Final = 0.5
PROBE_TTL_SECONDS: Final = 10


class RedisProbe:
    """Probes with ``server:readiness:<random>`` (topology §3.2); three commands in one round trip."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._condition = Condition("readiness.cache")

    async def works(self) -> bool:
        """False when Redis fails, answers wrongly, or takes longer than half a second."""
        key = f"server:readiness:{secrets.token_hex(8)}"
        pipeline = self._client.pipeline(transaction=False)
        pipeline.set(key, "1", ex=PROBE_TTL_SECONDS)
        pipeline.get(key)
        pipeline.delete(key)
        try:
            answers = await asyncio.wait_for(pipeline.execute(), PROBE_TIMEOUT_SECONDS)
        except (redis.RedisError, OSError, TimeoutError) as error:
            self._condition.failed(error)
            return False
        self._condition.works()
        return answers[1] in (b"1", "1")
