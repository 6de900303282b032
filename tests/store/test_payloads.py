"""The rows of external payloads, and the loop that removes what nobody uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dw_core.ids import ulid
from dw_core.payloads.references import RuntimeReference
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.payloads.disks import Disks, read_disks
from dw_runtime.payloads.errors import NoDriver
from dw_runtime.settings import SettingsError
from dw_runtime.store.database import Database
from dw_runtime.store.payloads import ObjectBusy, PayloadRows
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.payload_cleanup import PayloadCleanupLoop
from tests.harness.waiting import eventually

SHA256 = "a" * 64


def offered(number: int) -> RuntimeReference:
    """A reference that a process has made up."""
    return RuntimeReference(reference_id=f"ep_{ulid(number, bytes(10))}", size_bytes=4, sha256=SHA256)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Connections to the migrated database."""
    opened = Database(database_url, 4, Metrics())
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def rows(database: Database) -> PayloadRows:
    """The rows of a server that keeps unused payloads for an hour."""
    return PayloadRows(database, expiry_seconds=3600)


async def test_processes_that_keep_one_content_at_once_agree_on_a_reference(
    rows: PayloadRows, unique_namespace: str
) -> None:
    uri = f"file:///nowhere/{unique_namespace}"
    kept = await asyncio.gather(*(rows.keep(unique_namespace, offered(number), uri, None) for number in range(1, 9)))
    assert len({reference.reference_id for reference in kept}) == 1
    other = await rows.keep(f"{unique_namespace}-other", offered(99), uri, None)
    assert other.reference_id == offered(99).reference_id
    assert await rows.find(unique_namespace, other.reference_id) is None


async def test_a_run_of_another_namespace_may_read_what_it_has_been_given(
    rows: PayloadRows, database: Database, unique_namespace: str
) -> None:
    kept = await rows.keep(unique_namespace, offered(1000), f"file:///nowhere/{unique_namespace}", None)
    other = f"{unique_namespace}-other"
    assert await rows.known(other, [kept.reference_id]) == {}
    use = f'[{{"run_id": "run", "reference_id": "{kept.reference_id}", "namespace": "{other}"}}]'
    for _ in range(2):
        await database.rows("use_payloads", use)
    assert set(await rows.known(other, [kept.reference_id])) == {kept.reference_id}
    found = await rows.find(other, kept.reference_id)
    assert found is not None and found.reference == kept


async def test_an_object_that_is_being_deleted_cannot_be_kept(
    rows: PayloadRows, database: Database, unique_namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path.resolve()
    path = folder / unique_namespace
    path.write_text("data")
    uri = path.as_uri()
    await rows.keep(unique_namespace, offered(2000), uri, None)
    await _age(database, unique_namespace)
    assert await rows.review(unique_namespace, 10) == [offered(2000).reference_id]
    assert (uri, None) in await rows.doom(1000)
    with pytest.raises(ObjectBusy):
        await rows.keep(unique_namespace, offered(2001), uri, None)
    assert await rows.find(unique_namespace, offered(2001).reference_id) is None
    assert (uri, None) not in await rows.doom(1000), "it has been taken"
    await database.rows("forget_objects", f'["{uri}"]')
    await rows.keep(unique_namespace, offered(2002), uri, None)
    cleanup = PayloadCleanup(rows, Disks(folder, {}, timeout_seconds=5), Metrics())
    await cleanup.pass_once(unique_namespace, 500)
    assert path.exists()
    await _age(database, unique_namespace)
    cleaned = await cleanup.pass_once(unique_namespace, 500)
    assert (cleaned.reference_ids, path.exists()) == ([offered(2002).reference_id], False)


async def test_the_scheduler_deletes_what_nobody_uses_and_goes_on_after_a_failure(
    rows: PayloadRows, database: Database, unique_namespace: str, tmp_path: Path
) -> None:
    path = tmp_path.resolve() / unique_namespace
    path.write_text("data")
    await rows.keep(unique_namespace, offered(3000), path.as_uri(), None)
    await rows.keep(unique_namespace, offered(3001), f"file:///elsewhere/{unique_namespace}", None)
    await _age(database, unique_namespace)
    cleanup = PayloadCleanup(rows, Disks(path.parent, {}, timeout_seconds=5), Metrics())
    loop = PayloadCleanupLoop(cleanup, interval_seconds=0.01)
    loop.start()
    try:

        async def gone() -> bool:
            return not path.exists()

        await eventually(gone, "the object is deleted", 20)
        assert loop.is_alive
    finally:
        await loop.stop()
    async with database.connection() as session:
        left = await session._connection.execute(
            b"SELECT is_doomed FROM external_payload_objects WHERE object_uri LIKE $1", [f"%/{unique_namespace}"]
        )
        assert (True,) in await left.fetchall(), "what lies out of reach stays to be deleted"


async def _age(database: Database, namespace: str) -> None:
    async with database.connection() as session:
        await session._connection.execute(
            b"UPDATE external_payloads SET review_at = review_at - interval '1 day' WHERE namespace = $1", [namespace]
        )


def test_disks_are_read_and_never_repeated() -> None:
    disks = read_disks('{"main": {"driver": "s3", "bucket": "b", "options": {"aws_access_key_id": "hush"}}}')
    assert (disks["main"].driver, disks["main"].bucket) == ("s3", "b")
    for wrong in ("hush", '{"main": {"driver": "ftp", "options": {"key": "hush"}}}', '{"main": {"secret": "hush"}}'):
        with pytest.raises(SettingsError) as refused:
            read_disks(wrong)
        assert "hush" not in str(refused.value)


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "file:///srv/payloads", "s3://other/a", "nothing"])
def test_no_address_outside_what_was_given_is_opened(tmp_path: Path, uri: str) -> None:
    disks = Disks(tmp_path, read_disks('{"main": {"driver": "s3", "bucket": "b"}}'), timeout_seconds=5)
    with pytest.raises(NoDriver):
        disks.locate(uri, "main")
