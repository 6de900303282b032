"""``POST …/update/{update_name}`` for the current run and for a named one (control-plane §13.3)."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from dw_api_ingress.caller import command_context
from dw_api_ingress.command_arguments import read_arguments
from dw_api_ingress.commands import scope, settle_command, submit_command
from dw_api_ingress.operation_names import check_operation_name
from dw_api_ingress.validating import Validator
from dw_core.engine.inputs import UpdateWorkflow
from dw_core.engine.transition import Rejection
from dw_core.engine.update_rows import Update
from dw_core.engine.updates import VALIDATION_REQUIRED
from dw_core.ids import NewId
from dw_core.payloads.envelope import envelope, inline_json
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import WorkflowUpdate
from dw_core.protocol.timestamps import wire_time
from dw_runtime.asking.watching import Watching, wait_for
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.runs import RunReads
from dw_runtime.store.reads.updates import UpdateReads
from dw_runtime.telemetry.metrics import Metrics


class UpdateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a caller waits for completion by default and at most, in seconds; bytes of a name; who the caller is."""

    wait_seconds: int
    wait_seconds_max: int
    name_bytes_max: int
    caller: str


class UpdateHandlers:
    """Accepts updates and waits for their outcomes: a waiting caller costs no statement of its own."""

    def __init__(
        self,
        pump: Pump,
        runs: RunReads,
        updates: UpdateReads,
        outcomes: Watching[Update],
        validator: Validator,
        metrics: Metrics,
        *,
        settings: UpdateSettings,
        new_id: NewId,
    ) -> None:
        self._pump = pump
        self._runs = runs
        self._updates = updates
        self._outcomes = outcomes
        self._validator = validator
        self._metrics = metrics
        self._settings = settings
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"workflow_update": self.send, "workflow_run_update": self.send}

    async def send(self, call: Call) -> Reply:
        """202 when the update is accepted, 200 when it is completed; raises ``Problem`` otherwise.

        With ``wait_for`` ``completed`` it is held until the update is settled or the caller's time is over; the second
        is no error, the caller learns the stage that was reached.
        """
        began = time.monotonic()
        outcome = "refused"
        try:
            members, update = await self._send(call)
            outcome = "wait_timed_out" if members["wait_timed_out"] else update.status
            return _reply(members, update)
        finally:
            self._metrics.update_seconds[outcome].observe(time.monotonic() - began)

    async def _send(self, call: Call) -> tuple[dict[str, Any], Update]:
        body: WorkflowUpdate = call.body
        heard = self._outcomes.heard
        accepted = await self._accept(self._command(call, body), call)
        waits = body.wait_for == "completed"
        seconds = min(body.wait_timeout_seconds or self._settings.wait_seconds, self._settings.wait_seconds_max)
        if waits:
            update = await self._outcome(accepted["update_id"], call, heard, seconds)
        else:
            update = await self._updates.one(accepted["update_id"])
        waited = {
            "wait_for": body.wait_for or "accepted",
            "wait_timed_out": waits and update.closed_at is None,
            "wait_timeout_seconds": seconds if waits else None,
        }
        return accepted | _members(update) | waited, update

    def _command(self, call: Call, body: WorkflowUpdate) -> UpdateWorkflow:
        name = call.params["update_name"]
        check_operation_name("update_name", name, self._settings.name_bytes_max)
        arguments, named = read_arguments(body.input)
        return UpdateWorkflow(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            update_name=name,
            arguments=arguments,
            named=named,
            caller=self._settings.caller if body.wait_for == "completed" else None,
            **scope(call),
        )

    async def _accept(self, command: UpdateWorkflow, call: Call) -> dict[str, Any]:
        """The receipt of the accepted update. A declared validator is asked first; it may take its time."""
        answer = await submit_command(self._pump, self._runs, command)
        if not isinstance(answer, Rejection) or answer.reason != VALIDATION_REQUIRED:
            return settle(answer)
        verdict = await self._validator.ask(command, answer.fields["run"], answer.fields["arguments"], call.draining)
        return await settle_command(self._pump, self._runs, msgspec.structs.replace(command, verdict=verdict))

    async def _outcome(self, update_id: str, call: Call, heard: int, seconds: float) -> Update:
        """The update as it stands when it is settled, or when its caller's time or this process's is over."""
        future = self._outcomes.expect(update_id, heard)
        if call.hangup is not None:
            call.hangup.notify(lambda: _abandon(future))
        try:
            await wait_for(future, seconds, call.draining)
        finally:
            self._outcomes.forget(update_id, future)
        if future.done() and not future.cancelled():
            return future.result()
        return await self._updates.one(update_id)


def _abandon(future: Any) -> None:
    future.cancel()


def _members(update: Update) -> dict[str, Any]:
    """Where an update stands (control-plane §13.3)."""
    return {
        "update_status": update.status,
        "outcome": update.outcome,
        "workflow_sequence": update.workflow_sequence,
        "result": None if update.result is None else inline_json(update.result),
        "result_envelope": None if update.result is None else envelope(update.result),
        "failure_id": update.failure_id,
        "failure_message": update.failure_message,
        "accepted_at": wire_time(update.accepted_at),
        "applied_at": wire_time(update.applied_at),
        "rejected_at": None,
        "closed_at": wire_time(update.closed_at),
    }


def _reply(members: dict[str, Any], update: Update) -> Reply:
    if update.status == "failed":
        named = {key: value for key, value in members.items() if key not in ("reason", "message")}
        raise Problem("update_failed", update.failure_message or "The update failed.", **named)
    return Reply(members, 202 if update.closed_at is None else 200)
