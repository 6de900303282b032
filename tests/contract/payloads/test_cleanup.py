"""What becomes of payloads that no run uses any more, and of those of a namespace that is deleted."""

from __future__ import annotations

from pathlib import Path

from dw_core.payloads.codec import encode_blob
from tests.contract.payloads.conftest import BLOB, PayloadClient

PASS = "/system/external-payload-cleanup/pass"


async def age(client: PayloadClient) -> None:
    """Let the time pass in which the payloads and objects of this test may be claimed."""
    await client.served.execute(
        "UPDATE external_payloads SET review_at = review_at - interval '1 day' WHERE namespace IN ('', %s)",
        client.served.namespace,
    )


def files(client: PayloadClient) -> list[Path]:
    """Every object in the folder."""
    return [path for path in client.root.rglob("*") if path.is_file()]


async def prune(client: PayloadClient, run_id: str) -> None:
    """Close a run and let its retention be over."""
    assert (await client.control("POST", "/workflows/w/terminate", {})).status == 200
    for table in ("workflow_runs", "workflow_run_summaries"):
        await client.served.execute(
            f"UPDATE {table} SET closed_at = closed_at - interval '31 days' WHERE run_id = %s", run_id
        )
    answer = await client.control("POST", "/system/retention/pass", {"run_ids": [run_id]})
    assert answer.json["pruned"] == 1, answer.json


async def test_a_payload_goes_with_the_last_run_that_uses_it(client: PayloadClient) -> None:
    known = await client.reference()
    run_id = await client.start(input=known)
    await age(client)
    passed = await client.control("POST", PASS, {})
    assert (passed.status, passed.json["processed"]) == (200, 0)
    assert (await client.fetch(known["external_payload"])).status == 200
    await prune(client, run_id)
    assert (await client.control("POST", PASS, {})).json["processed"] == 0, "somebody may just be using it again"
    await age(client)
    shown = (await client.control("GET", "/system/external-payload-cleanup")).json
    reference_id = known["external_payload"]["reference_id"]
    assert (shown["namespace"], shown["unused_payload_count"], shown["expiry_seconds"]) == (
        client.served.namespace,
        1,
        3600,
    )
    (entry,) = shown["unused_payloads"]
    assert (entry["reference_id"], entry["size_bytes"]) == (reference_id, len(BLOB))
    assert len(files(client)) == 1
    passed = await client.control("POST", PASS, {})
    assert passed.json["removed_reference_ids"] == [reference_id]
    assert files(client) == []
    assert (await client.fetch(known["external_payload"])).status == 404
    trail = await client.control("GET", "/system/audit?command=system_external_payload_cleanup_pass")
    assert trail.json["entries"][0]["after"] == {"reference_ids": [reference_id]}


async def test_a_request_that_names_an_old_payload_keeps_it(client: PayloadClient) -> None:
    known = await client.reference()
    run_id = await client.start(input=known)
    await prune(client, run_id)
    await client.served.execute(
        "UPDATE external_payloads SET review_at = dw_now() - interval '3500 seconds' WHERE namespace = %s",
        client.served.namespace,
    )
    await client.start("again", input=known)
    await client.served.execute(
        "UPDATE external_payloads SET review_at = review_at - interval '1 hour' WHERE namespace = %s",
        client.served.namespace,
    )
    assert (await client.control("POST", PASS, {})).json["processed"] == 0
    await age(client)
    assert (await client.control("POST", PASS, {})).json["processed"] == 0
    assert (await client.fetch(known["external_payload"])).raw == BLOB.encode()


async def test_an_object_that_two_namespaces_keep_goes_with_the_second(client: PayloadClient) -> None:
    first, other = client.served.namespace, f"{client.served.namespace}-other"
    known = (await client.reference())["external_payload"]
    await client.control("POST", "/namespaces", {"name": other})
    client.served.namespace = other
    await client.keep()
    twin = (await client.reference())["external_payload"]
    assert twin["reference_id"] != known["reference_id"]
    client.served.namespace = first
    await age(client)
    passed = await client.control("POST", PASS, {})
    assert passed.json["removed_reference_ids"] == [known["reference_id"]]
    assert (await client.fetch(twin, namespace=other)).raw == BLOB.encode()
    gone = await client.control("DELETE", f"/namespaces/{other}")
    assert gone.json["deleted"]["external_payloads"] == 1
    await client.control("POST", PASS, {})
    assert files(client) == []


async def test_an_object_whose_storage_is_away_is_deleted_later(client: PayloadClient) -> None:
    known = (await client.reference())["external_payload"]
    await age(client)
    client.root.rename(client.root.with_name("away"))
    client.root.write_text("a file where the folder should be")
    passed = await client.control("POST", PASS, {})
    assert (passed.json["processed"], passed.json["objects_deleted"]) == (1, 0)
    assert passed.json["objects_failed"] >= 1
    busy = await client.upload()
    assert (busy.status, busy.json["reason"], busy.json["retryable"]) == (503, "external_payload_unavailable", True)
    client.root.unlink()
    client.root.with_name("away").rename(client.root)
    await client.served.execute(
        "UPDATE external_payload_objects SET review_at = review_at - interval '11 minutes' WHERE object_uri LIKE %s",
        f"%{known['sha256']}",
    )
    await client.control("POST", PASS, {})
    assert files(client) == []
    assert (await client.upload()).status == 201


async def test_a_namespace_goes_with_its_payloads_and_their_objects(client: PayloadClient) -> None:
    name = f"{client.served.namespace}-own"
    await client.control("POST", "/namespaces", {"name": name})
    client.served.namespace = name
    await client.keep()
    await client.start(input=await client.reference())
    await client.reference(encode_blob(["z" * 2000]))
    gone = await client.control("DELETE", f"/namespaces/{name}")
    assert (gone.json["status"], gone.json["deleted"]["external_payloads"]) == ("deleted", 2)
    client.served.namespace = "default"
    await client.control("POST", PASS, {})
    assert files(client) == []
    for table in ("external_payloads", "external_payload_uses"):
        assert await client.served.execute(f"SELECT 1 FROM {table} WHERE namespace = %s", name) == []
