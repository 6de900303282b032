"""Health, bounded metrics and operator metrics of a namespace."""

from __future__ import annotations

from typing import Any

from dw_core.discovery.coordination import CHECKS
from tests.contract.worker.client import COMPLETE, Client
from tests.harness.worker_plane import ServedPlane, worker_plane

SECTIONS = {
    "runs", "tasks", "activities", "backlog", "repair", "starts", "history", "command_contracts", "projections",
    "schedules", "workers", "backend", "structural_limits", "update_wait", "repair_policy", "matching_role",
}  # fmt: skip


async def read(client: Client, path: str) -> dict[str, Any]:
    answer = await client.control("GET", path)
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def test_operator_metrics_count_runs_and_tasks(client: Client, served: ServedPlane) -> None:
    await client.register()
    for number in range(4):
        await client.start(f"w-{number}")
    await client.complete(await client.take(), COMPLETE)
    await client.take()
    await client.control("POST", "/workflows/w-3/terminate", {})
    body = await read(client, "/system/operator-metrics")
    metrics = body["operator_metrics"]
    assert body["namespace"] == served.namespace
    assert metrics.keys() >= SECTIONS | {"generated_at"}
    runs, tasks = metrics["runs"], metrics["tasks"]
    assert {name: runs[name] for name in ("total", "current", "running", "completed", "terminated", "failed")} == {
        "total": 4,
        "current": 4,
        "running": 2,
        "completed": 1,
        "terminated": 1,
        "failed": 0,
    }
    assert (tasks["open"], tasks["ready"], tasks["leased"]) == (2, 1, 1)
    assert metrics["starts"]["pending_runs"] >= 1
    assert metrics["workers"]["active_workers"] >= 1


async def test_health_has_every_check_with_what_it_has_counted(client: Client) -> None:
    health = (await read(client, "/system/health"))["health"]
    assert [check["name"] for check in health["checks"]] == list(CHECKS)
    assert all(check["data"] for check in health["checks"])
    assert health["healthy"] is (health["status"] != "error")
    assert health.keys() >= {"generated_at", "categories", "operator_metrics", "structural_limits", "routing_drains"}


async def test_task_failures_are_listed_for_a_bounded_number_of_types(database_url: str, unique_namespace: str) -> None:
    environ = {"DW_METRICS_WORKFLOW_TASK_FAILURE_TYPE_LIMIT": "1"}
    async with worker_plane(database_url, unique_namespace, environ) as served:
        client = Client(served)
        await client.register()
        for workflow_type in ("a", "b"):
            await client.start(workflow_type, workflow_type=workflow_type)
            task = await client.take()
            failure = {"message": "boom", "type": "RuntimeError"}
            body = {"lease_owner": "w-1", "workflow_task_attempt": task["workflow_task_attempt"], "failure": failure}
            assert (await client.post(f"/workflow-tasks/{task['task_id']}/fail", body)).status == 200
        for method in ("GET", "POST"):
            answer = await client.control(method, "/system/metrics")
            metric = answer.json["metrics"]["dw_workflow_task_consecutive_failures"]
            assert (metric["workflow_type_count"], len(metric["by_workflow_type"])) == (2, 1)
            assert (metric["workflow_types_truncated"], metric["suppressed_failed_task_count"]) == (True, 1)
            assert answer.json["metrics"]["dw_projection_drift_total"]["total"] == 0
            labels = answer.json["cardinality"]["metric_label_sets"]
            assert labels.keys() == answer.json["metrics"].keys()
