"""Build cohorts of a task queue: who serves it, and which cohorts an operator drains."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dw_runtime.store.database import Database, Session

_decode = msgspec.json.Decoder(list[dict[str, str]]).decode


class BuildCohort(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of one queue with one build id; None is the unversioned cohort.

    ``live`` and ``stale`` count its workers; ``fingerprints`` has each worker's map from workflow types.
    """

    build_id: str | None
    drain_intent: str
    drained_at: datetime | None
    promoted_at: datetime | None
    rolled_back_at: datetime | None
    is_selected: bool
    live: int
    stale: int
    runtimes: list[str]
    sdk_versions: list[str]
    last_heartbeat_at: datetime | None
    first_seen_at: datetime | None
    fingerprints: list[dict[str, str]]

    @property
    def marks(self) -> dict[str, set[str]]:
        """The fingerprints of each workflow type that its workers tell."""
        found: dict[str, set[str]] = {}
        for fingerprints in self.fingerprints:
            for workflow_type, fingerprint in fingerprints.items():
                found.setdefault(workflow_type, set()).add(fingerprint)
        return found

    @property
    def conflicts(self) -> list[str]:
        """Workflow types of which its workers have different definitions."""
        return sorted(name for name, marks in self.marks.items() if len(marks) > 1)

    @property
    def rollout_status(self) -> str:
        """``active``, ``draining``, ``stale_only`` or ``no_workers``."""
        if self.live:
            return self.drain_intent
        return "stale_only" if self.stale else "no_workers"


class BuildIntent(msgspec.Struct, frozen=True, kw_only=True):
    """What operators want of a cohort; the empty ``build_id`` is the unversioned one."""

    build_id: str
    drain_intent: str
    drained_at: datetime | None
    promoted_at: datetime | None
    rolled_back_at: datetime | None
    is_selected: bool


decode_intent = msgspec.json.Decoder(BuildIntent).decode


class Builds:
    """Reads cohorts."""

    def __init__(self, database: Database, *, stale_after_seconds: int) -> None:
        self._database = database
        self.stale_after_seconds = stale_after_seconds

    async def of_queue(self, namespace: str, queue: str, session: Session | None = None) -> list[BuildCohort]:
        """Every cohort of a queue: active first, named before unversioned, the newest sign of life first.

        With a ``session`` as its transaction sees them.
        """
        read = self._database.read if session is None else session.rows
        rows = await read("list_builds", namespace, queue, self.stale_after_seconds)
        names = BuildCohort.__struct_fields__
        found = [
            BuildCohort(**dict(zip(names, (*values, _decode(fingerprints)), strict=True)))
            for *values, fingerprints in rows
        ]
        return sorted(found, key=_rank)


_RANKS = ("active", "draining", "stale_only", "no_workers")


def _rank(cohort: BuildCohort) -> tuple[int, bool, float, str]:
    heard = cohort.last_heartbeat_at
    age = -heard.timestamp() if heard is not None else 0.0
    return _RANKS.index(cohort.rollout_status), cohort.build_id is None, age, cohort.build_id or ""
