"""Service operations with the published SDK: as a workflow calls them, and as an application executes them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from durable_workflow import Client, activity, workflow
from durable_workflow.errors import NexusOperationFailed
from durable_workflow.invocable import InvocableActivityCallable, handle_invocable_http_request
from durable_workflow.workflow import WorkflowContext

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.harness.servers import TOKEN, Server, serving
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]
SHAPES = {
    "standalone": ("standalone_server", ("standalone", "scheduler")),
    "split": ("split_control_execution", ("api-ingress", "matching", "scheduler")),
}


class Site(msgspec.Struct):
    """Two SDK clients of one installation, a catalogue of its own, and an HTTP target."""

    control: Client
    worker: Client
    endpoint: str
    target: Target

    async def add(self, operation: str, kind: str, **members: Any) -> None:
        """Put an operation of the service ``desk`` into the catalogue."""
        await self.control._request(
            "POST",
            f"/service-endpoints/{self.endpoint}/services/desk/operations",
            json={"operation_name": operation, "operation_mode": "sync", "handler_binding_kind": kind, **members},
        )

    async def events(self, workflow_id: str, run_id: str) -> list[dict[str, Any]]:
        """The service events of a run."""
        history = await self.control.get_history(workflow_id, run_id)
        return [event for event in history["events"] if event["event_type"].startswith("ServiceCall")]


class Target:
    """An HTTP server that runs the SDK's own handler; ``requests`` are the bodies it has been sent."""

    def __init__(self, handlers: dict[str, InvocableActivityCallable]) -> None:
        self.handlers = handlers
        self.requests: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer as told, else let the handler answer."""
        body = await request.read()
        self.requests.append(msgspec.json.decode(body))
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return web.Response(status=status)
        answer = await handle_invocable_http_request(body, self.handlers)
        return web.Response(status=answer.status_code, text=answer.body)


@pytest.fixture(scope="module", params=SHAPES)
def servers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_database: NewDatabase,
    redis_url: str,
) -> Iterator[list[Server]]:
    """One installation per shape; HTTP targets on this machine are allowed."""
    shape, commands = SHAPES[request.param]
    with new_database(f"services_{request.param}") as url:
        environ = {
            "DATABASE_URL": url,
            "REDIS_URL": redis_url,
            "DW_SERVER_TOPOLOGY_SHAPE": shape,
            "DW_SERVICE_ALLOWED_NETWORKS": "127.0.0.1/32",
        }
        with serving(tmp_path_factory.mktemp("services"), environ, *commands) as running:
            yield running


@pytest.fixture
async def site(servers: list[Server]) -> AsyncIterator[Site]:
    """An endpoint of this test alone."""
    target = Target({})
    application = web.Application()
    application.router.add_post("/work", target.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    target.url = f"http://127.0.0.1:{runner.addresses[0][1]}/work"
    endpoint = f"e-{uuid.uuid4().hex[:10]}"
    plane = next(server for server in servers if server.command in ("standalone", "matching"))
    async with Client(servers[0].url, token=TOKEN) as control, Client(plane.url, token=TOKEN) as worker:
        await control._request("POST", "/service-endpoints", json={"endpoint_name": endpoint})
        await control._request("POST", f"/service-endpoints/{endpoint}/services", json={"service_name": "desk"})
        yield Site(control, worker, endpoint, target)
    await runner.cleanup()


@workflow.defn(name="greeting")
class Greeting:
    """The handler of an operation."""

    def run(self, ctx: WorkflowContext, name: str) -> Steps:
        yield ctx.start_timer(0)
        if name == "nobody":
            raise ValueError("nobody to greet")
        return f"hello {name}"


@workflow.defn(name="caller")
class Caller:
    """Calls one operation after a timer, and another timer after it."""

    def run(self, ctx: WorkflowContext, endpoint: str, operation: str, argument: Any) -> Steps:
        yield ctx.start_timer(0)
        try:
            answer = yield ctx.call_nexus_service(endpoint, "desk", operation, [argument])
        except NexusOperationFailed as failed:
            return ["failed", failed.outcome, failed.reason, str(failed)]
        yield ctx.start_timer(0)
        return [answer.status, answer.result]


@workflow.defn(name="starter")
class Starter:
    """Starts an operation and does not wait for its end."""

    def run(self, ctx: WorkflowContext, endpoint: str) -> Steps:
        started = yield ctx.start_nexus_operation(endpoint, "desk", "greet", ["async"])
        yield ctx.start_timer(0)
        return [started.status, started.accepted]


@workflow.defn(name="listener")
class Listener:
    """Waits for a signal."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.signal("tell")
    def on_tell(self, word: Any) -> None:
        """Keep what was said."""
        self.heard.append(word)

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.wait_condition(lambda: bool(self.heard), key="heard")
        return self.heard


@workflow.defn(name="counter")
class Counter:
    """Counts by updates."""

    def __init__(self) -> None:
        self.count = 0

    @workflow.query("counted")
    def counted(self, plus: int) -> int:
        """How far it has come, and a bit."""
        if plus < 0:
            raise ValueError("only upwards")
        return self.count + plus

    @workflow.update("count")
    def on_count(self, by: int) -> int:
        """Count, but only upwards."""
        if by < 0:
            raise ValueError("only upwards")
        self.count += by
        return self.count

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.wait_condition(lambda: self.count > 100, key="enough")
        return self.count


@activity.defn(name="double")
def double(value: int) -> int:
    """Twice the value."""
    return value * 2


def unique() -> str:
    """A name of one test alone."""
    return f"s-{uuid.uuid4().hex[:12]}"


async def test_a_workflow_gets_the_result_of_the_run_that_serves_its_call(site: Site) -> None:
    queue = unique()
    await site.add("greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": queue})
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "greet", "ada"]
    )
    async with worker_on(site.worker, queue, [Caller, Greeting]):
        assert await site.control.get_result(handle, timeout=60) == ["completed", "hello ada"]
    assert handle.run_id is not None
    started, completed = await site.events(queue, handle.run_id)
    assert (started["event_type"], completed["event_type"]) == ("ServiceCallStarted", "ServiceCallCompleted")
    assert completed["payload"]["resolved_binding_kind"] == "workflow_run"
    assert completed["payload"]["linked_workflow_instance_id"] == f"service-call-{handle.run_id}.v2"


async def test_the_failure_of_the_serving_run_is_raised_in_the_caller(site: Site) -> None:
    queue = unique()
    await site.add("greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": queue})
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "greet", "nobody"]
    )
    async with worker_on(site.worker, queue, [Caller, Greeting]):
        result = await site.control.get_result(handle, timeout=60)
    assert result[:2] == ["failed", "handler_failed"]
    assert "nobody to greet" in result[3]


async def test_an_operation_that_is_not_catalogued_fails_the_call(site: Site) -> None:
    queue = unique()
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "nothing", 1]
    )
    async with worker_on(site.worker, queue, [Caller]):
        result = await site.control.get_result(handle, timeout=60)
    assert result[:3] == ["failed", "rejected_not_found", "operation_not_found"]


async def test_an_async_call_resumes_its_workflow_when_it_is_accepted(site: Site) -> None:
    queue = unique()
    await site.add(
        "greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": f"{queue}-nobody"}
    )
    handle = await site.control.start_workflow(
        workflow_type="starter", workflow_id=queue, task_queue=queue, input=[site.endpoint]
    )
    async with worker_on(site.worker, queue, [Starter]):
        assert await site.control.get_result(handle, timeout=60) == ["accepted", True]


async def test_an_http_target_serves_a_call_and_is_tried_again(site: Site) -> None:
    queue = unique()
    site.target.handlers["double"] = lambda value: value * 2
    site.target.statuses = [503, 200]
    await site.add(
        "double",
        "invocable_http",
        handler_target_reference=site.target.url,
        retry_policy={"max_attempts": 3, "backoff_seconds": [0]},
    )
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "double", 21]
    )
    async with worker_on(site.worker, queue, [Caller]):
        assert await site.control.get_result(handle, timeout=60) == ["completed", 42]
    keys = {request["task"]["idempotency_key"] for request in site.target.requests}
    assert [request["task"]["attempt"] for request in site.target.requests] == [1, 2]
    assert keys == {f"{handle.run_id}.v2"}


async def test_a_worker_with_an_empty_cache_replays_a_call_in_the_middle(site: Site) -> None:
    queue = unique()
    await site.add(
        "greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": f"{queue}-later"}
    )
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "greet", "eve"]
    )
    assert handle.run_id is not None
    run_id = handle.run_id

    async def has_started() -> bool:
        return bool(await site.events(queue, run_id))

    async with worker_on(site.worker, queue, [Caller]):
        await eventually(has_started, "the call has started", 30)
    async with worker_on(site.worker, f"{queue}-later", [Greeting]), worker_on(site.worker, queue, [Caller]):
        assert await site.control.get_result(handle, timeout=60) == ["completed", "hello eve"]


async def test_an_application_executes_operations_once_per_key(site: Site) -> None:
    queue = unique()
    await site.add("greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": queue})
    async with worker_on(site.worker, queue, [Greeting]):
        first = await site.control.execute_nexus_operation(
            site.endpoint, "desk", "greet", ["bob"], idempotency_key="one"
        )
        again = await site.control.execute_nexus_operation(
            site.endpoint, "desk", "greet", ["somebody else"], idempotency_key="one"
        )
    assert (first.status, first.result) == ("completed", "hello bob")
    assert (again.service_call_id, again.result) == (first.service_call_id, "hello bob")
    assert again.response_or_failure_surface["idempotent_replay"] is True


async def test_a_signal_operation_reaches_the_workflow_that_the_caller_names(site: Site) -> None:
    queue = unique()
    await site.add("tell", "signal_workflow", handler_target_reference="tell")
    handle = await site.control.start_workflow(workflow_type="listener", workflow_id=queue, task_queue=queue)
    async with worker_on(site.worker, queue, [Listener]):
        done = await site.control.execute_nexus_operation(
            site.endpoint, "desk", "tell", ["news"], target_workflow_instance_id=queue
        )
        assert (done.status, done.result) == ("completed", None)
        assert await site.control.get_result(handle, timeout=60) == ["news"]


async def test_an_update_operation_answers_with_what_the_update_returns(site: Site) -> None:
    queue = unique()
    await site.add("count", "update_workflow", handler_binding={"update_name": "count", "workflow_id": queue})
    await site.control.start_workflow(workflow_type="counter", workflow_id=queue, task_queue=queue)
    async with worker_on(site.worker, queue, [Counter]):
        done = await site.control.execute_nexus_operation(site.endpoint, "desk", "count", [4])
        assert (done.status, done.result) == ("completed", 4)
        with pytest.raises(NexusOperationFailed) as failed:
            await site.control.execute_nexus_operation(site.endpoint, "desk", "count", [-1])
    assert "only upwards" in str(failed.value)


async def test_a_query_operation_answers_with_what_the_workflow_says(site: Site) -> None:
    queue = unique()
    await site.add("ask", "query_workflow", handler_binding={"query_name": "counted", "workflow_id": queue})
    await site.add("tell_me", "query_workflow", handler_target_reference="no_such_query")
    await site.control.start_workflow(workflow_type="counter", workflow_id=queue, task_queue=queue)
    async with worker_on(site.worker, queue, [Counter, Caller]):
        assert (
            await site.control.update_workflow(queue, "count", args=[3], wait_for="completed", wait_timeout_seconds=30)
        )["result"] == 3
        done = await site.control.execute_nexus_operation(site.endpoint, "desk", "ask", [4])
        assert (done.status, done.result) == ("completed", 7)
        asked = await site.control.start_workflow(
            workflow_type="caller", workflow_id=f"{queue}-caller", task_queue=queue, input=[site.endpoint, "ask", 39]
        )
        assert await site.control.get_result(asked, timeout=60) == ["completed", 42]
        assert asked.run_id is not None
        events = await site.events(asked.workflow_id, asked.run_id)
        assert [event["event_type"] for event in events] == ["ServiceCallStarted", "ServiceCallCompleted"]
        assert events[1]["payload"]["resolved_binding_kind"] == "workflow_query"
        with pytest.raises(NexusOperationFailed) as failed:
            await site.control.execute_nexus_operation(site.endpoint, "desk", "ask", [-1])
        with pytest.raises(NexusOperationFailed) as unknown:
            await site.control.execute_nexus_operation(
                site.endpoint, "desk", "tell_me", target_workflow_instance_id=queue
            )
    assert "only upwards" in str(failed.value)
    assert unknown.value.outcome == "handler_failed"
    with pytest.raises(NexusOperationFailed) as missing:
        await site.control.execute_nexus_operation(
            site.endpoint, "desk", "tell_me", target_workflow_instance_id=f"{queue}-none"
        )
    assert missing.value.reason == "instance_not_found"


async def test_a_query_operation_is_tried_again_until_a_worker_is_there(site: Site) -> None:
    queue = unique()
    await site.add(
        "ask",
        "query_workflow",
        handler_binding={"query_name": "counted", "workflow_id": queue},
        retry_policy={"max_attempts": 10, "backoff_seconds": [1]},
    )
    await site.control.start_workflow(workflow_type="counter", workflow_id=queue, task_queue=queue)
    waiting = asyncio.ensure_future(site.control.execute_nexus_operation(site.endpoint, "desk", "ask", [4]))
    try:
        async with worker_on(site.worker, queue, [Counter]):
            done = await waiting
    finally:
        waiting.cancel()
    assert (done.status, done.result) == ("completed", 4)


async def test_an_activity_operation_answers_with_the_result_of_the_activity(site: Site) -> None:
    queue = unique()
    await site.add("double", "activity_execution", handler_binding={"activity_type": "double", "task_queue": queue})
    handle = await site.control.start_workflow(
        workflow_type="caller", workflow_id=queue, task_queue=queue, input=[site.endpoint, "double", 21]
    )
    async with worker_on(site.worker, queue, [Caller], [double]):
        assert await site.control.get_result(handle, timeout=60) == ["completed", 42]


async def test_a_cancelled_call_cancels_its_run_and_ends_once(site: Site) -> None:
    queue = unique()
    await site.add("greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": queue})
    started = await site.control.execute_nexus_operation(
        site.endpoint, "desk", "greet", ["late"], mode="async", idempotency_key=queue
    )
    path = f"/service-endpoints/{site.endpoint}/services/desk/operations/greet/service-calls/{started.service_call_id}"

    async def is_linked() -> bool:
        return bool((await site.control._request("GET", path))["status"] == "started")

    await eventually(is_linked, "a run answers the call", 30)
    cancelled = await site.control._request("POST", f"{path}/cancel", json={"reason": "not needed"})
    assert (cancelled["status"], cancelled["outcome"], cancelled["found"]) == ("cancelled", "cancelled", True)
    described = await site.control.describe_workflow(cancelled["linked_workflow_instance_id"])
    assert described.status == "cancelled"


async def test_calls_across_namespaces_need_a_policy_that_lets_them_in(site: Site) -> None:
    await site.add("tell", "signal_workflow", handler_target_reference="tell")
    with pytest.raises(NexusOperationFailed) as blocked:
        await site.control.execute_nexus_operation(
            site.endpoint, "desk", "tell", caller_namespace="elsewhere", target_workflow_instance_id="x"
        )
    assert (blocked.value.outcome, blocked.value.reason) == ("rejected_forbidden", "cross_namespace_blocked")


@workflow.defn(name="impatient")
class Impatient:
    """Waits a second for a call, and asks no more of it."""

    def run(self, ctx: WorkflowContext, endpoint: str) -> Steps:
        try:
            yield ctx.call_nexus_service(endpoint, "desk", "greet", ["late"], wait_timeout_seconds=1)
        except NexusOperationFailed as failed:
            return failed.outcome


async def test_a_workflow_that_has_waited_long_enough_is_told(site: Site) -> None:
    queue = unique()
    await site.add("greet", "start_workflow", handler_binding={"workflow_type": "greeting", "task_queue": "nobody"})
    handle = await site.control.start_workflow(
        workflow_type="impatient", workflow_id=queue, task_queue=queue, input=[site.endpoint]
    )
    async with worker_on(site.worker, queue, [Impatient]):
        assert await site.control.get_result(handle, timeout=60) == "timed_out"


async def test_a_failure_whose_text_no_column_holds_is_told_all_the_same(site: Site) -> None:
    def fail() -> None:
        raise RuntimeError("a\0b")

    site.target.handlers["fail"] = fail
    await site.add("fail", "invocable_http", handler_target_reference=site.target.url)
    with pytest.raises(NexusOperationFailed) as failed:
        await site.control.execute_nexus_operation(site.endpoint, "desk", "fail")
    assert str(failed.value) == "ab"


async def test_a_call_that_takes_too_long_times_out(site: Site) -> None:
    released = asyncio.Event()

    async def wait() -> None:
        await released.wait()

    site.target.handlers["slow"] = wait
    await site.add(
        "slow",
        "invocable_http",
        handler_target_reference=site.target.url,
        deadline_policy={"request_timeout_seconds": 1},
    )
    with pytest.raises(NexusOperationFailed) as late:
        await site.control.execute_nexus_operation(site.endpoint, "desk", "slow")
    assert late.value.outcome == "timed_out"
    released.set()
