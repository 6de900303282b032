"""``/api/external-payloads/v1``: bytes in, the same bytes out (control-plane §23)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dw_core.payloads.codec import encode_blob
from tests.contract.payloads.conftest import BLOB, PREFIX, PayloadClient, headers_of
from tests.contract.shell_client import Answer
from tests.harness.buckets import serving_buckets
from tests.harness.worker_plane import worker_plane

SHA256 = hashlib.sha256(BLOB.encode()).hexdigest()
UNKNOWN = {
    "schema": "durable-workflow.v2.runtime-external-payload-reference.v1",
    "reference_id": "ep_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "codec": "avro",
    "size_bytes": len(BLOB),
    "sha256": SHA256,
}


def refused(answer: Answer) -> tuple[int, str, bool]:
    """Status, reason and retryability of a refusal, whose form is checked."""
    body = answer.json
    assert (body["schema"], body["status"]) == (
        "durable-workflow.v2.runtime-external-payload-error.v1",
        answer.status,
    ), body
    assert body["message"]
    return answer.status, body["reason"], body["retryable"]


async def test_bytes_come_back_as_they_were_with_what_describes_them(client: PayloadClient) -> None:
    answer = await client.upload()
    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store, private")
    reference = answer.json["reference"]
    assert answer.json == {
        "schema": "durable-workflow.v2.runtime-external-payload-upload.v1",
        "transport_version": 1,
        "reference": UNKNOWN | {"reference_id": reference["reference_id"]},
    }
    assert re.fullmatch("ep_[0-9A-HJKMNP-TV-Z]{26}", reference["reference_id"])
    assert client.object_of(SHA256).read_text() == BLOB
    fetched = await client.fetch(reference, **{"accept-encoding": "gzip"})
    assert (fetched.status, fetched.raw, fetched.headers["content-type"]) == (
        200,
        BLOB.encode(),
        "application/octet-stream",
    )
    described = {name: fetched.headers[f"{PREFIX}{name}".lower()] for name in ("Codec", "Size", "SHA256")}
    assert described == {"Codec": "avro", "Size": str(len(BLOB)), "SHA256": SHA256}
    assert (fetched.headers["etag"], fetched.headers["cache-control"]) == (
        f'"sha256:{SHA256}"',
        "immutable, max-age=60, private",
    )


async def test_an_upload_that_is_sent_twice_or_at_once_gets_one_reference(client: PayloadClient) -> None:
    answers = await asyncio.gather(*(client.upload() for _ in range(5)))
    answers.append(await client.upload())
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["reference"]["reference_id"] for answer in answers}) == 1


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({f"{PREFIX}Codec": "json"}, (415, "external_payload_unsupported", False)),
        ({"content-type": "application/json"}, (415, "external_payload_unsupported", False)),
        ({f"{PREFIX}Size": "7"}, (422, "external_payload_integrity_mismatch", False)),
        ({f"{PREFIX}Size": "-1"}, (422, "external_payload_integrity_mismatch", False)),
        ({f"{PREFIX}Size": "3000001"}, (413, "external_payload_oversized", False)),
        ({f"{PREFIX}SHA256": "0" * 64}, (422, "external_payload_integrity_mismatch", False)),
        ({f"{PREFIX}SHA256": SHA256.upper()}, (422, "external_payload_integrity_mismatch", False)),
        ({"x-namespace": "nowhere"}, (404, "external_payload_not_found", False)),
        ({"x-namespace": " "}, (422, "external_payload_unsupported", False)),
    ],
)
async def test_an_upload_that_is_not_what_it_says_leaves_nothing(
    client: PayloadClient, replaced: dict[str, str], expected: tuple[int, str, bool]
) -> None:
    assert refused(await client.upload(**replaced)) == expected
    assert not client.object_of(SHA256).exists()
    assert (
        await client.served.execute(
            "SELECT 1 FROM external_payloads WHERE sha256 = %s AND namespace = %s", SHA256, client.served.namespace
        )
        == []
    )


async def test_what_is_no_payload_and_what_is_too_large_is_refused(client: PayloadClient) -> None:
    for text in ("not base64!", "aGVsbG8=", ""):
        assert refused(await client.upload(text)) == (415, "external_payload_unsupported", False)
    large = b"x" * 3_000_001
    answer = await client.move("POST", "", headers_of(large), body=large)
    assert refused(answer) == (413, "external_payload_oversized", False)


async def test_a_namespace_without_an_enabled_policy_takes_no_bytes(bare_client: PayloadClient) -> None:
    assert refused(await bare_client.upload()) == (422, "external_payload_unsupported", False)
    await bare_client.keep(enabled=False)
    assert refused(await bare_client.upload()) == (422, "external_payload_unsupported", False)


async def test_only_who_knows_a_payload_of_the_namespace_gets_it(client: PayloadClient) -> None:
    reference = (await client.upload()).json["reference"]
    not_found = (404, "external_payload_not_found", False)
    assert refused(await client.fetch(reference, namespace="default")) == not_found
    assert refused(await client.fetch(UNKNOWN)) == not_found
    assert refused(await client.fetch(UNKNOWN | {"reference_id": "..%2F..%2Fetc"})) == not_found
    mismatch = (422, "external_payload_integrity_mismatch", False)
    assert refused(await client.fetch(reference | {"sha256": "0" * 64})) == mismatch
    assert refused(await client.fetch(reference | {"size_bytes": 7})) == mismatch
    assert refused(await client.fetch(reference | {"codec": "json"})) == (415, "external_payload_unsupported", False)


async def test_bytes_that_are_altered_or_gone_are_never_given(client: PayloadClient) -> None:
    reference = (await client.upload()).json["reference"]
    kept = client.object_of(SHA256)
    for altered in (BLOB[:-4] + "AAAA", BLOB + "AAAA", ""):
        kept.write_text(altered)
        assert refused(await client.fetch(reference)) == (422, "external_payload_integrity_mismatch", False)
    kept.unlink()
    assert refused(await client.fetch(reference)) == (404, "external_payload_not_found", False)
    assert (await client.upload()).json["reference"] == reference
    assert (await client.fetch(reference)).raw == BLOB.encode(), "an upload makes whole what was lost"


async def test_a_link_does_not_lead_out_of_the_folder(client: PayloadClient) -> None:
    reference = (await client.upload()).json["reference"]
    kept = client.object_of(SHA256)
    outside = client.root.parent / "outside"
    kept.rename(outside)
    kept.symlink_to(outside)
    assert refused(await client.fetch(reference)) == (404, "external_payload_not_found", False)


async def test_a_storage_that_is_away_is_to_be_tried_again(client: PayloadClient) -> None:
    client.root.mkdir(parents=True, exist_ok=True)
    (client.root / "kept").write_text("a file where the folder should be")
    assert refused(await client.upload()) == (503, "external_payload_unavailable", True)
    (client.root / "kept").unlink()
    assert (await client.upload()).status == 201


async def test_payloads_stay_where_they_are_when_the_policy_changes(client: PayloadClient) -> None:
    reference = (await client.upload()).json["reference"]
    await client.keep(config={"prefix": "elsewhere"})
    assert (await client.fetch(reference)).raw == BLOB.encode()
    other: dict[str, Any] = (await client.upload(encode_blob(["y" * 2000]))).json["reference"]
    assert (client.root / "elsewhere" / "avro" / other["sha256"][:2] / other["sha256"]).exists()


async def test_a_payload_that_nobody_used_in_time_has_expired(client: PayloadClient) -> None:
    envelope = await client.reference()
    await client.served.execute(
        "UPDATE external_payloads SET review_at = dw_now() - interval '3601 seconds' WHERE reference_id = %s",
        envelope["external_payload"]["reference_id"],
    )
    assert refused(await client.fetch(envelope["external_payload"])) == (410, "external_payload_expired", False)
    start = {"workflow_type": "order", "input": envelope}
    answer = await client.control("POST", "/workflows", start)
    assert (answer.status, answer.json["reason"]) == (410, "external_payload_expired")
    assert await client.reference() == envelope, "sent again, it lives again"
    assert (await client.control("POST", "/workflows", start)).status == 201


async def test_a_bucket_serves_like_a_folder(database_url: str, unique_namespace: str, root: Path) -> None:
    async with serving_buckets() as buckets:
        options = {"endpoint": buckets.url, "region": "eu", "aws_access_key_id": "id", "aws_secret_access_key": "hush"}
        disk = {"driver": "s3", "bucket": "payloads", "options": options, "allow_http": True}
        environ = {"DW_EXTERNAL_PAYLOAD_DISKS": json.dumps({"main": disk})}
        async with worker_plane(database_url, unique_namespace, environ) as served:
            client = PayloadClient(served, root)
            kept = await client.keep(driver="s3", config={"disk": "main", "prefix": "prod"})
            assert kept.status == 200 and "hush" not in kept.raw.decode()
            tested = await client.control("POST", "/storage/test", {})
            assert tested.json["large_payload"]["reference_uri"].startswith("s3://payloads/prod/avro/")
            assert (tested.status, buckets.objects) == (200, {})
            envelope = await client.reference()
            assert list(buckets.objects) == [f"payloads/prod/avro/{SHA256[:2]}/{SHA256}"]
            assert (await client.fetch(envelope["external_payload"])).raw == BLOB.encode()
            await client.register()
            await client.start(input=envelope)
            buckets.is_away = True
            away = await client.control("GET", "/workflows/w")
            assert (away.status, away.json["reason"], away.json["retryable"]) == (
                503,
                "external_payload_storage_unavailable",
                True,
            )
            assert refused(await client.fetch(envelope["external_payload"])) == (
                503,
                "external_payload_unavailable",
                True,
            )
            buckets.is_away = False
            assert (await client.control("GET", "/workflows/w")).json["input"] == ["x" * 2000]
