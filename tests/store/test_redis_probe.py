"""The cache check of readiness against a real Redis or Valkey."""

from __future__ import annotations

import secrets

import pytest
import redis.asyncio as redis

from dw_runtime.discovery.redis_probe import RedisProbe


async def test_a_working_server_takes_returns_and_forgets_the_key(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = secrets.token_hex(8)
    monkeypatch.setattr("dw_runtime.discovery.redis_probe.secrets.token_hex", lambda size: unique)
    async with redis.from_url(redis_url) as client:
        assert await RedisProbe(client).works()
        assert await client.exists(f"server:readiness:{unique}") == 0


async def test_a_server_that_is_gone_only_answers_no() -> None:
    async with redis.from_url("redis://127.0.0.1:1/0") as client:
        assert not await RedisProbe(client).works()
