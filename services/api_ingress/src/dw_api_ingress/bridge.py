"""``POST /bridge-adapters/webhook/{adapter}``: events of others, given to the control plane's own handlers."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dw_api_ingress.signaling import SignalHandlers
from dw_api_ingress.starting import StartHandlers
from dw_api_ingress.updating import UpdateHandlers
from dw_core.bridge.events import (
    Asked,
    BridgeEvent,
    Refused,
    SignalTarget,
    StartTarget,
    UpdateTarget,
    outcome,
    read_event,
)
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import WorkflowSignal, WorkflowStart, WorkflowUpdate
from dw_runtime.http.call import Call, Reply

SIGNATURE_HEADER: Final = "x-bridge-signature"
_PREFIX: Final = "sha256="
_REASONS: Final = {
    "instance_not_found": "unknown_target",
    "validation_failed": "malformed_payload",
    "instance_already_started": "duplicate_start",
}
"""How reasons of commands are called in outcomes; every other one keeps its name."""
ACCEPTED, DUPLICATE, UNAUTHORIZED, REJECTED = 202, 200, 401, 422
SERVER_TROUBLE: Final = 500
TOO_MANY: Final = 429


class BridgeHandlers:
    """Follows webhook events. ``keys`` are the secrets of adapters whose events are signed, by adapter."""

    def __init__(
        self, start: StartHandlers, signals: SignalHandlers, updates: UpdateHandlers | None, keys: Mapping[str, str]
    ) -> None:
        self._start = start
        self._signals = signals
        self._updates = updates
        self._keys = keys

    async def webhook(self, call: Call) -> Reply:
        """202 for an event that was followed, 200 for a repeated one, 422 for one that is refused by name.

        An event without the signature that its adapter asks for is answered with 401.
        """
        adapter, event = call.params["adapter"], call.body
        assert isinstance(event, BridgeEvent), "the route takes an event"
        if not self._is_signed(adapter, call):
            told = {"reason": "auth_failed", "message": f"The adapter needs a valid {SIGNATURE_HEADER}."}
            return Reply(outcome(adapter, event, "unauthorized", **told), status=UNAUTHORIZED)
        asked = read_event(adapter, event)
        if isinstance(asked, Refused):
            refusal = {"reason": asked.reason, "message": "The event cannot be followed.", "errors": asked.errors}
            return Reply(outcome(adapter, event, "rejected", **refusal), status=REJECTED)
        try:
            members = await self._follow(call, event, asked)
        except Problem as problem:
            if problem.status >= SERVER_TROUBLE or problem.status == TOO_MANY:
                raise
            return Reply(outcome(adapter, event, "rejected", **_rejected(problem, asked)), status=REJECTED)
        word, told = _told(members, asked)
        return Reply(outcome(adapter, event, word, **told), status=ACCEPTED if word == "accepted" else DUPLICATE)

    async def _follow(self, call: Call, event: BridgeEvent, asked: Asked) -> dict[str, Any]:
        """Give the command to the handler of its own route."""
        target = asked.target
        match target:
            case StartTarget():
                start = WorkflowStart(
                    workflow_type=target.workflow_type,
                    workflow_id=asked.workflow_id,
                    task_queue=target.task_queue,
                    business_key=target.business_key,
                    input=event.input,
                    duplicate_policy="fail" if target.duplicate_policy == "reject_duplicate" else "use-existing",
                )
                reply = await self._start.start(_as(call, start), request_id=asked.request_id)
            case SignalTarget():
                signal = WorkflowSignal(input=event.input, request_id=asked.request_id)
                named = {"workflow_id": target.workflow_id, "signal_name": target.signal_name}
                reply = await self._signals.send(_as(call, signal, **named))
            case UpdateTarget():
                if self._updates is None:
                    raise Problem("not_implemented", "This server does not take updates.")
                update = WorkflowUpdate(
                    input=event.input,
                    request_id=asked.request_id,
                    wait_for=target.wait_for,
                    wait_timeout_seconds=target.wait_timeout_seconds,
                )
                named = {"workflow_id": target.workflow_id, "update_name": target.update_name}
                reply = await self._updates.send(_as(call, update, **named))
        assert isinstance(reply.body, dict), "commands are answered with their members"
        return reply.body

    def _is_signed(self, adapter: str, call: Call) -> bool:
        """Whether the event carries the HMAC-SHA256 of its bytes in hex, when its adapter has a key."""
        key = self._keys.get(adapter)
        if key is None:
            return True
        given = (call.headers.get(SIGNATURE_HEADER) or "").removeprefix(_PREFIX).strip().lower()
        return hmac.compare_digest(given.encode(), hmac.digest(key.encode(), call.raw, "sha256").hex().encode())


def _as(call: Call, body: msgspec.Struct, **params: str) -> Call:
    return msgspec.structs.replace(call, body=body, params=params)


def _told(members: dict[str, Any], asked: Asked) -> tuple[str, dict[str, Any]]:
    """Whether an event was accepted or has been followed before, and the members that say what came of it."""
    told = {name: members.get(name) for name in ("workflow_id", "run_id", "workflow_type", "update_id")}
    is_start = isinstance(asked.target, StartTarget)
    if is_start and (members.get("retained") or members["outcome"] == "returned_existing_active"):
        reason = {"reason": "duplicate_start", "control_plane_outcome": "returned_existing_active"}
        return "duplicate", told | reason
    if not is_start and members.get("retained"):
        return "duplicate", told | {"control_plane_outcome": "deduped_existing_command"}
    return "accepted", told | {"control_plane_outcome": members.get("outcome")}


def _rejected(problem: Problem, asked: Asked) -> dict[str, Any]:
    fields = problem.fields
    told = {name: fields.get(name) for name in ("run_id", "workflow_type", "errors")}
    return told | {
        "reason": _REASONS.get(problem.reason, problem.reason),
        "message": problem.message,
        "workflow_id": asked.workflow_id,
        "control_plane_outcome": fields.get("outcome"),
    }
