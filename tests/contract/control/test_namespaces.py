"""Namespaces: read, create, change, delete, and the namespace gate on a real store."""

from __future__ import annotations

import asyncio

from dw_api_ingress.namespaces import DELETE_SECONDS
from dw_runtime.store.namespaces import NamespacePurge
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def test_namespaces_are_listed_by_name_and_described(plane: ControlPlane, send: Send) -> None:
    listed = (await send("GET", "/namespaces")).json["namespaces"]
    names = [entry["name"] for entry in listed]
    assert names == sorted(names) and {"default", plane.namespace} <= set(names)
    described = await send("GET", f"/namespaces/{plane.namespace.upper()}")
    body = described.json
    assert (described.status, body["name"], body["retention_days"], body["status"]) == (
        200,
        plane.namespace,
        30,
        "active",
    )
    assert (body["external_payload_storage"], body["created_at"]) == (None, body["updated_at"])
    assert next(entry for entry in listed if entry["name"] == plane.namespace) == body


async def test_an_unknown_namespace_is_not_found(send: Send) -> None:
    for path, headers in (("/namespaces/nowhere", {}), ("/workflows", {"x_namespace": "nowhere"})):
        answer = await send("GET", path, **headers)
        assert (answer.status, answer.json["reason"], answer.json["namespace"]) == (
            404,
            "namespace_not_found",
            "nowhere",
        )


async def test_a_namespace_is_created_changed_and_deleted_with_all_it_holds(plane: ControlPlane, send: Send) -> None:
    name = f"{plane.namespace}-own"
    made = await send("POST", "/namespaces", {"name": name.upper(), "description": None})
    assert (made.status, made.json["name"], made.json["retention_days"]) == (201, name, 30)
    again = await send("POST", "/namespaces", {"name": name})
    assert (again.status, again.json["reason"], again.json["namespace"]) == (409, "namespace_already_exists", name)
    changed = (await send("PUT", f"/namespaces/{name}", {"description": "Billing", "retention_days": 3})).json
    assert (changed["description"], changed["retention_days"]) == ("Billing", 3)
    changed = (await send("PUT", f"/namespaces/{name}", {"description": None})).json
    assert (changed["description"], changed["retention_days"]) == (None, 3)
    for number in range(3):
        body = {"workflow_type": "order", "workflow_id": f"w-{number}"}
        assert (await send("POST", "/workflows", body, x_namespace=name)).status == 201
    await send("POST", "/workflows/w-0/terminate", {}, x_namespace=name)
    await send("POST", "/service-endpoints", {"endpoint_name": "billing"}, x_namespace=name)
    await send("POST", "/task-queues/q/build-ids/drain", {"build_id": "b"}, x_namespace=name)
    gone = await send("DELETE", f"/namespaces/{name}")
    assert (gone.status, gone.json["name"], gone.json["status"]) == (200, name, "deleted")
    counts = gone.json["deleted"]
    assert (counts["workflow_runs"], counts["service_endpoints"]) == (3, 1)
    for answer in (await send("GET", f"/namespaces/{name}"), await send("DELETE", f"/namespaces/{name}")):
        assert (answer.status, answer.json["reason"]) == (404, "namespace_not_found")
    assert await left_in(plane, name) == set()


async def left_in(plane: ControlPlane, name: str) -> set[str]:
    """The tables that still have rows of a namespace; the trail of what was done stays, queries go by themselves."""
    async with plane.database.connection() as session:
        cursor = session._connection.cursor()
        await cursor.execute(
            b"SELECT table_name FROM information_schema.columns"
            b" WHERE table_schema = 'public' AND column_name = 'namespace'"
        )
        tables = [table for (table,) in await cursor.fetchall()]
        left = set()
        for table in tables:
            await cursor.execute(f"SELECT 1 FROM {table} WHERE namespace = $1 LIMIT 1".encode(), [name])
            if await cursor.fetchall():
                left.add(table)
        return left - {"audit_entries", "workflow_query_tasks"}


async def test_a_namespace_that_is_deleted_twice_at_once_has_gone_for_both(plane: ControlPlane, send: Send) -> None:
    name = f"{plane.namespace}-at-once"
    await send("POST", "/namespaces", {"name": name})
    for number in range(5):
        body = {"workflow_type": "order", "workflow_id": f"w-{number}"}
        await send("POST", "/workflows", body, x_namespace=name)
    began = asyncio.get_running_loop().time()
    answers = await asyncio.gather(*(send("DELETE", f"/namespaces/{name}") for _ in range(4)))
    assert {(answer.status, answer.json.get("status") or answer.json["reason"]) for answer in answers} <= {
        (200, "deleted"),
        (404, "namespace_not_found"),
    }
    assert sum(answer.json.get("deleted", {}).get("workflow_runs", 0) for answer in answers) == 5
    assert asyncio.get_running_loop().time() - began < DELETE_SECONDS / 2
    assert await left_in(plane, name) == set()


async def test_a_name_is_free_again_after_its_namespace_has_gone(plane: ControlPlane, send: Send) -> None:
    name = f"{plane.namespace}-twice"
    await send("POST", "/namespaces", {"name": name, "retention_days": 3})
    await send("DELETE", f"/namespaces/{name}")
    made = await send("POST", "/namespaces", {"name": name})
    assert (made.status, made.json["retention_days"], made.json["status"]) == (201, 30, "active")


async def test_the_default_namespace_stays_and_names_and_days_are_checked(send: Send) -> None:
    kept = await send("DELETE", "/namespaces/default")
    assert (kept.status, kept.json["reason"]) == (409, "name_reserved")
    for body in ({"name": "a b"}, {"name": "x" * 129}, {"name": ""}, {"name": "ok", "retention_days": 366}, {}):
        answer = await send("POST", "/namespaces", body)
        assert (answer.status, answer.json["reason"]) == (422, "validation_failed"), body
    assert (await send("PUT", "/namespaces/nowhere", {"retention_days": 3})).status == 404
    assert (await send("PUT", "/namespaces/default", {"retention_days": 0})).status == 422


async def test_what_a_slow_process_left_in_a_deleted_namespace_goes_later(plane: ControlPlane, send: Send) -> None:
    name = f"{plane.namespace}-late"
    await send("POST", "/namespaces", {"name": name})
    body = {"workflow_type": "order", "workflow_id": "w"}
    await send("POST", "/workflows", body, x_namespace=name)
    await send("DELETE", f"/namespaces/{name}")
    late = await send("POST", "/workflows", {"workflow_type": "order", "workflow_id": "late"}, x_namespace=name)
    assert late.status == 201, "this process still knows the namespace"
    async with plane.database.connection() as session:
        await session._connection.execute(
            b"UPDATE workflow_namespaces SET updated_at = updated_at - interval '1 hour' WHERE name = $1", [name]
        )
    await NamespacePurge(plane.database).go_on(seconds=10)
    assert await left_in(plane, name) == set()
    assert not await plane.database.rows("forget_namespace", name), "it has been forgotten"
