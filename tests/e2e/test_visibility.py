"""Listings, search attributes and archiving through the clients of the published SDK, with real workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest
from durable_workflow import Client, sync, workflow
from durable_workflow.errors import InvalidArgument, ServerError
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Planes, Working
from tests.harness.servers import TOKEN
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]


@workflow.defn(name="searched")
class Searched:
    """Sets attributes before and after a signal."""

    def __init__(self) -> None:
        self.is_told = False

    @workflow.signal("go")
    def on_go(self) -> None:
        """Go on."""
        self.is_told = True

    def run(self, ctx: WorkflowContext, amount: float) -> Steps:
        yield ctx.upsert_search_attributes({"Stage": "begun", "Amount": amount})
        yield ctx.wait_condition(lambda: self.is_told, key="told")
        yield ctx.upsert_search_attributes({"Stage": "done", "Amount": None})
        return amount


@pytest.fixture
async def attributes(client: Client) -> AsyncIterator[None]:
    """The attributes of these tests, registered once for the namespace of all of them."""
    for name, kind in (("Stage", "keyword"), ("Amount", "double"), ("Customer", "keyword")):
        try:
            made = await client.create_search_attribute(name, kind)
            assert made == {"name": name, "type": kind, "outcome": "created"}
        except ServerError as error:
            assert error.reason() == "attribute_already_exists"
    yield


async def found(client: Client, query: str) -> list[str]:
    """Every workflow id that a query finds, page by page."""
    ids: list[str] = []
    token: str | None = None
    while True:
        page = await client.list_workflows(query=query, page_size=2, next_page_token=token)
        ids += [execution.workflow_id for execution in page.executions]
        token = page.next_page_token
        if token is None:
            return ids


@pytest.mark.usefixtures("attributes")
async def test_runs_are_found_by_what_their_code_sets(client: Client, queue: str, working: Working) -> None:
    ids = [f"{queue}-{n}" for n in range(3)]
    for n, workflow_id in enumerate(ids):
        await client.start_workflow(
            workflow_type="searched",
            workflow_id=workflow_id,
            task_queue=queue,
            input=[n * 10.5],
            search_attributes={"Customer": f"{queue}-{n % 2}"},
        )
    assert await found(client, f'Customer = "{queue}-0"') == [ids[2], ids[0]]
    async with working([Searched]):

        async def all_begun() -> bool:
            return await found(client, f'TaskQueue = "{queue}" AND Stage = begun') == ids[::-1]

        await eventually(all_begun, "every run is found by its stage")
        assert await found(client, f'TaskQueue = "{queue}" AND Amount > 0 AND Amount <= 10.5') == [ids[1]]
    async with working([Searched]):  # a worker with an empty cache goes on
        for workflow_id in ids[:2]:
            handle = client.get_workflow_handle(workflow_id)
            await handle.signal("go")
            await client.get_result(handle, timeout=30)
    assert await found(client, f'TaskQueue = "{queue}" AND Stage = done AND Status = completed') == [ids[1], ids[0]]
    assert await found(client, f'TaskQueue = "{queue}" AND Amount >= 0') == [ids[2]]
    assert await found(client, f'TaskQueue = "{queue}" AND Status = running OR WorkflowId = "{ids[0]}"') == [
        ids[2],
        ids[0],
    ]
    with pytest.raises(InvalidArgument):
        await client.list_workflows(query="Stage >= begun")


async def test_attributes_are_defined(client: Client, planes: Planes, queue: str) -> None:
    name = f"A{queue[2:]}"
    await client.create_search_attribute(name, "datetime")
    assert (await client.list_search_attributes()).custom_attributes[name] == "datetime"
    assert (await client.delete_search_attribute(name))["outcome"] == "deleted"

    await client.create_search_attribute(name, "keyword_list")
    await client.delete_search_attribute(name)

    def blocking() -> None:
        with sync.Client(planes.control.url, token=TOKEN) as other:
            assert other.list_workflows(query=f'WorkflowId = "{queue}"').executions == []

    await asyncio.to_thread(blocking)


async def test_a_closed_run_is_archived(client: Client, planes: Planes, queue: str) -> None:
    await client.start_workflow(workflow_type="searched", workflow_id=queue, task_queue=queue)
    with pytest.raises(ServerError) as refused:
        await client.archive_workflow(queue)
    assert refused.value.reason() == "run_not_closed"
    await client.terminate_workflow(queue)
    assert (await client.archive_workflow(queue, reason="audit")).outcome == "archived"
    assert (await client.get_workflow_handle(queue).archive()).outcome == "archive_not_needed"

    def blocking() -> None:
        with sync.Client(planes.control.url, token=TOKEN) as other:
            assert other.archive_workflow(queue).outcome == "archive_not_needed"

    await asyncio.to_thread(blocking)
    assert (await client.describe_workflow(queue)).status == "terminated"
    assert (await client.list_workflow_runs(queue)).run_count == 1
