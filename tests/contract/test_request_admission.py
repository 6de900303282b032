"""A namespace that has used up its requests is refused; others are not, and workers never are."""

from __future__ import annotations

import asyncio

from dw_core.protocol.problems import Problem
from dw_runtime.http.admission import RequestAdmission, RequestLimits
from dw_runtime.http.call import Call, Reply
from dw_runtime.http.shell import ShellSettings
from tests.contract.shell_client import OPERATOR, WORKER, build_shell, call


async def _ok(request: Call) -> Reply:
    return Reply({"ok": True})


async def test_requests_of_a_minute_are_counted() -> None:
    shell = build_shell(
        {"workflow_list": _ok, "worker_heartbeat": _ok},
        settings=ShellSettings(request_limits=RequestLimits(per_minute=2)),
    )
    answers = [await call(shell, "GET", "/api/workflows", headers=OPERATOR) for _ in range(4)]
    assert sorted(answer.status for answer in answers)[:2] == [200, 200]
    refused = answers[-1]
    if refused.status == 200:  # the minute ended in between: the next two begin a new one
        refused = [await call(shell, "GET", "/api/workflows", headers=OPERATOR) for _ in range(2)][-1]
    assert (refused.status, refused.json["reason"], refused.json["limit"]) == (
        429,
        "namespace_request_rate_exhausted",
        2,
    )
    assert refused.json["retryable"] is True
    assert refused.headers["retry-after"] == str(refused.json["retry_after_seconds"])
    worker = await call(shell, "POST", "/api/worker/heartbeat", headers=WORKER, body={"worker_id": "w"})
    assert worker.status == 200


async def test_requests_at_a_time_are_counted_until_they_end() -> None:
    running, end = asyncio.Event(), asyncio.Event()

    async def slow(request: Call) -> Reply:
        running.set()
        await end.wait()
        return Reply({"ok": True})

    limits = ShellSettings(request_limits=RequestLimits(at_a_time=1))
    shell = build_shell({"workflow_list": slow}, settings=limits)
    first = asyncio.create_task(call(shell, "GET", "/api/workflows", headers=OPERATOR))
    await running.wait()
    refused = await call(shell, "GET", "/api/workflows", headers=OPERATOR)
    assert (refused.status, refused.json["reason"]) == (429, "namespace_request_concurrency_exhausted")
    end.set()
    assert (await first).status == 200
    assert (await call(shell, "GET", "/api/workflows", headers=OPERATOR)).status == 200


def test_a_new_minute_begins_anew_and_namespaces_do_not_disturb_each_other() -> None:
    now = [30.0]
    admission = RequestAdmission(RequestLimits(per_minute=1), clock=lambda: now[0])

    def is_admitted(namespace: str) -> bool:
        try:
            with admission.admitted(namespace):
                return True
        except Problem:
            return False

    assert [is_admitted("a"), is_admitted("a"), is_admitted("b")] == [True, False, True]
    now[0] = 60.0
    assert is_admitted("a")
