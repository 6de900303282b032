"""Retention removes whole runs, only closed ones that have expired, and leaves nothing of them behind."""

from __future__ import annotations

import asyncio
import re

import psycopg

from dw_core.engine.commands.stream_fields import NewItem, OutputDirective
from dw_core.engine.inputs import AppendMessage, ChangeOutputStream, StartWorkflow, TerminateWorkflow
from dw_core.engine.rows import Details
from dw_core.payloads.codec import EMPTY_LIST_BLOB
from dw_runtime.store.database import Database
from dw_runtime.store.reads.retention import RetentionStore
from dw_runtime.store.statements import statements
from tests.harness.control_plane import ControlPlane, control_plane, new_id

EPHEMERAL = {"workflow_query_tasks"}
"""Tables whose rows outlive their run by minutes at most."""
ORDERS = {"workflow_schedule_fires"}
"""What names a run that has not been started yet."""
TRAIL = {"audit_entries"}
"""Who has done what to a run outlives it."""


async def started(plane: ControlPlane, namespace: str, workflow_id: str, *, ends: bool) -> str:
    """A run with a message and an item of its streams, terminated at once when it ``ends``."""
    run_id = new_id()
    await plane.pump.submit(
        StartWorkflow(
            namespace=namespace,
            workflow_id=workflow_id,
            command_id=new_id(),
            new_run_id=run_id,
            workflow_type="order",
            queue="q",
            duplicate_policy="fail",
            details=Details(run_id=run_id, arguments=EMPTY_LIST_BLOB),
        )
    )
    message = AppendMessage(
        namespace=namespace,
        workflow_id=workflow_id,
        command_id=new_id(),
        stream_name="in",
        message_id="m1",
        arguments=EMPTY_LIST_BLOB,
    )
    reply = await plane.pump.submit(message)
    assert isinstance(reply, dict)
    assert (reply["position"], reply["duplicate"]) == (1, False), "streams begin with the workflow id"
    directive = OutputDirective(operation="append", stream_name="out", items=(NewItem(payload=EMPTY_LIST_BLOB),))
    output = ChangeOutputStream(run_id=run_id, namespace=namespace, workflow_id=workflow_id, directive=directive)
    assert isinstance(await plane.pump.submit(output), dict)
    if ends:
        await plane.pump.submit(TerminateWorkflow(namespace=namespace, workflow_id=workflow_id, command_id=new_id()))
    return run_id


def age(database_url: str, *run_ids: str) -> None:
    """Move the end of runs far into the past."""
    with psycopg.connect(database_url) as connection:
        for table in ("workflow_runs", "workflow_run_summaries"):
            connection.execute(
                f"UPDATE {table} SET closed_at = closed_at - interval '400 days' WHERE run_id = ANY(%s)".encode(),
                [list(run_ids)],
            )


def chain(database_url: str, former: str, current: str) -> None:
    """Make ``current`` the run that follows ``former`` under its workflow id."""
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE workflow_runs SET run_number = 2 WHERE run_id = %s", [current])
        for table in ("workflow_runs", "workflow_run_summaries"):
            connection.execute(
                f"UPDATE {table} SET workflow_id = (SELECT workflow_id FROM workflow_runs"
                " WHERE run_id = %(former)s) WHERE run_id = %(current)s".encode(),
                {"former": former, "current": current},
            )
        connection.execute("DELETE FROM workflow_instances WHERE current_run_id = %s", [current])
        connection.execute("DELETE FROM workflow_stream_messages WHERE run_id = %s", [current])
        connection.execute(
            "UPDATE workflow_instances SET current_run_id = %s WHERE current_run_id = %s", [current, former]
        )


def left_of(database_url: str, run_id: str) -> set[str]:
    """The tables that still hold something of a run."""
    with psycopg.connect(database_url) as connection:
        found = set()
        for table in tables_of_runs(connection):
            row = connection.execute(f"SELECT count(*) FROM {table} WHERE run_id = %s".encode(), [run_id]).fetchone()
            assert row is not None
            found |= {table} if row[0] else set()
        return found


def tables_of_runs(connection: psycopg.Connection[tuple[object, ...]]) -> set[str]:
    """Every table with a ``run_id``."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attname = 'run_id'"
    ).fetchall()
    return {str(name) for (name,) in rows}


async def test_an_expired_run_goes_with_everything_and_frees_its_workflow_id(
    database_url: str, unique_namespace: str
) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        store = RetentionStore(plane.database)
        gone = await started(plane, unique_namespace, "gone", ends=True)
        fresh = await started(plane, unique_namespace, "fresh", ends=True)
        still = await started(plane, unique_namespace, "open", ends=False)
        age(database_url, gone)
        assert (await store.expired(unique_namespace, 10)).run_ids == [gone]
        assert [row[0] for row in await store.prune(unique_namespace, 10, None)] == [gone]
        assert left_of(database_url, gone) == set()
        assert left_of(database_url, fresh) and left_of(database_url, still)
        assert await started(plane, unique_namespace, "gone", ends=False) != gone


async def test_named_runs_are_judged_one_by_one(database_url: str, unique_namespace: str) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        store = RetentionStore(plane.database)
        gone = await started(plane, unique_namespace, "gone", ends=True)
        fresh = await started(plane, unique_namespace, "fresh", ends=True)
        still = await started(plane, unique_namespace, "open", ends=False)
        age(database_url, gone)
        named = [gone, fresh, still, "nowhere"]
        assert [row[0] for row in await store.prune(unique_namespace, 10, named)] == [gone]
        assert dict(await store.reasons(unique_namespace, named[1:])) == {
            fresh: "run_not_expired",
            still: "run_not_terminal",
            "nowhere": "run_not_found",
        }
        assert await store.prune("another", 10, [gone]) == []


async def test_two_passes_at_once_remove_each_run_once(database_url: str, unique_namespace: str) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        runs = [await started(plane, unique_namespace, f"w{number}", ends=True) for number in range(20)]
        age(database_url, *runs)
        databases: list[Database] = [plane.database]
        stores = [RetentionStore(database) for database in databases * 4]
        found = await asyncio.gather(*(store.prune(unique_namespace, 20, None) for store in stores))
        again = await stores[0].prune(unique_namespace, 20, None)
        pruned = [row[0] for rows in (*found, again) for row in rows]
        assert sorted(pruned) == sorted(runs)


async def test_a_workflow_id_outlives_a_run_that_somebody_holds(database_url: str, unique_namespace: str) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        store = RetentionStore(plane.database)
        former = await started(plane, unique_namespace, "chain", ends=True)
        current = await started(plane, unique_namespace, "next", ends=True)
        chain(database_url, former, current)
        age(database_url, former, current)
        with psycopg.connect(database_url) as other:
            other.execute("SELECT 1 FROM workflow_runs WHERE run_id = %s FOR UPDATE", [former])
            assert await store.prune(unique_namespace, 10, None) == [], "the last run goes with the workflow id"
        assert {row[0] for row in await store.prune(unique_namespace, 10, None)} == {former, current}
        assert left_of(database_url, former) == left_of(database_url, current) == set()


async def test_nothing_of_a_run_is_forgotten(database_url: str) -> None:
    removed = set(re.findall(r"DELETE FROM (\w+)", statements()["prune_runs"]))
    with psycopg.connect(database_url) as connection:
        assert tables_of_runs(connection) - EPHEMERAL - TRAIL - ORDERS <= removed
