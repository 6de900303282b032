"""The locked read of a batch while other processes go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dw_core.engine.inputs import StartWorkflow, TerminateWorkflow
from dw_core.engine.rows import Details
from dw_runtime.store.link import Call, Link, Rows, Transaction
from dw_runtime.store.loading import load
from dw_runtime.telemetry.metrics import Metrics
from tests.harness.control_plane import control_plane, new_id


class Interrupted:
    """A transaction in which something happens elsewhere just before the statement ``name``."""

    def __init__(self, transaction: Transaction, name: str, happens: Callable[[], Awaitable[object]]) -> None:
        self._transaction = transaction
        self._name = name
        self._happens = happens

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """The rows of each statement, sent one by one."""
        found: list[Rows] = []
        for call in calls:
            if call[0] == self._name:
                await self._happens()
            found += await self._transaction.ask([call])
        return found


def start(namespace: str) -> StartWorkflow:
    run_id = new_id()
    return StartWorkflow(
        namespace=namespace,
        workflow_id="order-1",
        command_id=new_id(),
        new_run_id=run_id,
        workflow_type="order",
        queue="q",
        duplicate_policy="fail",
        details=Details(run_id=run_id, arguments=""),
    )


async def test_a_workflow_id_taken_after_the_locks_counts_as_free(database_url: str, unique_namespace: str) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        link = Link(database_url, Metrics())
        terminate = TerminateWorkflow(
            namespace=unique_namespace,
            workflow_id="order-1",
            command_id=new_id(),
            reason=None,
            request_id="r",
            target_scope="instance",
        )

        async def take() -> None:
            await plane.pump.submit(start(unique_namespace))
            await plane.pump.submit(terminate)

        mine = start(unique_namespace)
        async with link.transaction() as transaction:
            loaded = await load(Interrupted(transaction, "read_related", take), [mine, terminate])  # type: ignore[arg-type]  # a stand-in
        assert loaded.snapshot(mine).run is None
        assert loaded.snapshot(terminate).kept == {}
        async with link.transaction() as transaction:
            loaded = await load(transaction, [mine])
        run = loaded.snapshot(mine).run
        assert run is not None and run.run_id != mine.new_run_id
        await link.close()
