"""The split shape: a control-plane process, two matching processes and a scheduler, each a real process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import msgspec
import pytest

from tests.conftest import NewDatabase
from tests.harness.servers import Server, serving

SHAPE = {"DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution"}
SHORT_LEASES = {
    "DW_WORKFLOW_TASK_TIMEOUT": "2",
    "DW_ACTIVITY_TASK_TIMEOUT": "2",
    "DW_ALLOW_UNSAFE_LIMITS": "true",
}
COMMANDS = ("api-ingress", "matching", "matching", "scheduler")


class Split(msgspec.Struct, frozen=True):
    """The processes by role."""

    ingress: Server
    matching: tuple[Server, Server]
    scheduler: Server


NewSplit = Callable[..., AbstractContextManager[Split]]


@pytest.fixture(scope="session")
def new_split(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str) -> NewSplit:
    """Runs a split server on a database of its own; variables given by name are added to its environment."""

    @contextmanager
    def run(**environ: str) -> Iterator[Split]:
        with new_database(f"split_{uuid.uuid4().hex[:6]}") as url:
            whole = {"DATABASE_URL": url, "REDIS_URL": redis_url, **SHAPE, **environ}
            with serving(tmp_path_factory.mktemp("split"), whole, *COMMANDS) as (ingress, first, second, scheduler):
                yield Split(ingress, (first, second), scheduler)

    return run


@pytest.fixture(scope="session")
def split(new_split: NewSplit) -> Iterator[Split]:
    """A split server that the tests leave running."""
    with new_split() as running:
        yield running


@pytest.fixture
def queue() -> str:
    """A task queue of this test alone."""
    return f"q-{uuid.uuid4().hex[:12]}"
