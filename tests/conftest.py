"""Fixtures for every test, and the stores that one test run shares.

With several test processes the controlling process starts the stores and tells the others where they are; with one
process they are started by the first test that wants them. Unit tests alone start nothing.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from dw_runtime.process import StartupError
from tests.harness.answers import AnswerWatch
from tests.harness.databases import copied_database, drop_database, template_name
from tests.harness.stores import Stores, StoresUnavailable, running_stores

UNIT = Path(__file__).parent / "unit"

hypothesis.settings.register_profile("dw", deadline=None, print_blob=True)
hypothesis.settings.load_profile("dw")


@pytest.fixture(autouse=True)
def documented_answers() -> Iterator[None]:
    """Fail a test in which a route has answered what its document does not say."""
    watch = AnswerWatch()
    with watch:
        yield
    assert not watch.undocumented, (
        f"answers that no document knows (see tests/harness/answers.py): {sorted(watch.undocumented)}"
    )


class SharedStores:
    """The stores of this run, held by the process that started them."""

    def __init__(self) -> None:
        self.run_id = uuid.uuid4().hex[:8]
        self._stack = ExitStack()
        self._stores: Stores | None = None

    def start(self) -> Stores:
        """Start the stores once; end the test run with a sentence when they cannot be had."""
        if self._stores is None:
            try:
                self._stores = self._stack.enter_context(running_stores())
            except (StoresUnavailable, StartupError) as error:
                pytest.exit(str(error), returncode=1)
            self._stack.callback(drop_database, self._stores.postgres_url, template_name(self.run_id))
        return self._stores

    def stop(self) -> None:
        """Stop what was started."""
        self._stack.close()


NewDatabase = Callable[[str], AbstractContextManager[str]]

SHARED = pytest.StashKey[SharedStores]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = os.environ.get("DW_TEST_SEED") or str(random.SystemRandom().randrange(2**32))
    config.stash[SHARED] = SharedStores()


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.hypothesis_seed} (repeat it with DW_TEST_SEED={config.option.hypothesis_seed})"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a test process of pytest-xdist where the stores are."""
    paths = [Path(argument.split("::")[0]).resolve() for argument in node.config.args]
    if all(path.is_relative_to(UNIT) for path in paths):
        return
    shared = node.config.stash[SHARED]
    stores = shared.start()
    node.workerinput["dw_stores"] = [stores.postgres_url, stores.redis_url, shared.run_id]


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[SHARED].stop()


@pytest.fixture(scope="session")
def stores(pytestconfig: pytest.Config) -> Stores:
    """The Postgres and the Redis of this test run."""
    told = getattr(pytestconfig, "workerinput", {}).get("dw_stores")
    return Stores(told[0], told[1]) if told else pytestconfig.stash[SHARED].start()


@pytest.fixture(scope="session")
def postgres_url(stores: Stores) -> str:
    """A database of the shared Postgres from which others may be created; it has no tables."""
    return stores.postgres_url


@pytest.fixture(scope="session")
def redis_url(stores: Stores) -> str:
    """The Redis that all test processes share."""
    return stores.redis_url


@pytest.fixture(scope="session")
def new_database(pytestconfig: pytest.Config, postgres_url: str) -> NewDatabase:
    """Makes migrated databases of this test process alone; each is named by a word of the caller's."""
    told = getattr(pytestconfig, "workerinput", {})
    run_id = told["dw_stores"][2] if "dw_stores" in told else pytestconfig.stash[SHARED].run_id
    process = told.get("workerid", "main")
    return lambda word: copied_database(postgres_url, run_id, f"{process}_{word}")


@pytest.fixture(scope="session")
def database_url(new_database: NewDatabase) -> Iterator[str]:
    """A migrated database with its default namespace, of this test process alone."""
    with new_database("shared") as url:
        yield url


@pytest.fixture
def unique_namespace() -> str:
    """A namespace name that no other test uses; the test creates the namespace if it needs one."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that the seed in the header of the test run repeats."""
    return random.Random(f"{request.config.option.hypothesis_seed}:{request.node.nodeid}")
