"""One trace from the application through the server to the workers, with the published client and worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.telemetry import ExecutionTelemetry
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.e2e.test_activity_lease_renewal import SHAPES
from tests.harness.collector import Collector, collecting
from tests.harness.servers import TOKEN, serving
from tests.harness.waiting import eventually


@activity.defn(name="traced-step")
def step(number: int) -> int:
    return number + 1


@workflow.defn(name="traced-child")
class Child:
    def run(self, ctx: Any) -> Generator[Any, Any, Any]:
        return (yield ctx.schedule_activity("traced-step", [1]))


@workflow.defn(name="traced")
class Parent:
    def run(self, ctx: Any) -> Generator[Any, Any, Any]:
        return (yield ctx.start_child_workflow("traced-child", []))


TOPOLOGY = {"standalone": "standalone_server", "split": "split_control_execution"}


@asynccontextmanager
async def traced_servers(
    name: str, folder: Path, new_database: NewDatabase, redis_url: str
) -> AsyncIterator[tuple[str, str, Collector]]:
    """The URLs of both planes of a server that sends its spans, and where they come in."""
    async with collecting() as collector:
        with new_database("tracing") as url:
            environ = {
                "DATABASE_URL": url,
                "REDIS_URL": redis_url,
                "DW_SERVER_TOPOLOGY_SHAPE": TOPOLOGY[name],
                "DW_TRACING_ENABLED": "true",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            }
            with serving(folder, environ, *SHAPES[name]) as servers:
                yield servers[0].url, servers[-2].url, collector


class Traced:
    """What the application and the workers have traced."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = ExecutionTelemetry(tracer_provider=self.provider)

    def spans(self) -> list[ReadableSpan]:
        """The spans of workflow tasks and activities."""
        names = ("durable.workflow.task", "durable.activity.task")
        return [span for span in self.exporter.get_finished_spans() if span.name in names]


@pytest.mark.parametrize("name", SHAPES)
async def test_spans_of_workers_join_the_trace_of_who_started_the_workflow(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    traced = Traced()
    async with traced_servers(name, tmp_path, new_database, redis_url) as (control, plane, collector):
        async with (
            Client(control, token=TOKEN, telemetry=traced.telemetry) as client,
            Client(plane, token=TOKEN) as connection,
            worker_on(connection, queue, [Parent, Child], [step], interceptors=[traced.telemetry]),
        ):
            await client.get_cluster_info()
            with traced.provider.get_tracer("test").start_as_current_span("application") as application:
                handle = await client.start_workflow(workflow_type="traced", workflow_id=f"t-{queue}", task_queue=queue)
            assert await handle.result(timeout=30) == 2
        spans = traced.spans()
        handed_out = {f"{link.context.span_id:016x}" for span in spans for link in span.links}

        async def have_come() -> bool:
            polls = {span.span_id.hex() for _, span in collector.spans if span.name.endswith("-tasks/poll")}
            return handed_out <= polls and bool(collector.named("pump StartWorkflow"))

        await eventually(have_come, "the spans that have handed the tasks out have come", 15)
    assert sorted(span.name for span in spans).count("durable.activity.task") == 1
    assert len(spans) >= 5
    assert {span.context.trace_id for span in spans} == {application.get_span_context().trace_id}
    assert all(len(span.links) == 1 for span in spans)
    ((_, start),) = collector.named("pump StartWorkflow")
    assert [link.span_id.hex() for link in start.links] == [f"{application.get_span_context().span_id:016x}"]


async def test_a_start_is_one_trace_from_its_caller_to_the_commit(
    tmp_path: Path, new_database: NewDatabase, redis_url: str
) -> None:
    trace_id, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with traced_servers("split", tmp_path, new_database, redis_url) as (control, _, collector):
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "x-durable-workflow-control-plane-version": "2",
            "traceparent": f"00-{trace_id}-{caller}-01",
        }
        async with aiohttp.ClientSession() as session:
            body = {"workflow_type": "t", "workflow_id": "w", "task_queue": "q"}
            async with session.post(f"{control}/api/workflows", json=body, headers=headers) as answer:
                assert answer.status == 201

        async def have_come() -> bool:
            return bool(collector.find(trace_id, "commit")) and bool(collector.find(trace_id, "POST /api/workflows"))

        await eventually(have_come, "the spans of the start have come", 15)
    ((service, served),) = collector.find(trace_id, "POST /api/workflows")
    assert service == "dw-api-ingress"
    ((_, decided),) = collector.find(trace_id, "pump StartWorkflow")
    ((_, batch),) = collector.find(trace_id, "pump batch")
    ((_, commit),) = collector.find(trace_id, "commit")
    assert served.parent_span_id.hex() == caller
    assert decided.parent_span_id == served.span_id
    assert batch.parent_span_id == decided.span_id
    assert commit.parent_span_id == batch.span_id
