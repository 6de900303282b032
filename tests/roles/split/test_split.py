"""A workflow across processes that share nothing but the stores."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane
from tests.harness.servers import TOKEN
from tests.harness.wire import wired
from tests.roles.split.conftest import Split

HI_BOB = {"codec": "avro", "blob": "wwHioz3/VYAiNwoMaGkgYm9i"}


@activity.defn(name="double")
def double(number: int) -> int:
    return 2 * number


@workflow.defn(name="chain")
class Chain:
    def run(self, ctx: WorkflowContext, number: int) -> Generator[Any, Any, Any]:
        for _ in range(3):
            number = yield ctx.schedule_activity("double", [number])
        return sum((yield [ctx.schedule_activity("double", [number]) for _ in range(4)]))


async def test_workers_that_point_at_matching_complete_what_applications_start(split: Split, queue: str) -> None:
    async with (
        Client(split.ingress.url, token=TOKEN) as application,
        Client(split.matching[0].url, token=TOKEN) as one,
        Client(split.matching[1].url, token=TOKEN) as other,
    ):
        workers = [
            Worker(one, task_queue=queue, workflows=[Chain]),
            Worker(other, task_queue=queue, workflows=[], activities=[double]),
        ]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        handle = await application.start_workflow(workflow_type="chain", workflow_id=queue, task_queue=queue, input=[1])
        assert await application.get_result(handle, poll_interval=0.05) == 4 * 16
        await asyncio.gather(*(worker.stop() for worker in workers))
        await asyncio.gather(*running)


async def test_what_one_process_leases_another_completes(split: Split, queue: str) -> None:
    first, second = split.matching
    async with wired(split.ingress.url) as application, wired(first.url) as one, wired(second.url) as other:
        body = {"workflow_id": queue, "workflow_type": "raw", "task_queue": queue}
        run_id = (await application.control("POST", "/workflows", body)).json()["run_id"]
        await one.register("w-1", queue)
        task = await one.poll("workflow", "w-1", queue, poll_request_id="poll-1")
        assert task is not None
        again = await other.poll("workflow", "w-1", queue, poll_request_id="poll-1")
        assert again == task
        done = await other.complete(task, {"type": "complete_workflow", "result": HI_BOB})
        assert (done.status_code, done.json()["run_status"]) == (200, "completed")
        repeated = await one.complete(task, {"type": "complete_workflow", "result": HI_BOB})
        assert (repeated.status_code, repeated.json()) == (200, done.json())
        events = await application.events(queue, run_id)
        assert [event["event_type"] for event in events].count("WorkflowCompleted") == 1


async def test_a_start_wakes_a_poll_of_another_process(split: Split, queue: str) -> None:
    async with wired(split.ingress.url) as application, wired(split.matching[1].url) as workers:
        await workers.register("w-1", queue)
        poll = asyncio.create_task(workers.poll("workflow", "w-1", queue, timeout_seconds=60))
        body = {"workflow_id": queue, "workflow_type": "raw", "task_queue": queue}
        assert (await application.control("POST", "/workflows", body)).status_code == 201
        task = await poll
        assert task is not None
        assert task["workflow_id"] == queue


@pytest.mark.parametrize("command", ["ingress", "matching", "scheduler"])
async def test_every_process_refuses_what_it_does_not_host(split: Split, command: str) -> None:
    server = split.matching[0] if command == "matching" else getattr(split, command)
    async with wired(server.url) as wire:
        for route in ROUTES:
            if route.plane is Plane.DISCOVERY or not route.version_gate:
                continue
            is_worker = route.plane is Plane.WORKER
            is_hosted = is_worker if command == "matching" else command == "ingress" and not is_worker
            path = route.path.replace("{", "").replace("}", "").removeprefix("/api/worker" if is_worker else "/api")
            answer = await (wire.worker if is_worker else wire.control)(route.method, path)
            reason = answer.json().get("reason")
            assert (reason == "topology_role_unavailable") is not is_hosted, (route.name, reason)
            if not is_hosted:
                assert answer.status_code == 503
                assert answer.json()["required_roles"] == list(route.required_roles)


async def test_every_process_describes_its_own_place(split: Split) -> None:
    expected = {
        split.ingress: ("control_plane_node", ["api_ingress", "control_plane", "history_projection"]),
        split.matching[0]: ("matching_node", ["matching"]),
        split.scheduler: ("scheduler_node", ["scheduler"]),
    }
    for server, (process_class, roles) in expected.items():
        async with wired(server.url) as wire:
            topology = (await wire.control("GET", "/cluster/info")).json()["topology"]
        assert topology["current_shape"] == "split_control_execution"
        assert (topology["current_process_class"], topology["current_roles"]) == (process_class, roles)
