"""The statements about service calls on dictionaries; see :mod:`tests.unit.engine.memory`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

import msgspec

from dw_core.services.rows import Operation, OperationKey
from dw_runtime.store.link import Row

Json = dict[str, Any]

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Store(Protocol):
    """What the statements need of the other tables."""

    now: datetime

    def leave(self, rows: list[Json]) -> None:
        """Leave word for runs."""


class ServiceMemory:
    """The catalogue, the calls by id, and who waits for them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: dict[OperationKey, Operation] = {}
        self.calls: dict[str, Json] = {}
        self.waiters: list[Json] = []
        self.statements: dict[str, Callable[..., list[Row]]] = {
            "read_services": self._read,
            "open_service_calls": self._open,
            "add_service_waiters": self._add_waiters,
            "link_service_calls": self._link,
            "move_service_calls": self._move,
            "end_service_calls": self._end,
        }

    @property
    def image(self) -> list[Any]:
        """Everything that is stored."""
        return [list(self.calls.values()), self.waiters]

    def _read(self, operations: str, keys: str, ids: str) -> list[Row]:
        named = [self.operations.get(OperationKey(**row)) for row in _decode(operations)]
        wanted = [list(row.items()) for row in _decode(keys)]
        found = [
            call
            for call_id, call in sorted(self.calls.items())
            if any(all(call[name] == value for name, value in row) for row in wanted)
            or any(row["service_call_id"] == call_id for row in _decode(ids))
        ]
        known = [operation for operation in named if operation is not None]
        return [(_encode(known) if known else None, _encode(found) if found else None)]

    def _open(self, rows: str) -> list[Row]:
        for row in _decode(rows):
            assert row["service_call_id"] not in self.calls, "a call has an id of its own"
            key = (row["endpoint_name"], row["operation_name"], row["caller_namespace"], row["idempotency_key"])
            taken = [
                (c["endpoint_name"], c["operation_name"], c["caller_namespace"], c["idempotency_key"])
                for c in self.calls.values()
            ]
            assert row["idempotency_key"] is None or key not in taken, "one call per idempotency key"
            self._keep(row)
        return []

    def _keep(self, row: Json) -> None:
        is_closed = row["closed_at"] is not None
        assert is_closed == (row["status"] not in {"accepted", "started"}), "a closed call has a closing time"
        assert not is_closed or row["due_at"] is None, "nothing is due of a closed call"
        self.calls[row["service_call_id"]] = row

    def _add_waiters(self, rows: str) -> list[Row]:
        self.waiters.extend(_decode(rows))
        return []

    def _link(self, rows: str) -> list[Row]:
        for row in _decode(rows):
            call = self.calls[row["service_call_id"]]
            if call["closed_at"] is None:
                self._keep(call | row | {"status": "started", "due_at": call["deadline_at"]})
        return []

    def _move(self, rows: str) -> list[Row]:
        for row in _decode(rows):
            for call in list(self.calls.values()):
                if call["linked_run_id"] == row["from_run_id"] and call["closed_at"] is None:
                    self._keep(call | {"linked_run_id": row["to_run_id"]})
        return []

    def _end(self, rows: str) -> list[Row]:
        told: list[str] = []
        for row in _decode(rows):
            name = "service_call_id" if row["service_call_id"] is not None else "linked_run_id"
            for call in [c for c in self.calls.values() if c[name] == row[name] and c["closed_at"] is None]:
                members = ("status", "outcome", "outcome_reason", "reason", "message", "error_type", "response_payload")
                ended = call | {member: row[member] for member in members}
                self._keep(ended | {"closed_at": self._store.now.isoformat(), "due_at": None})
                told += self._tell(call["service_call_id"])
        return [(_encode(told) if told else None, None)]

    def _tell(self, call_id: str) -> list[str]:
        waiting = [row for row in self.waiters if row["service_call_id"] == call_id]
        self.waiters = [row for row in self.waiters if row not in waiting]
        self._store.leave(
            [
                {
                    "run_id": row["run_id"],
                    "kind": "service_call_closed",
                    "sequence": row["sequence"],
                    "body": self.calls[call_id],
                    "created_at": self._store.now.isoformat(),
                }
                for row in waiting
            ]
        )
        return [row["run_id"] for row in waiting]
