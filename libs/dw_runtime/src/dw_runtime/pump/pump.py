"""Batching inputs into transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import structlog

from dw_core.engine.decide import decide
from dw_core.engine.inputs import Input, TakeDeliveries
from dw_core.engine.invariants import breach
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection, Transition, WakeKey
from dw_core.limits import Limits
from dw_core.protocol.problems import Problem
from dw_runtime.process.background import Background
from dw_runtime.pump.claims import Claims, Looked, Waiters, Want
from dw_runtime.pump.dispatch import Granted, dispatch, missing_pages, ready_tasks, waiting_callers, with_pages
from dw_runtime.store.link import Call, Link, Transaction
from dw_runtime.store.loading import load
from dw_runtime.store.services import told_runs
from dw_runtime.store.writing import TaskKey, WriteSet
from dw_runtime.telemetry.metrics import Metrics
from dw_runtime.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = structlog.get_logger()

Reply = dict[str, Any] | Rejection


class PumpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the pump: inputs per batch, inputs that may wait, and how often a conflict is retried."""

    batch_inputs_max: int = 256
    waiting_inputs_max: int = 10_000
    conflict_retries_max: int = 5


class _Waiting(msgspec.Struct):
    change: Input
    reply: asyncio.Future[Reply]
    since: float
    span: Span | None = None


class Pump(Background):
    """Runs inputs and probes in transactions, one batch at a time, on a connection of its own.

    One batch at a time keeps a process from waiting for its own row locks and lets batches grow with the load; other
    processes are ordered by the row lock on the run. A rejected input leaves its batch before the write. A database
    error splits the batch and the inputs are retried one by one; conflicts of two transactions (40001, 40P01, a
    workflow id started twice) are retried here and nowhere else.

    ``publish`` tells other processes of queues with something to claim, ``announce`` tells every process, this one
    among them, that an update has been settled whose caller waits there.
    """

    TASK_NAME = "pump"

    def __init__(
        self,
        database_url: str,
        metrics: Metrics,
        *,
        limits: Limits,
        publish: Callable[[set[WakeKey]], None],
        announce: Callable[[set[WakeKey]], None] = lambda keys: None,
        waiters: Waiters | None = None,
        on_service_calls: Callable[[], None] = lambda: None,
        bounds: PumpLimits | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._link = Link(database_url, metrics)
        self._metrics = metrics
        self._limits = limits
        self._publish = publish
        self._announce_callers = announce
        self._waiters = waiters
        self._on_service_calls = on_service_calls
        self._bounds = bounds or PumpLimits()
        self._tracing = tracing
        self._waiting: list[_Waiting] = []
        self._probes: set[WakeKey] = set()
        self._work = asyncio.Event()
        self._is_closing = False
        metrics.pump_queue_inputs.set_function(lambda: float(len(self._waiting)))

    async def stop(self) -> None:
        """Finish what waits, then stop."""
        self._is_closing = True
        self._work.set()
        if self._task is not None:
            await self._task
        await self._link.close()

    async def submit(self, change: Input) -> Reply:
        """Have an input decided and committed; returns its reply.

        Raises :class:`Problem` ``backend_unavailable`` when too many inputs wait already or the pump is stopping, and
        ``psycopg.Error`` when the database cannot be used.
        """
        if len(self._waiting) >= self._bounds.waiting_inputs_max or self._is_closing:
            raise Problem("backend_unavailable", "The server is not taking more work right now.", retryable=True)
        return await self._enqueue(change)

    def _enqueue(self, change: Input) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        span = None
        if self._tracing is not None:
            span = self._tracing.submitted(type(change).__name__, getattr(change, "trace_context", None))
            reply.add_done_callback(lambda settled: span.end())
        self._waiting.append(_Waiting(change, reply, time.monotonic(), span))
        self._work.set()
        return reply

    def probe(self, keys: Iterable[WakeKey]) -> None:
        """Look for claimable tasks on these queues with the next batch."""
        self._probes.update(keys)
        if self._probes:
            self._work.set()

    async def _loop(self) -> None:
        while True:
            await self._work.wait()
            size = self._bounds.batch_inputs_max
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            probes, self._probes = self._probes, set()
            if not batch and not probes:
                if self._is_closing:
                    return
                self._work.clear()
                continue
            await self._run_or_split(batch, probes)

    async def _run_or_split(self, batch: list[_Waiting], probes: set[WakeKey]) -> None:
        metrics = self._metrics
        began = time.monotonic()
        if batch:
            metrics.pump_batch_inputs.observe(len(batch))
            metrics.pump_wait_seconds.observe(began - batch[0].since)
        try:
            await self._run_traced(batch, probes)
        except Exception as error:  # noqa: BLE001 - every failure is given to the callers it belongs to
            if batch and _can_run_again(error, len(batch)):
                metrics.pump_splits.inc()
                _log.info("pump.batch_split", inputs=len(batch), error=type(error).__name__)
                for single in batch:
                    await self._run_alone(single)
                self._probes |= probes
            else:
                self._give_up(batch, error)
        metrics.pump_batch_seconds.observe(time.monotonic() - began)

    async def _run_alone(self, single: _Waiting) -> None:
        for retry in range(self._bounds.conflict_retries_max + 1):
            try:
                await self._run_traced([single], set())
            except Exception as error:  # noqa: BLE001 - given to the caller
                if retry == self._bounds.conflict_retries_max or not isinstance(error, _CONFLICTS):
                    self._give_up([single], error)
                    return
            else:
                return

    def _give_up(self, batch: Sequence[_Waiting], error: Exception) -> None:
        """Tell the callers. Polls keep waiting: the next tick looks at their queues again."""
        if isinstance(error, psycopg.OperationalError):
            _log.warning("pump.database_failed", inputs=len(batch), error=type(error).__name__, sqlstate=error.sqlstate)
        else:
            _log.error("pump.batch_failed", inputs=len(batch), error=type(error).__name__, exc_info=error)
        for single in batch:
            if not single.reply.done():
                single.reply.set_exception(error)

    async def _run_traced(self, batch: Sequence[_Waiting], probes: set[WakeKey]) -> None:
        if self._tracing is None:
            await self._run(batch, probes)
            return
        with self._tracing.batch([waiting.span for waiting in batch if waiting.span is not None]):
            await self._run(batch, probes)

    async def _run(self, batch: Sequence[_Waiting], probes: set[WakeKey]) -> None:
        done = _Done()
        try:
            async with self._link.transaction() as transaction:
                calls = await self._decide(transaction, [w.change for w in batch], done) if batch else []
                with nullcontext() if self._tracing is None else self._tracing.commit():
                    await self._claim_and_commit(transaction, calls, probes, done)
            done.is_committed = True
        finally:
            if self._waiters is not None and done.wants:
                granted = done.granted if done.is_committed else []
                self._waiters.settle(done.wants, granted, done.looked if done.is_committed else None)
        for single, reply in zip(batch, done.replies, strict=True):
            if not single.reply.done():
                single.reply.set_result(reply)
        self._announce(done)

    def _announce(self, done: _Done) -> None:
        """Have what was left for other runs taken, and wake whoever may take what this batch has left ready."""
        if done.has_service_calls:
            self._on_service_calls()
        for run_id in done.addressees:
            # What cannot be taken now is found by the sweep.
            self._enqueue(TakeDeliveries(run_id=run_id)).add_done_callback(_look_at)
        for _, claimed in done.granted:
            done.due.pop((claimed.task.run_id, claimed.task.task_number), None)
        left = set(done.due.values()) | done.freed
        self._publish(left)
        if done.callers:
            self._announce_callers(done.callers)
        if self._waiters is not None:
            for key in left:
                self._waiters.wake(key)
            for key, seconds in done.later.items():
                self._waiters.wake_after(key, seconds)

    async def _decide(self, transaction: Transaction, batch: Sequence[Input], done: _Done) -> list[Call]:
        """Decide every input; the statements that write what they change."""
        polls = [] if self._waiters is None else self._waiters.unchecked()
        loaded = await load(transaction, batch, polls)
        if self._waiters is not None:
            self._waiters.checked(polls, loaded.repeated)
        writes = WriteSet()
        snapshots: dict[str, Snapshot] = {}
        for change in batch:
            snapshot = loaded.snapshot(change)
            outcome = decide(snapshot, change, loaded.now, self._limits)
            if isinstance(outcome, Rejection):
                done.replies.append(outcome)
                continue
            broken = breach(snapshot, outcome) if outcome.changes_anything else None
            if broken is not None:
                done.replies.append(self._refuse(change, outcome, broken))
                continue
            if outcome.changes_anything:
                writes.add(outcome)
                snapshots.update(loaded.take_over(change, outcome))
            done.replies.append(outcome.reply)
        if writes.is_empty:
            return []
        if self._waiters is not None:
            done.granted = dispatch(self._waiters, writes, snapshots, loaded.now)
            done.wants = [want for want, _ in done.granted]
        done.due, done.later = ready_tasks(writes, loaded.now)
        done.callers = waiting_callers(writes)
        done.freed = writes.freed
        done.addressees = {delivery.run_id for delivery in writes.deliveries}
        done.has_service_calls = writes.services is not None
        return writes.calls()

    def _refuse(self, change: Input, outcome: Transition, broken: str) -> Rejection:
        """Write nothing of a decision that would break an invariant: a fault of ours, and loud."""
        self._metrics.invariant_breaches.inc()
        _log.error("engine.invariant_broken", run_id=outcome.run.run_id, input=type(change).__name__, invariant=broken)
        return Rejection("server_error", "The server would have broken an invariant of the run; nothing was written.")

    async def _claim_and_commit(
        self, transaction: Transaction, calls: list[Call], probes: set[WakeKey], done: _Done
    ) -> None:
        """Write, look for tasks for the polls that direct dispatch could not serve, and commit."""
        pages = missing_pages(done.granted)
        wants = [] if self._waiters is None else self._waiters.wants(probes | set(done.due.values()) | done.freed)
        done.wants += wants
        if not wants:
            if calls or transaction.is_open:
                found = await transaction.commit(calls + pages)
                done.addressees |= told_runs(calls, found)
                done.granted = with_pages(done.granted, found[-1] if pages else ())
            return
        claims = Claims(wants)
        found = await transaction.ask(calls + pages + claims.calls)
        done.addressees |= told_runs(calls, found)
        if pages:
            done.granted = with_pages(done.granted, found[len(calls)])
        claims.match(*found[len(calls) + len(pages) :])
        await transaction.commit(claims.writes())
        done.granted += claims.granted
        done.looked = claims.looked


class _Done:
    """What one transaction has come to."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.wants: list[Want] = []
        self.granted: Granted = []
        self.looked = Looked()
        self.due: dict[TaskKey, WakeKey] = {}
        self.later: dict[WakeKey, float] = {}
        self.freed: set[WakeKey] = set()
        self.callers: set[WakeKey] = set()
        self.addressees: set[str] = set()
        self.has_service_calls = False
        self.is_committed = False


_CONFLICTS = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
)
"""Two transactions met: 40001, 40P01, or two starts of one workflow id. Deciding again sees what the other one did."""


def _look_at(reply: asyncio.Future[Reply]) -> None:
    """Nobody waits for this reply; a failure has been logged with its batch."""
    if not reply.cancelled():
        reply.exception()


def _can_run_again(error: Exception, inputs: int) -> bool:
    """Whether the inputs of a failed batch are worth a try of their own: not when the database has gone.

    One run that somebody keeps locked is no reason to refuse the others of its batch.
    """
    is_lost = isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.LockNotAvailable)
    return isinstance(error, _CONFLICTS) or (inputs > 1 and not is_lost)
