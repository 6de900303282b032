"""What the schema must have, and the verdict on what it has (topology §3.2, ``checks.migrations``)."""

from __future__ import annotations

from collections.abc import Collection

from dw_runtime.discovery.probes import (
    BlockingMigration,
    MigrationStatus,
    OperatorSurface,
    RequiredTable,
    SurfaceIssue,
)
from dw_runtime.store.migration_files import Migration, expected_relations, migrations

BOOKKEEPING_TABLE = "schema_migrations"

OPERATOR_SURFACE = {
    "instance": "workflow_instances",
    "run": "workflow_runs",
    "history_event": "workflow_history_events",
    "task": "workflow_tasks",
    "command": "workflow_commands",
    "link": "workflow_links",
    "activity_execution": "activity_executions",
    "activity_attempt": "activity_attempts",
    "timer": "workflow_timers",
    "failure": "workflow_failures",
    "run_summary": "workflow_run_summaries",
    "run_wait": "workflow_run_waits",
    "run_timeline_entry": "workflow_run_timeline_entries",
    "run_timer_entry": "workflow_run_timer_entries",
    "run_lineage_entry": "workflow_run_lineage_entries",
    "signal": "workflow_signals",
    "update": "workflow_updates",
    "child_projection_repair": "workflow_child_projection_repairs",
}
"""The tables and views operators rely on, by the logical name of what they hold."""

CORE_TABLES = (
    BOOKKEEPING_TABLE,
    "workflow_namespaces",
    "workflow_instances",
    "workflow_runs",
    "workflow_tasks",
    "workflow_history_events",
    "worker_registrations",
)
"""Without these nothing works, whatever the bookkeeping says."""


def inspected_relations(known: Collection[Migration] | None = None) -> list[str]:
    """Every table and view whose existence decides about the status, sorted."""
    created = {table for m in (migrations() if known is None else known) for table in m.creates}
    return sorted({*CORE_TABLES, *OPERATOR_SURFACE.values(), *created})


def judge(
    missing: Collection[str], applied: Collection[str], known: Collection[Migration] | None = None
) -> MigrationStatus:
    """The status of the schema.

    ``missing`` are the inspected relations that do not exist, ``applied`` the keys in the bookkeeping, ``known`` the
    files of this release (all of them when None). An unapplied expand file blocks, unless everything it creates is
    there; an unapplied contract file is pending and harms nobody. Files of a newer release are not ours to judge.
    """
    files = migrations() if known is None else known
    pending = [m for m in files if m.key not in applied]
    unapplied = [m for m in pending if m.phase == "expand"]
    adoptable = [m for m in unapplied if is_adoptable(m, missing)]
    blocking = [m for m in unapplied if m not in adoptable]
    required = {*CORE_TABLES, *expected_relations(files, applied)}
    return MigrationStatus(
        repository_exists=BOOKKEEPING_TABLE not in missing,
        pending_migrations=tuple(m.name if m.phase == "expand" else m.key for m in pending),
        adoptable_migrations=tuple(m.name for m in adoptable),
        blocking_migrations=tuple(
            BlockingMigration(m.name, tuple(table for table in m.creates if table in missing)) for m in blocking
        ),
        missing_tables=tuple(sorted(required.intersection(missing))),
        operator_surface=_surface(missing),
    )


def is_adoptable(migration: Migration, missing: Collection[str]) -> bool:
    """Whether everything an unapplied file creates exists already, so that only its bookkeeping is missing."""
    return bool(migration.creates) and not any(table in missing for table in migration.creates)


def _surface(missing: Collection[str]) -> OperatorSurface:
    tables = tuple(
        RequiredTable(config_key=model, model=model, table=table, available=table not in missing)
        for model, table in OPERATOR_SURFACE.items()
    )
    issues = tuple(
        SurfaceIssue(
            config_key=row.config_key,
            model=row.model,
            table=row.table,
            reason="missing_table",
            message=f"{row.table} does not exist",
        )
        for row in tables
        if not row.available
    )
    return OperatorSurface(available=not issues, required_tables=tables, issues=issues)
