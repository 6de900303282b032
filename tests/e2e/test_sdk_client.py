"""The published SDK's client, method by method: what operators and applications call, and what a worker is made of."""

from __future__ import annotations

import asyncio
import inspect
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, WorkflowStreamAppendItem, sync
from durable_workflow.errors import UpdateRejected
from durable_workflow.worker_session import WorkerSessionOptions

from tests.e2e.conftest import Planes
from tests.harness.servers import TOKEN

UNADVERTISED = {
    "cancellation_scope_boundary_on_claim", "open_cancellation_scope_on_claim", "prepared_local_activity_operation",
    "deregister_worker_registration", "query_task_status",
}  # fmt: skip
"""Methods of what this server does not advertise."""
LOCAL = {"aclose", "close", "tls_context"}
"""Methods that send nothing."""
WORKER = "raw-worker"


@pytest.fixture
async def worker(planes: Planes) -> AsyncIterator[Client]:
    """The worker's side of a client."""
    async with Client(planes.worker.url, token=TOKEN) as client:
        yield client


def public(kind: type[Any]) -> set[str]:
    """The public methods of a client."""
    return {name for name, member in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_every_method_of_the_clients_is_called_by_some_end_to_end_test() -> None:
    text = "\n".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    called = set(re.findall(r"\.(\w+)\(", text))
    wanted = (public(Client) | public(sync.Client)) - UNADVERTISED - LOCAL
    assert wanted - called == set()


async def test_namespaces_are_managed(client: Client) -> None:
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    made = await client.create_namespace(name, description="Billing", retention_days=7)
    assert (made.name, made.retention_days) == (name, 7)
    assert (await client.update_namespace(name, retention_days=9)).retention_days == 9
    assert (await client.describe_namespace(name)).description == "Billing"
    assert name in {namespace.name for namespace in (await client.list_namespaces()).namespaces}
    assert (await client.delete_namespace(name)).status == "deleted"
    assert name not in {namespace.name for namespace in (await client.list_namespaces()).namespaces}


async def test_operators_look_at_workers_queues_and_retention(client: Client, worker: Client, queue: str) -> None:
    assert (await client.health())["status"] == "serving"
    assert (await client.get_cluster_info())["control_plane"]["version"] == "2"
    worker_id = f"{WORKER}-{queue}"
    await worker.register_worker(
        capability_manifest={}, worker_id=worker_id, task_queue=queue, supported_workflow_types=["order"], build_id="b"
    )
    await worker.heartbeat_worker(worker_id=worker_id, task_slots={"workflow_available": 1})
    assert worker_id in {found.worker_id for found in (await client.list_workers(task_queue=queue)).workers}
    assert (await client.describe_worker(worker_id)).build_id == "b"
    assert queue in {found.name for found in (await client.list_task_queues()).task_queues}
    described = await client.describe_task_queue(queue)
    assert described.admission is not None and described.admission.workflow_tasks is not None
    assert described.admission.workflow_tasks.status == "accepting"
    assert (await client.promote_task_queue_build_id(queue, "b")).new_start_selected
    assert (await client.drain_task_queue_build_id(queue, "b")).drain_intent == "draining"
    assert (await client.resume_task_queue_build_id(queue, "b")).drain_intent == "active"
    (cohort,) = (await client.list_task_queue_build_ids(queue)).build_ids
    assert cohort.new_start_selected
    assert (await client.retention_status())["retention_days"] == 30
    assert (await client.retention_pass(limit=1))["failed"] == 0
    assert (await client.repair_status())["policy"]["scan_limit"] == 25
    assert "repaired_existing_tasks" in await client.repair_pass()
    assert (await client.activity_timeout_status())["scan_limit"] >= 1
    assert (await client.activity_timeout_pass(limit=1))["failed"] == 0
    await client.deregister_worker(worker_id)


async def test_a_worker_made_of_single_calls_runs_a_workflow(client: Client, worker: Client, queue: str) -> None:
    owner = f"{WORKER}-{queue}"
    kinds: dict[str, Any] = {"supported_workflow_types": ["order"], "supported_activity_types": ["charge"]}
    await worker.register_worker(capability_manifest={}, worker_id=owner, task_queue=queue, **kinds)
    handle = await client.start_workflow(workflow_type="order", task_queue=queue, workflow_id=f"w-{queue}", input=[1])
    response = await worker.poll_workflow_task_response(worker_id=owner, task_queue=queue, timeout=10)
    task = response["task"]
    held: dict[str, Any] = {"task_id": task["task_id"], "lease_owner": owner}
    held |= {"workflow_task_attempt": task["workflow_task_attempt"]}
    await worker.heartbeat_workflow_task(**held)
    history = await worker.workflow_task_history(**held, next_history_page_token="MA==")
    assert history["history_events"][0]["event_type"] == "StartAccepted"
    await worker.fail_workflow_task(**held, message="try again")
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=20)
    held = {"task_id": task["task_id"], "lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    await worker.complete_workflow_task(
        **held,
        commands=[
            {"type": "schedule_activity", "activity_type": "charge", "task_queue": queue,
             "retry_policy": {"max_attempts": 2}}
        ],
    )  # fmt: skip
    activity = await worker.poll_activity_task(worker_id=owner, task_queue=queue, timeout=10)
    attempt = {"task_id": activity["task_id"], "activity_attempt_id": activity["activity_attempt_id"]}
    assert (await worker.activity_task_status(**attempt, lease_owner=owner))["can_continue"]
    await worker.heartbeat_activity_task(**attempt, lease_owner=owner, details={"at": 1})
    await worker.renew_activity_task_lease(**attempt, lease_owner=owner)
    await worker.fail_activity_task(**attempt, lease_owner=owner, message="once more")
    activity = await worker.poll_activity_task(worker_id=owner, task_queue=queue, timeout=20)
    attempt = {"task_id": activity["task_id"], "activity_attempt_id": activity["activity_attempt_id"]}
    await worker.complete_activity_task(**attempt, lease_owner=owner, result="paid")
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=10)
    held = {"task_id": task["task_id"], "lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    await worker.complete_workflow_task(**held, commands=[{"type": "complete_workflow", "result": None}])
    assert await handle.result(timeout=10) is None
    (run,) = (await client.list_workflow_runs(handle.workflow_id)).runs
    assert (await client.describe_workflow_run(handle.workflow_id, run.run_id)).status == "completed"
    assert handle.workflow_id in {found.workflow_id for found in (await client.list_workflows()).executions}
    assert (await client.export_history(handle.workflow_id, run.run_id))["schema"]


async def test_queries_and_validations_made_of_single_calls(client: Client, worker: Client, queue: str) -> None:
    owner = f"{WORKER}-{queue}"
    contract = {
        "order": {
            "queries": ["status"],
            "updates": ["rename"],
            "update_validators": ["rename"],
        }
    }
    await worker.register_worker(
        capability_manifest={},
        worker_id=owner,
        task_queue=queue,
        supported_workflow_types=["order"],
        workflow_command_contracts=contract,
        capabilities=["query_tasks", "update_validation_tasks"],
    )
    handle = await client.start_workflow(workflow_type="order", task_queue=queue, workflow_id=f"w-{queue}", input=[])
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=10)
    held: dict[str, Any] = {"lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    wait = {"type": "open_condition_wait", "condition_key": "done"}
    await worker.complete_workflow_task(task_id=task["task_id"], **held, commands=[wait])
    asked = asyncio.create_task(client.query_workflow(handle.workflow_id, "status"))
    query = await worker.poll_query_task(worker_id=owner, task_queue=queue, timeout=10)
    named = {"query_task_id": query["query_task_id"], "lease_owner": owner}
    await worker.complete_query_task(**named, query_task_attempt=query["query_task_attempt"], result="fine")
    assert (await asked)["result"] == "fine"
    asked = asyncio.create_task(client.query_workflow(handle.workflow_id, "status"))
    query = await worker.poll_query_task(worker_id=owner, task_queue=queue, timeout=10)
    named = {"query_task_id": query["query_task_id"], "lease_owner": owner}
    await worker.fail_query_task(**named, query_task_attempt=query["query_task_attempt"], message="no")
    with pytest.raises(Exception, match="no"):
        await asked


async def test_validations_made_of_single_calls(client: Client, worker: Client, queue: str) -> None:
    owner = f"{WORKER}-{queue}"
    await worker.register_worker(
        capability_manifest={},
        worker_id=owner,
        task_queue=queue,
        supported_workflow_types=["order"],
        workflow_command_contracts={"order": {"updates": ["set"], "update_validators": ["set"]}},
        capabilities=["update_validation_tasks"],
    )
    handle = await client.start_workflow(workflow_type="order", task_queue=queue, workflow_id=f"w-{queue}", input=[])
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=10)
    held: dict[str, Any] = {"lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    wait = {"type": "open_condition_wait", "condition_key": "done"}
    await worker.complete_workflow_task(task_id=task["task_id"], **held, commands=[wait])
    asked = asyncio.create_task(client.update_workflow(handle.workflow_id, "set", wait_for="accepted"))
    asks = await worker.poll_update_validation_task(worker_id=owner, task_queue=queue, timeout=10)
    named: dict[str, Any] = {"update_validation_task_id": asks["update_validation_task_id"], "lease_owner": owner}
    attempt = asks["update_validation_attempt"]
    await worker.approve_update_validation_task(**named, update_validation_attempt=attempt)
    assert (await asked)["update_status"] == "accepted"
    asked = asyncio.create_task(client.update_workflow(handle.workflow_id, "set", wait_for="accepted"))
    asks = await worker.poll_update_validation_task(worker_id=owner, task_queue=queue, timeout=10)
    named["update_validation_task_id"] = asks["update_validation_task_id"]
    attempt = asks["update_validation_attempt"]
    await worker.reject_update_validation_task(
        **named, update_validation_attempt=attempt, message="too small", reason="update_rejected"
    )
    with pytest.raises(UpdateRejected, match="too small"):
        await asked


async def test_a_cancellation_made_of_single_calls(client: Client, worker: Client, queue: str) -> None:
    owner = f"{WORKER}-{queue}"
    await worker.register_worker(
        capability_manifest={},
        worker_id=owner,
        task_queue=queue,
        supported_workflow_types=["order"],
        supported_activity_types=["charge"],
        capabilities=["cooperative_cancellation"],
    )
    handle = await client.start_workflow(workflow_type="order", task_queue=queue, workflow_id=f"w-{queue}", input=[])
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=10)
    held: dict[str, Any] = {"lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    charge = {"type": "schedule_activity", "activity_type": "charge", "task_queue": queue}
    await worker.complete_workflow_task(task_id=task["task_id"], **held, commands=[charge])
    activity = await worker.poll_activity_task(worker_id=owner, task_queue=queue, timeout=10)
    asked = await client.request_workflow_cancellation(handle.workflow_id, reason="late")
    request_id = asked["cancellation_request"]["request_id"]
    task = await worker.poll_workflow_task(worker_id=owner, task_queue=queue, timeout=10)
    held = {"task_id": task["task_id"], "lease_owner": owner, "workflow_task_attempt": task["workflow_task_attempt"]}
    await worker.deliver_workflow_cancellation(**held, request_id=request_id, sequence=1, call_kind="activity")
    attempt = {"task_id": activity["task_id"], "activity_attempt_id": activity["activity_attempt_id"]}
    told = await worker.acknowledge_activity_cancellation(**attempt, lease_owner=owner, request_id=request_id)
    assert told["acknowledged"]


async def test_streams_and_repair(client: Client, queue: str) -> None:
    handle = await client.start_workflow(workflow_type="order", task_queue=queue, workflow_id=f"w-{queue}", input=[])
    workflow_id = handle.workflow_id
    (run,) = (await client.list_workflow_runs(workflow_id)).runs
    assert (await client.append_message_stream(workflow_id, "in", "m-1", args=["hello"]))["position"] == 1
    items = [WorkflowStreamAppendItem(payload="one"), WorkflowStreamAppendItem(payload="two")]
    await client.append_workflow_stream(workflow_id, run.run_id, "out", items)
    page = await client.subscribe_workflow_stream(workflow_id, run.run_id, "out")
    assert len(page.items) == 2
    await client.close_workflow_stream(workflow_id, run.run_id, "out")
    (stream,) = await client.list_workflow_streams(workflow_id, run.run_id)
    assert (await client.describe_workflow_stream(workflow_id, run.run_id, "out")).status == stream.status
    assert (await client.repair_workflow(workflow_id)).outcome == "repair_not_needed"
    activity = await client.start_activity(activity_type="charge", task_queue=queue, activity_id=f"a-{queue}")
    assert activity is not None
    assert client.get_activity_handle(f"a-{queue}").activity_id == f"a-{queue}"


async def test_sessions_and_registrations_made_of_single_calls(worker: Client, client: Client, queue: str) -> None:
    owner = f"{WORKER}-{queue}"
    await worker.register_worker(
        capability_manifest={},
        worker_id=owner,
        task_queue=queue,
        supported_activity_types=["charge"],
        capabilities=["worker_sessions"],
    )
    session = f"s-{queue}"
    await worker.create_worker_session(owner, WorkerSessionOptions(session_id=session))
    await worker.renew_worker_session(owner, session, 60)
    await worker.close_worker_session(owner, session)
    await client.deregister_worker(owner)


def test_the_synchronous_client_speaks_for_applications(planes: Planes) -> None:
    with sync.Client(planes.control.url, token=TOKEN) as client:
        assert client.health()["status"] == "serving"
        name = f"sync-{uuid.uuid4().hex[:8]}"
        client.create_namespace(name)
        client.update_namespace(name, description="By hand")
        assert client.describe_namespace(name).description == "By hand"
        assert name in {namespace.name for namespace in client.list_namespaces().namespaces}
        client.delete_namespace(name)
        workflow_id = f"w-{name}"
        handle = client.start_workflow(workflow_type="order", task_queue=name, workflow_id=workflow_id, input=[])
        client.signal_workflow(workflow_id, "paid")
        described = client.describe_workflow(workflow_id)
        assert described.workflow_id == workflow_id
        (run,) = client.list_workflow_runs(workflow_id).runs
        assert client.describe_workflow_run(workflow_id, run.run_id).run_id == run.run_id
        assert client.get_history(workflow_id, run.run_id)["events"]
        assert workflow_id in {found.workflow_id for found in client.list_workflows().executions}
        assert name in {found.name for found in client.list_task_queues().task_queues}
        assert client.describe_task_queue(name).name == name
        client.drain_task_queue_build_id(name, "b")
        client.resume_task_queue_build_id(name, "b")
        assert client.list_task_queue_build_ids(name).build_ids
        client.terminate_workflow(workflow_id, reason="done")
        assert handle.workflow_id == workflow_id
        other = f"{workflow_id}-2"
        client.start_workflow(workflow_type="order", task_queue=name, workflow_id=other, input=[])
        client.cancel_workflow(other)
        activity = client.start_activity(activity_type="charge", task_queue=name, activity_id=f"a-{name}")
        assert activity is not None
        assert client.describe_activity(f"a-{name}").activity_id == f"a-{name}"
        assert client.list_activities() is not None
