"""Exported runs pass the verifiers of the published SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
from durable_workflow import Client, activity, workflow
from durable_workflow.errors import ActivityFailed
from durable_workflow.workflow import Replayer, WorkflowContext

from tests.e2e.conftest import Planes, Working
from tests.harness.servers import TOKEN
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]


@activity.defn(name="greet")
def greet(name: str) -> str:
    if name == "nobody":
        raise ValueError("a greeting needs a name")
    return f"Hällo, {name}! \U0001f600"


@workflow.defn(name="exported-child")
class ExportedChild:
    def run(self, ctx: WorkflowContext, name: str) -> Steps:
        return (yield ctx.schedule_activity("greet", [name]))


@workflow.defn(name="exported")
class Exported:
    """A bit of everything that leaves payloads in history."""

    def __init__(self) -> None:
        self.names: list[str] = []

    @workflow.signal("name")
    def on_name(self, name: str) -> None:
        """Note a name."""
        self.names.append(name)

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.wait_condition(lambda: bool(self.names), key="named", timeout=60)
        greeting = yield ctx.schedule_activity("greet", [self.names[0]])
        child = yield ctx.start_child_workflow("exported-child", ["Bob"])
        pair = yield [ctx.start_timer(0), ctx.schedule_activity("greet", ["Eve"])]
        try:
            yield ctx.schedule_activity("greet", ["nobody"])
        except ActivityFailed as error:
            return [greeting, child, pair, str(error)]
        return None


def _verified(command: str, *arguments: str) -> dict[str, Any]:
    """The report of one of the SDK's commands, which must have nothing to complain about."""
    path = Path(sys.executable).with_name(command)
    done = subprocess.run([path, *arguments, "--strict-warnings"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


async def test_an_export_is_verified_and_replayed(
    client: Client, planes: Planes, queue: str, working: Working, tmp_path: Path
) -> None:
    handle = await client.start_workflow(workflow_type="exported", workflow_id=queue, task_queue=queue)

    async def waits() -> bool:
        assert handle.run_id is not None
        history = await client.get_history(queue, handle.run_id)
        return any(event["event_type"] == "ConditionWaitOpened" for event in history["events"])

    async with httpx.AsyncClient(base_url=planes.control.url, headers=_HEADERS) as http:
        path = f"/api/workflows/{queue}/runs/{handle.run_id}/history/export"
        async with working([Exported, ExportedChild], [greet]):
            await eventually(waits, "the condition is open", 30)
            await handle.signal("name", ["Ada"])
            result = await client.get_result(handle, timeout=60)
        answer = await http.get(path)
    assert answer.status_code == 200 and "control_plane" not in answer.json()
    bundle = answer.json()
    (tmp_path / "bundles").mkdir()
    file = tmp_path / "bundles" / "bundle.json"
    file.write_bytes(answer.content)
    assert _verified("durable-workflow-history-bundle-verify", str(file))["status"] == "ok"
    report = _verified("durable-workflow-replay-verify", str(tmp_path / "bundles"), "--simulate-bundles")
    assert report["promotion_decision"] not in {"block", "blocked", "failed"}, report
    assert bundle["history_complete"] is True
    events = [event | {"event_type": event["type"]} for event in bundle["history_events"]]
    replayed = Replayer(workflows=[Exported, ExportedChild]).replay(events, payload_codec="avro")
    assert getattr(replayed.commands[-1], "result", None) == result
    assert {entry["path"] for entry in bundle["payload_manifest"]["entries"]} >= {
        "payloads.arguments.data",
        "payloads.output.data",
    }


_HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "X-Namespace": "default",
    "X-Durable-Workflow-Control-Plane-Version": "2",
}
