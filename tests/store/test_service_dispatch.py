"""The dispatcher of service calls: whatever serving comes to, a call ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dw_core.limits import SERVICE_LOST_ATTEMPTS_MAX, Limits
from dw_core.services.invocation import Served
from dw_core.services.rows import CallAttempt, ServiceCall
from dw_matching.broker import Broker
from dw_matching.lookout import Lookout
from dw_matching.service_dispatch import PUT_OFF_SECONDS_MAX, ServiceDispatcher, put_off_seconds
from dw_matching.service_serving import ServiceServer
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.metrics import Metrics
from tests.conftest import NewDatabase
from tests.harness.control_plane import new_id
from tests.harness.waiting import eventually


class Scripted(ServiceServer):
    """Serves by raising or giving what it was told; ``tries`` counts the attempts."""

    def __init__(self, outcome: Served | Exception) -> None:
        self.outcome = outcome
        self.tries = 0

    async def attempt(self, call: ServiceCall, seconds_left: float | None) -> Served | None:
        self.tries += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        return


class Dispatching(msgspec.Struct):
    """A database with a dispatcher."""

    database: Database
    server: Scripted

    async def call(self, **members: Any) -> str:
        """Admit a call that is due; gives its id."""
        before = datetime.now(UTC) - timedelta(seconds=1)
        call = ServiceCall(
            service_call_id=new_id(),
            namespace="default",
            endpoint_name="shop",
            service_name="desk",
            operation_name="greet",
            operation_mode="sync",
            wait_for="completed",
            binding_kind="invocable_http",
            request_payload="",
            accepted_at=before,
            due_at=before,
            **members,
        )
        await self.database.rows("admit_service_call", encode_rows([call]))
        return call.service_call_id

    async def read(self, call_id: str) -> ServiceCall:
        """The call as it stands."""
        ((text,),) = await self.database.read("describe_service_call", call_id)
        return msgspec.json.decode(text, type=ServiceCall)

    async def ended(self, call_id: str) -> ServiceCall:
        """The call once it has ended."""

        async def is_closed() -> bool:
            return not (await self.read(call_id)).is_open

        await eventually(is_closed, "the call ends", 10)
        return await self.read(call_id)


@asynccontextmanager
async def dispatching(url: str, outcome: Served | Exception) -> AsyncIterator[Dispatching]:
    """A dispatcher whose server does as told, and the lookout that tells it of due calls."""
    metrics, server = Metrics(), Scripted(outcome)
    database = Database(url, 4, metrics)
    await database.open()
    pump = Pump(url, metrics, limits=Limits(), publish=lambda keys: None)
    pump.start()
    dispatcher = ServiceDispatcher(database, pump, server, metrics, holder="dispatcher", announce=lambda keys: None)
    dispatcher.start()
    broker = Broker(metrics, probe=lambda keys: None, release=lambda grant: None)
    lookout = Lookout(database, broker, interval_seconds=0.1, on_service_calls=dispatcher.wake)
    lookout.start()
    try:
        yield Dispatching(database, server)
    finally:
        await lookout.stop()
        await dispatcher.stop()
        await pump.stop()
        await database.close()


@pytest.fixture(scope="module")
def url(new_database: NewDatabase) -> Any:
    """A database of this module alone: a dispatcher leases whatever it finds."""
    with new_database("service_dispatch") as made:
        yield made


async def test_an_error_that_nobody_has_foreseen_ends_the_call_as_its_retry_policy_says(url: str) -> None:
    async with dispatching(url, RuntimeError("broken")) as site:
        once = await site.ended(await site.call())
        thrice = await site.ended(
            await site.call(policies={"retry_policy": {"max_attempts": 3, "backoff_seconds": [0]}})
        )
    assert (once.status, once.outcome, once.reason) == ("failed", "handler_failed", "dispatch_failed")
    assert (once.error_type, len(once.attempts)) == ("ServiceDispatchFailed", 1)
    assert (len(thrice.attempts), site.server.tries) == (3, 4)


async def test_a_call_over_which_too_many_dispatchers_were_lost_is_not_tried_again(url: str) -> None:
    async with dispatching(url, Served(outcome="completed")) as site:
        call = await site.ended(await site.call(attempt_count=SERVICE_LOST_ATTEMPTS_MAX))
        tries = site.server.tries
        known = CallAttempt(attempt=1, outcome="handler_failed", closed_at=datetime.now(UTC))
        tried = await site.ended(await site.call(attempt_count=SERVICE_LOST_ATTEMPTS_MAX, attempts=[known]))
    assert (call.error_type, call.reason, tries) == ("ServiceCallNotServed", "dispatch_exhausted", 0)
    assert tried.status == "completed"


async def test_a_call_that_cannot_be_served_now_is_put_off_and_keeps_its_attempts(url: str) -> None:
    async with dispatching(url, OSError("no way")) as site:
        call_id = await site.call()

        async def is_put_off() -> bool:
            return site.server.tries > 0 and (await site.read(call_id)).lease_owner is None

        await eventually(is_put_off, "the call is put off", 10)
        site.server.outcome = Served(outcome="completed")
        call = await site.ended(call_id)
    assert (call.status, len(call.attempts)) == ("completed", 1)


def test_a_call_is_put_off_for_longer_each_time() -> None:
    pauses = [put_off_seconds(lost) for lost in (0, 1, 2, 50)]
    assert pauses == [1.0, 2.0, 4.0, PUT_OFF_SECONDS_MAX]
