"""Have the clock start a workflow every second, three times. Needs a server: `make dev` in another terminal."""

from __future__ import annotations

import asyncio
import uuid

from durable_workflow import Client, ScheduleAction, ScheduleSpec, Worker, workflow
from durable_workflow.errors import ScheduleNotFound
from durable_workflow.workflow import WorkflowContext
from local_server import run


@workflow.defn(name="report")
class Report:
    def run(self, ctx: WorkflowContext, region: str) -> str:
        return f"Report of {region}"


async def main(client: Client, worker_client: Client) -> None:
    worker = Worker(worker_client, task_queue="reports", workflows=[Report], activities=[])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        schedule = await client.create_schedule(
            schedule_id=f"every-second-{uuid.uuid4().hex[:8]}",
            spec=ScheduleSpec(intervals=[{"every": "PT1S"}]),
            action=ScheduleAction("report", task_queue="reports", input=["eu"]),
            overlap_policy="allow_all",
            max_runs=3,
        )
        while True:
            try:
                await schedule.describe()
            except ScheduleNotFound:  # its three runs have been started; its history stays
                break
            await asyncio.sleep(0.5)
        async for event in schedule.iter_history():
            if event.event_type == "ScheduleTriggered" and event.workflow_instance_id is not None:
                print(await client.get_workflow_handle(event.workflow_instance_id).result())
        await worker.stop()


if __name__ == "__main__":
    run(main)
