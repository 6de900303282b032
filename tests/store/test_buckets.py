"""The drivers for buckets, against servers that speak as theirs do."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dw_core.payloads.policy import Driver, Place, StorageConfig, StoragePolicy
from dw_runtime.payloads.disks import Disks, read_disks
from dw_runtime.payloads.errors import NoDriver, ObjectAltered, ObjectMissing, StorageAway
from tests.harness.buckets import Buckets, serving_buckets

DATA = b"some bytes " * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
async def buckets() -> AsyncIterator[Buckets]:
    """An empty storage."""
    async with serving_buckets() as served:
        yield served


def options(driver: Driver, url: str) -> dict[str, Any]:
    """What a disk of this driver needs to reach the storage."""
    key = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {
        "s3": {"endpoint": url, "region": "eu", "aws_access_key_id": "id", "aws_secret_access_key": "hush"},
        "gcs": {"service_account_key": json.dumps(key)},
        "azure": {
            "endpoint": f"{url}/account",
            "account_name": "account",
            "account_key": base64.b64encode(b"hush").decode(),
        },
    }[driver]


def disks(driver: Driver, url: str) -> Disks:
    """A disk ``main`` for the bucket ``payloads``."""
    disk = {"driver": driver, "bucket": "payloads", "options": options(driver, url), "allow_http": True}
    return Disks(None, read_disks(json.dumps({"main": disk})), timeout_seconds=2)


def policy(driver: Driver, **config: str) -> StoragePolicy:
    """A policy that uses the disk."""
    return StoragePolicy(driver=driver, config=StorageConfig(disk="main", prefix="prod/", **config))


@pytest.mark.parametrize("driver", ["s3", "gcs", "azure"])
async def test_objects_are_written_verified_and_deleted(buckets: Buckets, driver: Driver) -> None:
    access = disks(driver, buckets.url)
    place = access.place(policy(driver))
    key = place.key("avro", SHA256)
    uri = place.uri(key)
    scheme = {"s3": "s3", "gcs": "gs", "azure": "azure"}[driver]
    assert uri == f"{scheme}://payloads/prod/avro/{SHA256[:2]}/{SHA256}"
    objects, located = access.locate(uri, "main")
    assert located == key
    await objects.put(key, DATA)
    await objects.put(key, DATA)
    assert buckets.objects == {f"payloads/{key}": DATA}
    assert await objects.get(key, size_bytes=len(DATA), sha256=SHA256) == DATA
    buckets.objects[f"payloads/{key}"] = DATA[::-1]
    with pytest.raises(ObjectAltered):
        await objects.get(key, size_bytes=len(DATA), sha256=SHA256)
    await objects.delete(key)
    assert buckets.objects == {}
    await objects.delete(key)
    with pytest.raises(ObjectMissing):
        await objects.get(key, size_bytes=len(DATA), sha256=SHA256)


@pytest.mark.parametrize("driver", ["s3", "gcs", "azure"])
async def test_a_storage_in_trouble_is_told_from_a_missing_object(buckets: Buckets, driver: Driver) -> None:
    access = disks(driver, buckets.url)
    objects = access.objects(access.place(policy(driver)))
    buckets.is_away = True
    for attempt in (objects.put("a", DATA), objects.get("a", size_bytes=1, sha256=SHA256), objects.delete("a")):
        with pytest.raises(StorageAway):
            await attempt


def test_a_policy_uses_only_what_its_disk_gives_access_to() -> None:
    access = disks("s3", "http://127.0.0.1:1")
    for wrong in (
        policy("gcs"),
        policy("s3", endpoint="http://169.254.169.254"),
        policy("s3", region="us"),
        StoragePolicy(driver="s3", config=StorageConfig(bucket="payloads")),
        StoragePolicy(driver="local"),
    ):
        with pytest.raises(NoDriver):
            access.place(wrong)
    with pytest.raises(NoDriver):
        access.objects(access.place(policy("s3", bucket="of-somebody-else")))


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("azure://payloads/prod/a", "prod/a"),
        ("azure-blob://payloads/prod/a", "prod/a"),
        ("azure://payloads/other/a", None),
        ("azure://other/prod/a", None),
        ("azure://payloads/prod/../a", None),
        ("azure://payloads/prod/%2e%2e/a", None),
        ("azure://payloads/prod/", None),
        ("s3://payloads/prod/a", None),
    ],
)
def test_an_address_lies_in_a_place_or_it_does_not(uri: str, key: str | None) -> None:
    assert Place(driver="azure", container="payloads", prefix="prod").key_of(uri) == key
