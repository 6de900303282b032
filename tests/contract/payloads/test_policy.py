"""Where a namespace keeps payloads: the policy, the storage test, what discovery says (control-plane §16.3, §16.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.payloads.conftest import PayloadClient

MANIFEST = {
    "enabled": True,
    "threshold_bytes": 1000,
    "status": "available",
    "direct_provider_adapters": {"capability_negotiated": True, "enabled": True},
    "transport": {
        "schema": "durable-workflow.v2.runtime-external-payload-transport.v1",
        "version": 1,
        "reference_schema": "durable-workflow.v2.runtime-external-payload-reference.v1",
        "mode": "authenticated_namespace_runtime",
        "upload": {"method": "POST", "path": "/api/external-payloads/v1"},
        "fetch": {"method": "GET", "path_template": "/api/external-payloads/v1/{referenceId}"},
        "limits": {"max_payload_bytes": 3_000_000, "request_timeout_seconds": 30},
    },
}


async def test_a_policy_is_replaced_as_a_whole_and_recorded(bare_client: PayloadClient) -> None:
    name = bare_client.served.namespace
    config = {"disk": "payloads", "bucket": "dw-billing", "prefix": "prod/", "region": "eu-central-1"}
    answer = await bare_client.keep(driver="s3", threshold_bytes=262_144, config=config)
    policy = {"driver": "s3", "enabled": True, "threshold_bytes": 262_144, "config": config}
    assert (answer.status, answer.json["name"], answer.json["external_payload_storage"]) == (200, name, policy)
    replaced = await bare_client.control("PUT", f"/namespaces/{name}/external-storage", {"driver": "gcs"})
    assert replaced.json["external_payload_storage"] == {
        "driver": "gcs",
        "enabled": True,
        "threshold_bytes": None,
        "config": {},
    }
    assert (await bare_client.control("GET", f"/namespaces/{name}")).json == replaced.json
    trail = await bare_client.control("GET", "/system/audit?command=namespace_external_storage")
    newest, oldest = trail.json["entries"]
    assert newest["before"]["external_payload_storage"] == policy == oldest["after"]["external_payload_storage"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "driver"),
        ({"driver": "ftp"}, "driver"),
        ({"driver": "local", "enabled": "yes"}, "enabled"),
        ({"driver": "local", "threshold_bytes": 0}, "threshold_bytes"),
        ({"driver": "s3", "config": {"secret_access_key": "hush"}}, "config"),
        ({"driver": "s3", "config": {"bucket": "x" * 2049}}, "config.bucket"),
        ({"driver": "s3", "config": {"bucket": "a/b"}}, "config.bucket"),
        ({"driver": "s3", "config": {"prefix": "a/../../b"}}, "config.prefix"),
        ({"driver": "s3", "config": {"prefix": "a\r\nb"}}, "config.prefix"),
        ({"driver": "s3", "config": {"uri": "file:///tmp"}}, "config.uri"),
        ({"driver": "local", "config": {"uri": "file:///a/../etc"}}, "config.uri"),
        ({"driver": "local", "config": {"uri": "file:///a/%2e%2e/etc"}}, "config.uri"),
        ({"driver": "local", "config": {"uri": "s3://bucket/a"}}, "config.uri"),
        ({"driver": "local", "config": {"prefix": ".."}}, "config.prefix"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_by_field(bare_client: PayloadClient, body: Any, field: str) -> None:
    name = bare_client.served.namespace
    answer = await bare_client.control("PUT", f"/namespaces/{name}/external-storage", body)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert field in answer.json["errors"], answer.json["errors"]
    assert (await bare_client.control("GET", f"/namespaces/{name}")).json["external_payload_storage"] is None


async def test_a_policy_of_an_unknown_namespace_is_not_found(bare_client: PayloadClient) -> None:
    answer = await bare_client.control("PUT", "/namespaces/nowhere/external-storage", {"driver": "local"})
    assert (answer.status, answer.json["reason"]) == (404, "namespace_not_found")


async def test_discovery_shows_the_transport_of_an_enabled_policy_only(
    client: PayloadClient, bare_client: PayloadClient
) -> None:
    info = (await client.control("GET", "/cluster/info")).json
    assert info["namespace"] == {"name": client.served.namespace, "external_payload_storage": MANIFEST}
    assert info["worker_protocol"]["server_capabilities"]["runtime_external_payload_transport"] is True


@pytest.mark.parametrize("policy", [None, {"enabled": False}])
async def test_discovery_promises_nothing_without_an_enabled_policy(
    bare_client: PayloadClient, policy: dict[str, Any] | None
) -> None:
    if policy is not None:
        await bare_client.keep(**policy)
    info = (await bare_client.control("GET", "/cluster/info")).json
    assert info["namespace"] == {"name": bare_client.served.namespace}


async def test_a_storage_that_cannot_be_reached_is_shown_as_unavailable(bare_client: PayloadClient) -> None:
    await bare_client.keep(driver="s3", config={"disk": "nowhere", "bucket": "b"})
    shown = (await bare_client.control("GET", "/cluster/info")).json["namespace"]["external_payload_storage"]
    assert (shown["status"], shown["transport"]) == ("unavailable", MANIFEST["transport"])


async def test_a_storage_test_writes_reads_and_deletes(client: PayloadClient, root: Path) -> None:
    answer = await client.control("POST", "/storage/test", {})
    assert (answer.status, answer.json["status"], answer.json["driver"]) == (200, "passed", "local")
    for name, size in (("small_payload", 128), ("large_payload", 2_097_152)):
        item = answer.json[name]
        assert (item["status"], item["bytes"], len(item["sha256"])) == ("passed", size, 64)
        assert item["reference_uri"] == client.object_of(item["sha256"]).as_uri()
    assert [path for path in root.rglob("*") if path.is_file()] == []
    sizes = {"driver": "local", "small_payload_bytes": 1, "large_payload_bytes": 16_777_216}
    largest = await client.control("POST", "/storage/test", sizes)
    assert (largest.status, largest.json["large_payload"]["bytes"]) == (200, 16_777_216)
    assert (await client.control("POST", "/storage/test", {"large_payload_bytes": 16_777_217})).status == 422


@pytest.mark.parametrize(
    ("policy", "body", "reason", "driver"),
    [
        (None, {}, "external_storage_not_configured", None),
        ({"enabled": False}, {}, "external_storage_disabled", "local"),
        ({"driver": "s3", "config": {"disk": "unknown", "bucket": "b"}}, {}, "storage_driver_unavailable", "s3"),
        ({}, {"driver": "azure"}, "storage_driver_unavailable", "local"),
        ({"config": {"uri": "file:///etc"}}, {}, "storage_driver_unavailable", "local"),
    ],
)
async def test_a_storage_test_says_why_there_is_nothing_to_test(
    bare_client: PayloadClient, policy: dict[str, Any] | None, body: Any, reason: str, driver: str | None
) -> None:
    if policy is not None:
        assert (await bare_client.keep(**policy)).status == 200
    answer = await bare_client.control("POST", "/storage/test", body)
    said = {name: answer.json[name] for name in ("status", "reason", "namespace", "driver")}
    assert answer.status == 422
    expected = {"status": "failed", "reason": reason, "namespace": bare_client.served.namespace, "driver": driver}
    assert said == expected
    assert answer.json["supported_diagnostic_drivers"] == ["local"]


async def test_a_storage_that_takes_nothing_fails_its_test(client: PayloadClient, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "kept").write_text("a file where the folder should be")
    answer = await client.control("POST", "/storage/test", {})
    assert (answer.status, answer.json["reason"], answer.json["status"]) == (422, "storage_roundtrip_failed", "failed")
    assert answer.json["small_payload"]["status"] == answer.json["large_payload"]["status"] == "failed"
