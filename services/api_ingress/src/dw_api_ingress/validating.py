"""Asking a worker's validator before an update is accepted (control-plane §13.4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from dw_core.engine.inputs import UpdateWorkflow, Verdict
from dw_core.engine.rows import Run, TaskKind
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.ids import NewId, update_id
from dw_core.protocol.problems import Problem
from dw_core.queries.task import NewQuery
from dw_core.updates.validation import ValidatingWorkers, refuse_validation, unanswered, verdict
from dw_runtime.asking.answers import STORE_ERRORS, Answer, Answers, Lost
from dw_runtime.asking.watching import LATE_SECONDS, wait_for
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.telemetry.metrics import Metrics

_decode_workers: Final = msgspec.json.Decoder(list[ValidatingWorkers]).decode
_Key = tuple[str, str, str]


class ValidationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a verdict is waited for and kept, in seconds; how many may wait per queue; silence of a lost worker.

    ``caller`` names this process to whoever has a verdict for it.
    """

    timeout_seconds: float
    kept_seconds: float
    pending_max: int
    stale_after_seconds: int
    caller: str


class Validator:
    """Gives each update to a capable worker and waits for its verdict. ``announce`` wakes the polls of a queue.

    A caller that goes away does not end a validation: an approved update is accepted, and its repetition finds it.
    """

    def __init__(
        self,
        database: Database,
        answers: Answers,
        metrics: Metrics,
        *,
        settings: ValidationSettings,
        announce: Callable[[Iterable[WakeKey]], None],
        new_id: NewId,
    ) -> None:
        self._database = database
        self._answers = answers
        self._metrics = metrics
        self._settings = settings
        self._announce = announce
        self._new_id = new_id
        self._in_flight: dict[_Key, tuple[str, str]] = {}

    async def ask(self, command: UpdateWorkflow, run: Run, arguments: str, draining: asyncio.Event) -> Verdict:
        """The verdict on an update; raises ``Problem`` when there is none.

        The refusals are those of control-plane §13.4. One request id has one validation under way in this process, or
        several of the same intent: the first approval is accepted and the others find it.
        """
        assert command.request_id is not None, "the engine asks for a request id before it asks for a verdict"
        key = (command.namespace, command.workflow_id, command.request_id)
        intent = (command.update_name, command.arguments)
        under_way = self._in_flight.get(key)
        if under_way not in (None, intent):
            message = "The request id is in use for an update of another intent."
            raise Problem("update_validation_idempotency_conflict", message, request_id=command.request_id)
        self._in_flight[key] = intent
        began = time.monotonic()
        outcome = "no_verdict"
        try:
            said = await self._ask(command, run, arguments, draining)
            outcome = "approved" if said.is_approved else "rejected"
            return said
        except STORE_ERRORS as error:
            message = "Updates cannot be validated: the database is not available."
            raise Problem("backend_unavailable", message, retryable=True, retry_after_seconds=1) from error
        finally:
            self._metrics.update_validation_seconds[outcome].observe(time.monotonic() - began)
            if under_way is None:
                del self._in_flight[key]

    async def _ask(self, command: UpdateWorkflow, run: Run, arguments: str, draining: asyncio.Event) -> Verdict:
        found = await self._database.read(
            "read_validators", run.namespace, run.queue, run.workflow_type, self._settings.stale_after_seconds
        )
        workers = _decode_workers(found[0][0] or "[]")
        refused = refuse_validation(run, command.update_name, workers)
        if refused is not None:
            settle(refused)
        heard = self._answers.heard
        task_id = await self._admit(command, run, arguments)
        answer = await self._answer(task_id, heard, draining)
        said = unanswered(1, was_leased=False) if isinstance(answer, Lost) else _verdict(answer)
        if isinstance(said, Rejection):
            settle(said)
        assert isinstance(said, Verdict), "a refusal was raised"
        return said

    async def _admit(self, command: UpdateWorkflow, run: Run, arguments: str) -> str:
        settings = self._settings
        task = NewQuery(
            query_task_id=self._new_id(),
            kind=TaskKind.UPDATE_VALIDATION,
            update_id=update_id(command.command_id),
            namespace=run.namespace,
            queue=run.queue,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            workflow_type=run.workflow_type,
            compatibility=run.compatibility,
            query_name=command.update_name,
            arguments=arguments,
            caller=settings.caller,
        )
        document = msgspec.json.encode(task).decode()
        admitted = await self._database.rows(
            "admit_query", document, settings.timeout_seconds, settings.kept_seconds, settings.pending_max
        )
        if not admitted:
            settle(unanswered(0, was_leased=False))
        self._announce((WakeKey(run.namespace, TaskKind.UPDATE_VALIDATION, run.queue),))
        return task.query_task_id

    async def _answer(self, task_id: str, heard: int, draining: asyncio.Event) -> Answer:
        future = self._answers.expect(task_id, heard)
        try:
            await wait_for(future, self._settings.timeout_seconds, draining)
            if not future.done():
                ended = await self._database.rows("end_query", task_id)
                if ended:
                    attempts, was_leased = ended[0]
                    settle(unanswered(attempts, was_leased=was_leased))
                self._answers.wake()
                await asyncio.wait((future,), timeout=LATE_SECONDS)
        finally:
            self._answers.forget(task_id, future)
        return future.result() if future.done() else Lost()


def _verdict(answer: Answer) -> Verdict | Rejection:
    assert not isinstance(answer, Lost), "a lost validation has no verdict"
    return verdict(answer)
