"""One real workflow through a running deployment: what `helm test` runs, and an operator after a change.

It plays the application and the worker, over HTTP and through the addresses that they use, and needs no database.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dw_core.payloads.codec import encode_blob
from dw_runtime.process import StartupError
from dw_runtime.settings import Settings, SettingsError

JSON = dict[str, Any]

REQUEST_SECONDS: Final = 75
POLL_SECONDS: Final = 30
POLLS_MAX: Final = 4
"""A poll may end empty for good reasons, a drain among them."""

_WORKER: Final = {"X-Durable-Workflow-Protocol-Version": "1.20"}
_CONTROL: Final = {"X-Durable-Workflow-Control-Plane-Version": "2"}


class SmokeFailed(StartupError):
    """The deployment did not do what it should; the message says at which step and why."""


class Timing(msgspec.Struct, frozen=True):
    """Seconds of each step, in their order."""

    steps: tuple[tuple[str, float], ...]

    def sentence(self) -> str:
        """One line for people."""
        total = sum(seconds for _, seconds in self.steps)
        parts = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in self.steps)
        return f"A workflow with one activity ran through in {total * 1000:.0f} ms ({parts})."


def smoke(settings: Settings, url: str, worker_url: str, token_file: str | None) -> Timing:
    """Run one workflow; ``token_file`` replaces the tokens of the settings, such as for the driver jwt.

    Raises :class:`SettingsError` when there is no token to call with, :class:`SmokeFailed` when a step fails.
    """
    tokens = _tokens(settings, token_file)
    namespace = settings.topology.default_namespace
    control = _Plane(url.rstrip("/") + "/api", {**_CONTROL, "X-Namespace": namespace}, tokens["control"])
    worker = _Plane(worker_url.rstrip("/") + "/api/worker", {**_WORKER, "X-Namespace": namespace}, tokens["worker"])
    return _Program(control, worker).run()


def _tokens(settings: Settings, token_file: str | None) -> Mapping[str, str | None]:
    auth = settings.auth
    if token_file is not None:
        token = Path(token_file).read_text().strip()
        return {"control": token, "worker": token}
    if auth.driver == "none":
        return {"control": None, "worker": None}
    if auth.driver != "token":
        raise SettingsError(f"The driver {auth.driver} needs a token to call with: give --token-file.")
    found = {
        "control": auth.operator_token or auth.token or auth.admin_token,
        "worker": auth.worker_token or auth.token,
    }
    if not all(found.values()):
        raise SettingsError("The smoke test needs DW_AUTH_TOKEN, or DW_OPERATOR_TOKEN and DW_WORKER_TOKEN.")
    return found


class _Plane:
    """Requests below one address."""

    def __init__(self, url: str, headers: Mapping[str, str], token: str | None) -> None:
        self._url = url
        self._headers = {**headers, "Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: JSON | None = None) -> JSON:
        """The decoded answer of a request that must succeed."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
                answer: JSON = json.loads(response.read())
                return answer
        except urllib.error.HTTPError as error:
            told = error.read(2000).decode(errors="replace")
            raise SmokeFailed(f"{method} {self._url}{path} was answered with {error.code}: {told}") from error
        except (OSError, ValueError) as error:
            raise SmokeFailed(f"{method} {self._url}{path} failed: {error}.") from error


class _Program:
    """The workflow ``dw-smoke``: one activity, whose result is the workflow's."""

    def __init__(self, control: _Plane, worker: _Plane) -> None:
        self._control = control
        self._worker = worker
        self._name = f"dw-smoke-{secrets.token_hex(6)}"
        self._steps: list[tuple[str, float]] = []

    def run(self) -> Timing:
        self._worker.call("POST", "/register", self._registration())
        try:
            run_id = self._timed("start", self._start)["run_id"]
            task = self._timed("workflow task", lambda: self._take("workflow"))
            activity = {"type": "schedule_activity", "activity_type": "dw-smoke"}
            self._timed("schedule activity", lambda: self._complete(task, activity))
            self._timed("activity", self._do_activity)
            last = self._timed("second workflow task", lambda: self._take("workflow"))
            result = {"codec": "avro", "blob": encode_blob(self._name)}
            self._timed("complete", lambda: self._complete(last, {"type": "complete_workflow", "result": result}))
            shown = self._timed("describe", lambda: self._control.call("GET", f"/workflows/{self._name}"))
            if (shown["run_id"], shown["status"]) != (run_id, "completed"):
                raise SmokeFailed(f"The run {run_id} should be completed and is {shown['status']}.")
        finally:
            self._worker.call("DELETE", f"/registrations/{self._name}")
        return Timing(tuple(self._steps))

    def _registration(self) -> JSON:
        return {
            **self._poller(),
            "runtime": "python",
            "supported_workflow_types": ["dw-smoke"],
            "supported_activity_types": ["dw-smoke"],
        }

    def _poller(self) -> JSON:
        return {"worker_id": self._name, "task_queue": self._name}

    def _start(self) -> JSON:
        start = {"workflow_id": self._name, "workflow_type": "dw-smoke", "task_queue": self._name}
        return self._control.call("POST", "/workflows", start)

    def _take(self, kind: str) -> JSON:
        for _ in range(POLLS_MAX):
            poll = {**self._poller(), "timeout_seconds": POLL_SECONDS}
            task: JSON | None = self._worker.call("POST", f"/{kind}-tasks/poll", poll)["task"]
            if task is not None:
                return task
        raise SmokeFailed(f"No {kind} task came within {POLLS_MAX} polls of {POLL_SECONDS} seconds.")

    def _complete(self, task: JSON, command: JSON) -> JSON:
        fence = {name: task[name] for name in ("lease_owner", "workflow_task_attempt")}
        return self._worker.call(
            "POST", f"/workflow-tasks/{task['task_id']}/complete", {**fence, "commands": [command]}
        )

    def _do_activity(self) -> JSON:
        task = self._take("activity")
        attempt = {name: task[name] for name in ("activity_attempt_id", "lease_owner")}
        return self._worker.call("POST", f"/activity-tasks/{task['task_id']}/complete", attempt)

    def _timed(self, name: str, step: Callable[[], JSON]) -> JSON:
        began = time.perf_counter()
        answer = step()
        self._steps.append((name, time.perf_counter() - began))
        return answer
