"""A run is asked by many at once while processes, connections and stores fail: everybody gets an answer, once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.client import PAYLOAD, Client
from tests.chaos.cluster import Cluster
from tests.chaos.desk import DESK, DESK_TYPE, NAMES, OPERATIONS, QUEUE, DeskWorker, catalogue
from tests.chaos.test_faults import SHAPES, Faults, proxied
from tests.harness.databases import migrated_database
from tests.harness.waiting import eventually

ASKERS = 3
TURNS = 2
"""How often each asker asks in every way between two faults."""
SHORT_LEASES = {
    "DW_QUERY_TASK_LEASE_TIMEOUT": "2",
    "DW_QUERY_TASK_TIMEOUT": "5",
    "DW_UPDATE_VALIDATION_LEASE_TIMEOUT": "1",
    "DW_UPDATE_VALIDATION_TIMEOUT": "5",
}
OPEN_CALLS = "SELECT count(*) FROM workflow_service_calls WHERE closed_at IS NULL"
CALLS = "SELECT binding_kind, idempotency_key, status, reason FROM workflow_service_calls"
UPDATES = "SELECT count(*), count(DISTINCT u.update_id) FROM workflow_updates u WHERE u.status = 'completed'"
EVENTS = (
    "SELECT body::json->>'event_type', count(*) FROM workflow_history_events e "
    "JOIN workflow_runs r USING (run_id) WHERE r.workflow_id = %s GROUP BY 1"
)


class Askers:
    """Ask in every way, each question under a key of its own, until it is answered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.asked: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self.keys: set[tuple[str, str]] = set()

    async def turn(self, asker: int) -> None:
        """One question of each kind."""
        number = self.asked["turns"]
        self.asked["turns"] += 1
        for kind in NAMES:
            key = f"{kind}-{number}"
            body = {"idempotency_key": key, "arguments": PAYLOAD["blob"], "payload_codec": "avro"}
            self.keys.add((kind, key))
            await self._send(kind, f"{OPERATIONS}/{kind}/execute", body)
        update = {"request_id": f"{asker}-{number}", "input": [1], "wait_for": "accepted"}
        await self._send("update", f"/api/workflows/{DESK}/update/set", update)
        await self._send("query", f"/api/workflows/{DESK}/query/status", {})

    async def _send(self, name: str, path: str, body: dict[str, Any]) -> None:
        answer = await self._client.send(name, path, body)
        self.asked[name] += 1
        if answer.status not in (200, 202):
            self.unexpected.append(f"{name} {answer.status} {answer.body}")


def rows(database_url: str, statement: str, *parameters: str) -> Iterator[Any]:
    """The rows of a statement."""
    with psycopg.connect(database_url) as connection:
        yield from connection.execute(statement.encode(), parameters).fetchall()


async def test_whoever_asks_is_answered_once(
    postgres_url: str, redis_url: str, tmp_path: Path, rng: random.Random
) -> None:
    with migrated_database(postgres_url) as database_url:
        async with proxied(database_url) as (postgres, seen_database), proxied(redis_url) as (redis, seen_redis):
            stores = {"database_url": seen_database, "redis_url": seen_redis}
            with Cluster(tmp_path, SHAPES["split"], environ=SHORT_LEASES, **stores) as cluster:
                control = Client(cluster.of("standalone", "api-ingress"), rng, mischief=0.3)
                plane = Client(cluster.of("standalone", "matching"), rng, mischief=0.3)
                for path, entry in catalogue():
                    assert (await control.send("catalogue", path, entry)).status in (201, 409)
                workers = [DeskWorker(f"d{number}", plane, rng, mischief=0.3) for number in range(2)]
                for worker in workers:
                    await worker.register()
                start = {"workflow_id": DESK, "workflow_type": DESK_TYPE, "task_queue": QUEUE}
                assert (await control.send("start", "/api/workflows", start)).status in (201, 409)
                working = [asyncio.create_task(worker.run()) for worker in workers]
                askers = Askers(control)
                faults = Faults(cluster, rng, postgres, redis).all()
                rng.shuffle(faults)
                for fault in faults:
                    turns = [askers.turn(asker) for asker in range(ASKERS) for _ in range(TURNS)]
                    await asyncio.gather(fault(), *turns)

                async def all_closed() -> bool:
                    return list(rows(database_url, OPEN_CALLS)) == [(0,)]

                await eventually(all_closed, "every call ends once the faults are over", 90)

                async def all_applied() -> bool:
                    ((count, _),) = rows(database_url, UPDATES)
                    return bool(count == 2 * askers.asked["turns"])

                await eventually(all_applied, "every update is applied, once", 60)
                for worker in workers:
                    worker.is_over = True
                plane.is_over = True
                await asyncio.gather(*working)
                assert askers.unexpected == [] and [w.unexpected for w in workers] == [[], []]
                _check(database_url, askers)
                assert "Traceback" not in cluster.logs()
                assert "never retrieved" not in cluster.logs()


def _check(database_url: str, askers: Askers) -> None:
    calls = list(rows(database_url, CALLS))
    assert len(calls) == len(askers.keys) and {(kind, key) for kind, key, _, _ in calls} == askers.keys
    assert {status for _, _, status, _ in calls} == {"completed"}, [call for call in calls if call[2] != "completed"]
    turns = askers.asked["turns"]
    ((count, distinct),) = rows(database_url, UPDATES)
    assert count == distinct == 2 * turns
    events: dict[str, int] = dict(rows(database_url, EVENTS, DESK))
    assert (events["SignalReceived"], events["UpdateAccepted"], events["UpdateCompleted"]) == (
        turns,
        2 * turns,
        2 * turns,
    )
