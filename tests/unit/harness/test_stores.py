"""Where the stores of a test run come from."""

from __future__ import annotations

import random

import pytest

from tests.harness.stores import StoresUnavailable, running_stores


def test_existing_servers_are_used_when_they_are_named() -> None:
    named = {"DW_TEST_DATABASE_URL": "postgresql://a/b", "DW_TEST_REDIS_URL": "redis://c"}
    with running_stores(named) as stores:
        assert (stores.postgres_url, stores.redis_url) == ("postgresql://a/b", "redis://c")


def test_containers_without_a_docker_engine_fail_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    environ = {"DW_TEST_SERVICES": "containers", "DW_TEST_POSTGRES_IMAGE": "postgres:15"}
    with (
        pytest.raises(StoresUnavailable, match=r"^DW_TEST_SERVICES=containers needs a Docker engine .* postgres:15"),
        running_stores(environ),
    ):
        raise AssertionError("a container was started without an engine")


def test_another_kind_of_services_is_refused() -> None:
    with (
        pytest.raises(StoresUnavailable, match="embedded or containers, not magic"),
        running_stores({"DW_TEST_SERVICES": "magic"}),
    ):
        raise AssertionError("magic was found")


def test_random_numbers_are_repeated_by_the_seed(rng: random.Random, request: pytest.FixtureRequest) -> None:
    again = random.Random(f"{request.config.option.hypothesis_seed}:{request.node.nodeid}")
    assert [rng.random() for _ in range(3)] == [again.random() for _ in range(3)]
