"""Large payloads with the published client and worker: they travel beside the requests and stay out of the database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.errors import ExternalPayloadIntegrityMismatch, ExternalPayloadNotFound
from durable_workflow.external_storage import LocalFilesystemExternalStorage
from durable_workflow.workflow import Replayer, WorkflowContext

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.harness.servers import TOKEN, serving
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]
MEBIBYTE = 1_048_576
SHAPES = {
    "standalone": ("standalone_server", ("standalone", "scheduler")),
    "split": ("split_control_execution", ("api-ingress", "matching", "scheduler")),
}


@activity.defn(name="swell")
def swell(text: str) -> str:
    return text[:1] * MEBIBYTE


@workflow.defn(name="bulky-part")
class BulkyPart:
    def run(self, ctx: WorkflowContext, text: str) -> Steps:
        yield ctx.start_timer(0)
        return text + "part"


@workflow.defn(name="bulky")
class Bulky:
    """Large arguments, results, signals, updates, queries, side effects and children."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.signal("tell")
    def on_tell(self, text: str) -> None:
        """Note a text."""
        self.told.append(text)

    @workflow.update("exchange")
    def on_exchange(self, text: str) -> str:
        """Give back what came."""
        return text + "!"

    @workflow.query("latest")
    def latest(self) -> str:
        """The latest text."""
        return self.told[-1]

    def run(self, ctx: WorkflowContext, text: str) -> Steps:
        noted = yield ctx.side_effect(lambda: "s" * MEBIBYTE)
        swollen = yield ctx.schedule_activity("swell", [text])
        yield ctx.wait_condition(lambda: bool(self.told), key="told", timeout=120)
        child = yield ctx.start_child_workflow("bulky-part", [self.told[0]])
        yield ctx.wait_condition(lambda: len(self.told) > 1, key="done", timeout=120)
        return [len(noted), len(swollen), len(child), child[-4:], text]


class Site(msgspec.Struct):
    """Servers whose namespace keeps payloads below ``folder``."""

    control_url: str
    worker_url: str
    database_url: str
    namespace: str
    folder: Path

    def control(self) -> Client:
        """A client of the control plane."""
        return Client(self.control_url, token=TOKEN, namespace=self.namespace)

    def worker(self) -> Client:
        """A client of the worker plane, with nothing in its cache."""
        return Client(self.worker_url, token=TOKEN, namespace=self.namespace)

    def objects(self) -> list[Path]:
        """Every object that is kept."""
        return [path for path in self.folder.rglob("*") if path.is_file()]

    async def raw(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """One request without the SDK, which would resolve what it finds."""
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "X-Namespace": self.namespace,
            "X-Durable-Workflow-Control-Plane-Version": "2",
        }
        async with httpx.AsyncClient(base_url=self.control_url, headers=headers, timeout=30) as http:
            return await http.request(method, f"/api{path}", json=body)

    async def age(self, *statements: str) -> None:
        """Change what the database says of the past."""
        async with await psycopg.AsyncConnection.connect(self.database_url, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement.encode())


@pytest.fixture(scope="module", params=SHAPES)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str
) -> Iterator[Site]:
    """The processes of one shape."""
    shape, commands = SHAPES[request.param]
    folder = tmp_path_factory.mktemp(f"payloads-{request.param}").resolve()
    with new_database(f"e2e_payloads_{request.param}") as url:
        environ = {
            "DATABASE_URL": url,
            "REDIS_URL": redis_url,
            "DW_SERVER_TOPOLOGY_SHAPE": shape,
            "DW_EXTERNAL_PAYLOAD_LOCAL_ROOT": str(folder),
        }
        with serving(tmp_path_factory.mktemp("e2e-payloads"), environ, *commands) as running:
            yield Site(running[0].url, running[-2].url, url, "default", folder)


@pytest.fixture
async def site(servers: Site) -> AsyncIterator[Site]:
    """A namespace of this test alone, which keeps what is larger than 100 KiB in a folder of its own."""
    name = f"bulky-{uuid.uuid4().hex[:8]}"
    async with servers.control() as client:
        await client.create_namespace(name)
        made = await client.set_namespace_external_storage(
            name, driver="local", threshold_bytes=102_400, config={"prefix": name}
        )
        assert made.external_payload_storage is not None and made.external_payload_storage.enabled
    yield msgspec.structs.replace(servers, namespace=name, folder=servers.folder / name)


async def test_the_storage_is_tested_small_and_large(site: Site) -> None:
    async with site.control() as client:
        for sizes in ({}, {"small_payload_bytes": 1, "large_payload_bytes": 16_777_216, "driver": "local"}):
            tested = await client.test_external_storage(**sizes)  # type: ignore[arg-type]  # a choice of keywords
            assert tested.small_payload is not None and tested.large_payload is not None
            assert (tested.status, tested.small_payload.status, tested.large_payload.status) == ("passed",) * 3
    assert site.objects() == []


async def test_large_payloads_go_everywhere_and_outlive_a_worker(site: Site, tmp_path: Path) -> None:
    queue = f"q-{site.namespace}"
    served = ([Bulky, BulkyPart], [swell])
    async with site.control() as client:
        text = "a" * MEBIBYTE
        handle = await client.start_workflow(workflow_type="bulky", workflow_id="w", task_queue=queue, input=[text])
        run_path = f"/workflows/w/runs/{handle.run_id}"

        async def reached(event_type: str) -> bool:
            history = (await site.raw("GET", f"{run_path}/history?page_size=1000")).json()
            return any(event["event_type"] == event_type for event in history["events"])

        async with site.worker() as first, worker_on(first, queue, *served):
            await eventually(lambda: reached("ConditionWaitOpened"), "the workflow waits", 60)
        async with site.worker() as second, worker_on(second, queue, *served):
            await handle.signal("tell", ["b" * MEBIBYTE])
            await eventually(lambda: reached("ChildRunCompleted"), "the child is done", 60)
            assert (await handle.query("latest"))["result"] == "b" * MEBIBYTE
            assert (await handle.update("exchange", ["c" * MEBIBYTE], wait_for="completed"))[
                "result"
            ] == "c" * MEBIBYTE + "!"
            await handle.signal("tell", ["done"])
            result = await client.get_result(handle, timeout=60)
        assert result == [MEBIBYTE, MEBIBYTE, MEBIBYTE + 4, "part", text]
        described = await client.describe_workflow("w")
        assert (described.input, described.output) == ([text], result)
    history = (await site.raw("GET", f"{run_path}/history?page_size=1000")).json()["events"]
    assert len(json.dumps(history)) < 100_000, "no large payload stands in history"
    assert json.dumps(history).count('"external_payload"') >= 7
    await replayed(site, run_path, tmp_path, result)
    await gone_with_its_run(site)


async def replayed(site: Site, run_path: str, folder: Path, result: Any) -> None:
    """The export stands on its own, for the verifier and the replayer of the SDK."""
    exported = await site.raw("GET", f"{run_path}/history/export")
    assert exported.status_code == 200 and b"external_payload" not in exported.content
    file = folder / "bundle.json"
    file.write_bytes(exported.content)
    command: list[str | Path] = [
        Path(sys.executable).with_name("durable-workflow-history-bundle-verify"),
        file,
        "--strict-warnings",
    ]
    verdict = await asyncio.to_thread(verify, command)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    events = [event | {"event_type": event["type"]} for event in exported.json()["history_events"]]
    outcome = Replayer(workflows=[Bulky, BulkyPart]).replay(events, payload_codec="avro")
    assert getattr(outcome.commands[-1], "result", None) == result


def verify(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """What a command of the SDK says."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def gone_with_its_run(site: Site) -> None:
    """Retention removes the runs, and the next pass the objects that none of them uses any more."""
    assert len(site.objects()) >= 6
    of_namespace = f"WHERE namespace = '{site.namespace}'"
    await site.age(
        f"UPDATE workflow_runs SET closed_at = closed_at - interval '31 days' {of_namespace}",
        f"UPDATE workflow_run_summaries SET closed_at = closed_at - interval '31 days' {of_namespace}",
    )
    pruned = (await site.raw("POST", "/system/retention/pass", {})).json()
    assert pruned["pruned"] == 2, pruned
    await site.age(f"UPDATE external_payloads SET review_at = review_at - interval '1 day' {of_namespace}")
    cleaned = (await site.raw("POST", "/system/external-payload-cleanup/pass", {})).json()
    assert cleaned["objects_failed"] == 0
    assert site.objects() == []


async def test_a_payload_that_is_altered_or_gone_is_a_typed_error(site: Site) -> None:
    async with site.control() as client:
        text = "d" * MEBIBYTE
        handle = await client.start_workflow(workflow_type="bulky", workflow_id="w", task_queue="nobody", input=[text])
    (kept,) = site.objects()
    whole = kept.read_bytes()
    for data, error, reason in (
        (whole[:-4] + b"AAAA", ExternalPayloadIntegrityMismatch, "external_payload_integrity_failed"),
        (None, ExternalPayloadNotFound, "external_payload_not_found"),
    ):
        kept.unlink()
        if data is not None:
            kept.write_bytes(data)
        assert (await site.raw("GET", "/workflows/w")).json()["reason"] == reason
        async with site.control() as client:
            with pytest.raises(error):
                await client.get_history("w", str(handle.run_id))


async def test_an_application_may_write_into_the_folder_itself(site: Site) -> None:
    driver = LocalFilesystemExternalStorage(site.folder / "direct")
    queue = f"q-{site.namespace}"
    async with (
        Client(
            site.control_url,
            token=TOKEN,
            namespace=site.namespace,
            external_storage=driver,
            external_storage_threshold_bytes=1000,
        ) as client,
        Client(
            site.worker_url,
            token=TOKEN,
            namespace=site.namespace,
            external_storage=driver,
            external_storage_threshold_bytes=1000,
        ) as serving_client,
    ):
        handle = await client.start_workflow(
            workflow_type="bulky-part", workflow_id="w", task_queue=queue, input=["e" * 5000]
        )
        async with worker_on(serving_client, queue, [BulkyPart]):
            assert await client.get_result(handle, timeout=60) == "e" * 5000 + "part"
    described = (await site.raw("GET", "/workflows/w")).json()
    assert (described["input"], described["output"]) == (["e" * 5000], "e" * 5000 + "part")
    assert "external_storage" in described["input_envelope"] and "external_storage" in described["output_envelope"]
