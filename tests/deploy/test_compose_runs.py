"""The split Compose topology without Docker: the published SDK as application and worker, through the one URL."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import uuid
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from durable_workflow import Worker, activity, serializer, workflow
from durable_workflow.errors import ExternalPayloadOversized
from durable_workflow.workflow import WorkflowContext

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane, Route
from tests.deploy.topology import ROLES, Topology, running_topology
from tests.harness.databases import temporary_database
from tests.harness.nginx import needs_nginx
from tests.harness.small_load import run_workflows
from tests.harness.waiting import eventually

pytestmark = needs_nginx
MIB = 1_048_576
LARGEST_UPLOAD_BYTES = 64 * MIB
LARGEST_TEXT = LARGEST_UPLOAD_BYTES // 4 * 3 - 15
"""Letters of the text that Avro and base64 make exactly so large."""
REQUEST_BYTES_MAX = 2 * MIB
VERSIONS = {"x-durable-workflow-control-plane-version": "2", "x-durable-workflow-protocol-version": "1.20"}


@activity.defn(name="measure")
def measure(text: str) -> int:
    return len(text)


@workflow.defn(name="composed")
class Composed:
    """Measures its argument, can be asked for the result, and ends when it is told a word."""

    def __init__(self) -> None:
        self.length = 0
        self.word = ""

    @workflow.signal("tell")
    def on_tell(self, word: str) -> None:
        self.word = word

    @workflow.query("length")
    def asked(self) -> int:
        return self.length

    def run(self, ctx: WorkflowContext, text: str) -> Generator[Any, Any, list[Any]]:
        self.length = yield ctx.schedule_activity("measure", [text])
        yield ctx.wait_condition(lambda: bool(self.word))
        return [self.length, self.word]


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory, postgres_url: str, redis_url: str) -> Iterator[Topology]:
    """Everything that the file describes; the tests leave it running."""
    with (
        temporary_database(postgres_url) as url,
        running_topology(tmp_path_factory.mktemp("compose"), url, redis_url) as topology,
    ):
        yield topology


@pytest.fixture
def own_topology(tmp_path_factory: pytest.TempPathFactory, postgres_url: str, redis_url: str) -> Iterator[Topology]:
    """One for a test that takes replicas away."""
    with (
        temporary_database(postgres_url) as url,
        running_topology(tmp_path_factory.mktemp("compose"), url, redis_url) as topology,
    ):
        yield topology


def http(topology: Topology, token: str, base_url: str = "") -> httpx.AsyncClient:
    """A client that repeats nothing and hides nothing, with the token of a role."""
    headers = {"authorization": f"Bearer {topology.secret(token)}", "x-namespace": "default", **VERSIONS}
    return httpx.AsyncClient(base_url=base_url or topology.url, headers=headers, timeout=90)


async def test_a_workflow_with_an_activity_a_query_and_a_signal_runs_through_the_one_url(topology: Topology) -> None:
    queue = f"q-{uuid.uuid4().hex[:12]}"
    async with topology.client() as client:
        worker = Worker(client, task_queue=queue, workflows=[Composed], activities=[measure])
        running = asyncio.create_task(worker.run())
        handle = await client.start_workflow(
            workflow_type="composed", workflow_id=queue, task_queue=queue, input=["abc"]
        )

        async def has_measured() -> bool:
            described = await client.get_history(queue, str(handle.run_id))
            return any(event["event_type"] == "ActivityCompleted" for event in described["events"])

        await eventually(has_measured, "the activity is done", 30)
        assert (await handle.query("length"))["result"] == 3
        await handle.signal("tell", ["enough"])
        assert await handle.result(timeout=30) == [3, "enough"]
        await worker.stop()
        await running


async def test_every_route_of_a_plane_reaches_its_role(topology: Topology) -> None:
    """A role that is not meant says so; the gateway never asks one."""
    tokens = {Plane.WORKER: "worker_token", Plane.CONTROL: "admin_token"}
    wrong = {Plane.WORKER: "api-ingress", Plane.CONTROL: "matching"}
    refused_by_the_other: set[Plane] = set()
    for plane, token in tokens.items():
        routes = [route for route in ROUTES if route.plane is plane]
        other = topology.replicas[wrong[plane]][0].url
        async with http(topology, token) as through, http(topology, token, other) as astray:
            for route in routes:
                assert not await is_astray(through, route), route.name
            if any([await is_astray(astray, route) for route in routes]):
                refused_by_the_other.add(plane)
    assert refused_by_the_other == tokens.keys(), "the answer that must not come is what a wrong role says"


async def is_astray(client: httpx.AsyncClient, route: Route) -> bool:
    """Whether a call of the route, about something that does not exist, comes to a role that does not serve it."""
    path = re.sub(r"\{\w+\}", "nothing", route.path)
    async with client.stream(route.method, path, json={} if route.request else None) as answer:
        assert answer.status_code not in (401, 403, 502, 504), (route.name, answer.status_code)
        return answer.status_code == 503 and b"topology_role_unavailable" in await answer.aread()


async def test_the_largest_payload_passes_and_what_is_larger_is_refused_by_name(topology: Topology) -> None:
    async with http(topology, "admin_token") as client:
        policy = {"driver": "local", "threshold_bytes": 1024, "config": {}}
        answer = await client.put("/api/namespaces/default/external-storage", json=policy)
        assert answer.status_code == 200, answer.text
    # What a replica says of a namespace may be seconds old, and the SDK believes the one that it asks first.
    for server in topology.replicas["api-ingress"]:
        async with http(topology, "operator_token", server.url) as client:
            await eventually(partial(tells_of_storage, client), "every replica tells of the storage", 60)
    async with http(topology, "operator_token") as client:
        largest = encoded(LARGEST_TEXT)
        assert len(largest) == LARGEST_UPLOAD_BYTES
        answer = await upload(client, largest)
        assert (answer.status_code, answer.json()["reference"]["size_bytes"]) == (201, LARGEST_UPLOAD_BYTES)
        answer = await upload(client, largest + b"=")
        assert (answer.status_code, answer.json()["reason"]) == (413, "external_payload_oversized")
        answer = await client.post("/api/workflows", content=b"a" * (REQUEST_BYTES_MAX + 1))
        assert (answer.status_code, answer.json()["reason"]) == (413, "payload_too_large")
    await _large_argument(topology)


async def tells_of_storage(client: httpx.AsyncClient) -> bool:
    """Whether the SDK would learn here that large payloads are uploaded."""
    namespace = (await client.get("/api/cluster/info")).json()["namespace"]
    return bool((namespace.get("external_payload_storage") or {}).get("enabled"))


def encoded(length: int) -> bytes:
    """A text of so many letters as the SDK sends it."""
    return serializer.encode("a" * length).encode()


async def upload(client: httpx.AsyncClient, data: bytes) -> httpx.Response:
    """Upload a payload as the SDK does."""
    headers = {
        "content-type": "application/octet-stream",
        "x-durable-workflow-payload-codec": "avro",
        "x-durable-workflow-payload-size": str(len(data)),
        "x-durable-workflow-payload-sha256": hashlib.sha256(data).hexdigest(),
    }
    return await client.post("/api/external-payloads/v1", content=data, headers=headers)


async def _large_argument(topology: Topology) -> None:
    """The SDK sends an argument that is, encoded, nearly as large as may be; a larger one it refuses itself."""
    queue = f"q-{uuid.uuid4().hex[:12]}"
    text = "a" * (LARGEST_TEXT - 1024)
    async with topology.client() as client:
        handle = await client.start_workflow(
            workflow_type="composed", workflow_id=queue, task_queue=queue, input=[text]
        )
        described = await client.describe_workflow(handle.workflow_id)
        assert described.input == [text]
        with pytest.raises(ExternalPayloadOversized):
            await client.start_workflow(
                workflow_type="composed", workflow_id=f"{queue}-2", task_queue=queue, input=[text + "a" * 2048]
            )


async def test_workflows_complete_while_a_replica_of_each_role_is_killed(own_topology: Topology) -> None:
    topology = own_topology
    begun = asyncio.Event()
    async with topology.client() as watching:

        async def is_under_load() -> bool:
            return len((await watching.list_workflows(status="running", page_size=50)).executions) >= 10

        async def kill_one_of_each() -> None:
            await begun.wait()
            for role in ROLES:
                await eventually(is_under_load, "workflows run", 60)
                await asyncio.to_thread(topology.replicas[role][0].kill)

        await asyncio.gather(load(topology, 40, begun), kill_one_of_each())
    await load(topology, 5)
    for role in ROLES:
        assert [server.process.poll() for server in topology.replicas[role]] == [-signal.SIGKILL, None], role


async def load(topology: Topology, count: int, begun: asyncio.Event | None = None) -> None:
    """Workflows of a bit of everything, whose results are checked."""
    operator, worker = topology.secret("operator_token"), topology.secret("worker_token")
    await run_workflows(topology.url, topology.url, count, control_token=operator, worker_token=worker, begun=begun)


async def test_a_poll_that_is_held_behind_the_gateway_is_answered_when_its_replica_leaves(
    own_topology: Topology,
) -> None:
    """Without the SDK, which would poll again and so hide a reset."""
    leaving, staying = own_topology.replicas["matching"]
    poll = {"worker_id": "w-1", "task_queue": "idle", "timeout_seconds": 50}
    async with http(own_topology, "worker_token") as client:
        body = {"worker_id": "w-1", "task_queue": "idle", "runtime": "python"}
        assert (await client.post("/api/worker/register", json=body)).status_code == 201
        polls = [asyncio.create_task(client.post("/api/worker/workflow-tasks/poll", json=poll)) for _ in range(10)]

        async def are_spread() -> bool:
            held = [await asyncio.to_thread(server.held_polls) for server in (leaving, staying)]
            return sum(held) == len(polls) and min(held) > 0

        await eventually(are_spread, "the polls are held by both replicas")
        concerned = await asyncio.to_thread(leaving.held_polls)
        leaving.terminate()
        assert await asyncio.to_thread(leaving.exit_code) == 0

        async def are_answered() -> bool:
            return sum(poll.done() for poll in polls) >= concerned

        await eventually(are_answered, "the polls of the replica that has left are answered")
        answers = [poll.result() for poll in polls if poll.done()]
        assert [(answer.status_code, answer.json()["poll_status"]) for answer in answers] == [
            (200, "empty")
        ] * concerned
        assert await asyncio.to_thread(staying.held_polls) == len(polls) - concerned
        again = await client.post("/api/worker/workflow-tasks/poll", json=poll | {"timeout_seconds": 1})
        assert (again.status_code, again.json()["poll_status"]) == (200, "empty")
        for it in polls:
            it.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
