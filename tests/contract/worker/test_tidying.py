"""What the worker plane forgets by itself (topology §5.3, bounded growth)."""

from __future__ import annotations

from tests.contract.worker.client import Client
from tests.harness.worker_plane import ServedPlane

SILENCE = "UPDATE worker_registrations SET last_heartbeat_at = dw_now() - interval '8 days' WHERE worker_id = ANY(%s)"


async def test_a_worker_that_is_long_gone_is_forgotten_unless_it_holds_a_lease(
    client: Client, served: ServedPlane
) -> None:
    for worker_id in ("gone", "busy"):
        await client.register(worker_id)
    await client.start()
    await client.take(worker_id="busy")
    await served.execute(SILENCE, ["gone", "busy"])
    await served.plane.tidying.pass_once()
    kept = await served.execute("SELECT worker_id FROM worker_registrations WHERE namespace = %s", served.namespace)
    assert sorted(worker_id for (worker_id,) in kept) == ["busy", "w-1"]


async def test_a_silent_worker_is_revived_by_its_next_poll(client: Client, served: ServedPlane) -> None:
    await served.execute(
        "UPDATE worker_registrations SET last_heartbeat_at = dw_now() - interval '1 day' WHERE namespace = %s",
        served.namespace,
    )
    await served.plane.tidying.pass_once()
    await client.start()
    assert (await client.take())["workflow_id"] == "w"


async def test_past_minutes_and_idle_shares_are_forgotten(client: Client, served: ServedPlane) -> None:
    await served.execute(
        "INSERT INTO task_dispatch_counters SELECT %s, 0, 'namespace', date_trunc('minute', dw_now()) - age, 1"
        " FROM (VALUES (interval '0'), (interval '2 hours')) v(age)",
        served.namespace,
    )
    await served.execute(
        "INSERT INTO task_queue_shares SELECT %s, 'q', 0, 5, name, 1, 2, dw_now() - age"
        " FROM (VALUES ('new', interval '0'), ('old', interval '2 hours')) v(name, age)",
        served.namespace,
    )
    await served.plane.tidying.pass_once()
    shares = await served.execute("SELECT share FROM task_queue_shares WHERE namespace = %s", served.namespace)
    counters = await served.execute("SELECT 1 FROM task_dispatch_counters WHERE namespace = %s", served.namespace)
    assert (shares, len(counters)) == ([("new",)], 1)
