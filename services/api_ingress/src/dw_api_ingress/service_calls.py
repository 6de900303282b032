"""Executing operations, and the calls that come of it (control-plane §17.2, §17.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.caller import command_context
from dw_api_ingress.service_results import ServiceResults
from dw_core.engine.inputs import CancelWorkflow
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.ids import NewId
from dw_core.limits import SERVICE_EXECUTE_WAIT_SECONDS_DEFAULT
from dw_core.payloads.codec import from_json
from dw_core.payloads.envelope import is_envelope, read_envelope, read_input
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_services import OperationExecute, ServiceCallCancel
from dw_core.services.admission import CallRequest, admit, operation_key
from dw_core.services.documents import call_document
from dw_core.services.policies import may_cancel
from dw_core.services.rows import CallEnd, CallOptions, Operation, OperationKey, ServiceCall
from dw_core.services.wakes import SERVICE_CALLS
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.service_ends import end_call
from dw_runtime.store.database import Database, first
from dw_runtime.store.encoding import encode_rows

_OPTIONS = tuple(field.name for field in msgspec.structs.fields(CallOptions))


class ServiceCallHandlers:
    """Admits calls, waits for their end, shows and cancels them. ``announce`` wakes who serves them."""

    def __init__(
        self,
        database: Database,
        pump: Pump,
        results: ServiceResults,
        auditor: Auditor,
        *,
        announce: Callable[[Iterable[WakeKey]], None],
        new_id: NewId,
    ) -> None:
        self._database = database
        self._pump = pump
        self._results = results
        self._auditor = auditor
        self._announce = announce
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "service_operation_execute": self.execute,
            "service_call_describe": self.describe,
            "service_call_cancel": self.cancel,
        }

    async def execute(self, call: Call) -> Reply:
        """200 with the snapshot of the call, 409 with it when the call was not accepted.

        A request that repeats an idempotency key is answered with the first call. One that waits for the end is
        answered with the call as it stands when the time is over.
        """
        key = _key(call)
        rows = await self._database.read("find_operation", *msgspec.structs.astuple(key))
        if not rows:
            raise _not_found("operation", key)
        text, now = rows[0]
        request = _request(call, key)
        made = admit(request, msgspec.json.decode(text, type=Operation), self._new_id(), now)
        heard = self._results.heard
        admitted = await self._auditor.admit(call, "admit_service_call", encode_rows([made]))
        is_replay = not admitted
        if admitted:
            self._announce((SERVICE_CALLS,))
        known = made if admitted else await self._repeated(request)
        if known.is_open and known.is_accepted and made.wait_for == "completed" and made.operation_mode == "sync":
            await self._wait(known.service_call_id, call, heard)
        found = await self._read(known.service_call_id)
        return Reply(call_document(found) | {"idempotent_replay": is_replay}, status=200 if found.is_accepted else 409)

    async def _repeated(self, request: CallRequest) -> ServiceCall:
        names = msgspec.structs.astuple(request.key)
        rows = await self._database.read(
            "find_service_call", *names, request.caller_namespace or "", request.idempotency_key
        )
        assert rows, "only a call with the same key keeps a new one out"
        return msgspec.json.decode(rows[0][0], type=ServiceCall)

    async def _wait(self, call_id: str, call: Call, heard: int) -> None:
        body: OperationExecute = call.body
        seconds = body.wait_timeout_seconds
        ended = self._results.expect(call_id, heard)
        drained = asyncio.ensure_future(call.draining.wait())
        try:
            await asyncio.wait(
                (ended, drained),
                timeout=SERVICE_EXECUTE_WAIT_SECONDS_DEFAULT if seconds is None else seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            drained.cancel()
            self._results.forget(call_id, ended)

    async def describe(self, call: Call) -> Reply:
        """The snapshot of a call."""
        return Reply(call_document(await self._named(call)) | {"found": True})

    async def cancel(self, call: Call) -> Reply:
        """The snapshot after the cancellation. A run that answers the call is cancelled, and the call ends with it.

        Of cancellations that come at once, the one that ends the call is answered so; for the others it has ended.
        """
        body: ServiceCallCancel = call.body or ServiceCallCancel()
        found = await self._named(call)
        self._check_cancellable(found)
        ended = await self._cancel_run(call, found, body.reason) if found.linked_run_id is not None else False
        if not ended:
            end = CallEnd(
                service_call_id=found.service_call_id,
                status="cancelled",
                outcome="cancelled",
                outcome_reason="cancellation",
                error_type="ServiceCallCancelled",
                message=body.reason or "The service call was cancelled.",
            )
            ended = await end_call(self._database, self._pump, self._announce, end)
            if ended:
                await self._auditor.trail.record(self._auditor.requested(call), "accepted")
        after = await self._read(found.service_call_id)
        if not ended:
            self._check_cancellable(after)
        return Reply(call_document(after) | {"found": True})

    def _check_cancellable(self, found: ServiceCall) -> None:
        named: dict[str, Any] = {"service_call_id": found.service_call_id, "status": found.status}
        if not found.is_open:
            raise Problem("service_call_terminal", "The service call has ended.", **named)
        if not may_cancel(found.policies):
            raise Problem("cancellation_not_allowed", "The operation does not let its calls be cancelled.", **named)

    async def _cancel_run(self, call: Call, found: ServiceCall, reason: str | None) -> bool:
        """Whether the run was open and this request has cancelled it."""
        assert found.linked_workflow_id is not None
        reply = await self._pump.submit(
            CancelWorkflow(
                namespace=found.namespace,
                workflow_id=found.linked_workflow_id,
                run_id=found.linked_run_id,
                target_scope="run",
                command_id=self._new_id(),
                request_id=f"service-call-cancel:{found.service_call_id}",
                context=command_context(call),
                reason=reason,
            )
        )
        return not isinstance(reply, Rejection) and not reply["retained"]

    async def _named(self, call: Call) -> ServiceCall:
        key = _key(call)
        rows = await self._database.read("describe_service_call", call.params["service_call_id"])
        found = msgspec.json.decode(rows[0][0], type=ServiceCall) if rows else None
        if found is None or found.key != key:
            raise Problem(
                "service_call_not_found",
                "There is no such call of this operation.",
                service_call_id=call.params["service_call_id"],
                found=False,
            )
        return found

    async def _read(self, call_id: str) -> ServiceCall:
        row = first(await self._database.read("describe_service_call", call_id))
        assert row is not None, f"service call {call_id} was admitted"
        return msgspec.json.decode(row[0], type=ServiceCall)


def _key(call: Call) -> OperationKey:
    params = call.params
    return operation_key(call.namespace, params["endpoint_name"], params["service_name"], params["operation_name"])


def _not_found(level: str, key: OperationKey) -> Problem:
    return Problem(f"{level}_not_found", f"There is no such {level}.", **msgspec.structs.asdict(key))


def _request(call: Call, key: OperationKey) -> CallRequest:
    body: OperationExecute = call.body
    caller = body.caller_namespace.strip().lower() if body.caller_namespace else call.namespace
    return CallRequest(
        key=key,
        payload=_arguments(body.arguments),
        caller_namespace=caller,
        role=call.principal.role,
        caller_workflow_id=body.caller_workflow_instance_id,
        caller_run_id=body.caller_workflow_run_id,
        idempotency_key=body.idempotency_key,
        mode_override=body.mode_override,
        wait_for=body.wait_for,
        options=CallOptions(**{name: getattr(body, name) for name in _OPTIONS}),
    )


def _arguments(value: Any) -> str:
    """The blob of the argument list: a blob, an envelope, or JSON (control-plane §17.2)."""
    try:
        if isinstance(value, str) or is_envelope(value):
            return read_envelope(value) or from_json([])
        return read_input(value)
    except PayloadError as wrong:
        raise wrong.at("arguments") from wrong
