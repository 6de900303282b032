"""What a process of the worker plane samples for the whole deployment, as a scrape sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dw_runtime.telemetry.metrics import Metrics
from dw_runtime.telemetry.sampled import QueueSample
from tests.contract.worker.client import QUEUE, Client
from tests.harness.worker_plane import ServedPlane, worker_plane

ALL_QUEUES = {"DW_METRICS_PROMETHEUS_TASK_QUEUE_SERIES_LIMIT": "10000"}


@pytest.fixture
async def served(database_url: str, unique_namespace: str) -> AsyncIterator[ServedPlane]:
    """A plane that leaves none of the queues of all tests out."""
    async with worker_plane(database_url, unique_namespace, ALL_QUEUES) as started:
        yield started


def sampled(client: Client, name: str, **labels: str) -> float | None:
    """The value of one series, or None."""
    value: float | None = client.served.plane.node.metrics.registry.get_sample_value(name, labels)
    return value


def queue_labels(client: Client, kind: str = "workflow_task") -> dict[str, str]:
    return {"workflow_namespace": client.served.namespace, "task_queue": QUEUE, "kind": kind}


async def test_waiting_and_held_tasks_of_a_queue_show_with_the_age_of_the_oldest(client: Client) -> None:
    for number in range(3):
        await client.start(f"w-{number}")
    await client.take()
    await client.served.execute(
        "UPDATE workflow_tasks SET available_at = dw_now() - interval '90 seconds' WHERE namespace = %s AND state = 0",
        client.served.namespace,
    )
    await client.served.plane.sampling.sample()
    labels = queue_labels(client)
    assert sampled(client, "dw_task_queue_ready_tasks", **labels) == 2
    assert sampled(client, "dw_task_queue_leased_tasks", **labels) == 1
    assert 90 <= (sampled(client, "dw_task_queue_oldest_ready_seconds", **labels) or 0) < 120


async def test_a_queue_without_tasks_has_no_series_any_more(client: Client) -> None:
    await client.start()
    await client.served.plane.sampling.sample()
    assert sampled(client, "dw_task_queue_ready_tasks", **queue_labels(client)) == 1
    answer = await client.complete(await client.take(), {"type": "complete_workflow"})
    assert answer.status == 200, answer.json
    await client.served.plane.sampling.sample()
    assert sampled(client, "dw_task_queue_ready_tasks", **queue_labels(client)) is None


async def test_runs_that_nobody_can_replay_and_late_deadlines_are_counted(client: Client) -> None:
    run_id = await client.start()
    await client.served.execute("UPDATE workflow_runs SET replay_blocked = true WHERE run_id = %s", run_id)
    await client.start("failing")
    await client.served.execute(
        "UPDATE workflow_tasks SET attempt = 5, sweep_at = dw_now() - interval '40 seconds' WHERE namespace = %s",
        client.served.namespace,
    )
    await client.served.plane.sampling.sample()
    assert (sampled(client, "dw_stuck_runs", reason="replay_blocked") or 0) >= 1
    assert (sampled(client, "dw_stuck_runs", reason="task_failing") or 0) >= 1
    assert (sampled(client, "dw_overdue_seconds", what="task_deadline") or 0) >= 40


@pytest.mark.parametrize(("queues", "left_out"), [(2, 0.0), (3, 1.0)])
def test_no_more_queues_than_the_limit_have_series(queues: int, left_out: float) -> None:
    metrics = Metrics()
    samples = [
        QueueSample(namespace="n", queue=f"q{number}", kind=0, ready=1, leased=0, oldest_ready_seconds=1.0, failing=0)
        for number in range(queues)
    ]
    metrics.sampled.set_queues(samples, limit=2)
    series: list[Any] = [
        sample
        for family in metrics.registry.collect()
        if family.name == "dw_task_queue_ready_tasks"
        for sample in family.samples
    ]
    assert len(series) == 2
    assert metrics.registry.get_sample_value("dw_task_queues_left_out") == left_out
    metrics.sampled.clear()
    assert metrics.registry.get_sample_value("dw_task_queue_ready_tasks", series[0].labels) is None
