"""Commands that change or show something once: migrate, bootstrap, check-config."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Mapping

import msgspec

from dw_runtime.process import EXIT_CONFIG
from dw_runtime.settings import Settings, SettingsError, load_audited
from dw_runtime.settings.report import effective
from dw_runtime.telemetry.logs import configure_logs
from dw_standalone.roles import RoleCommand, placed, read_settings


def migrate(environ: Mapping[str, str], step: str) -> int:
    """Run one step of the schema migrations; ``status`` prints where the schema stands as JSON."""
    settings = read_settings(environ)
    configure_logs(settings.telemetry.log_level, role="migrate")
    result = run_migration(required_database_url(settings), step)
    if step == "status":
        print(msgspec.json.format(msgspec.json.encode(result)).decode())
    return 0


def bootstrap(environ: Mapping[str, str]) -> int:
    """Create what a fresh database needs before the first request."""
    settings = read_settings(environ)
    configure_logs(settings.telemetry.log_level, role="bootstrap")
    required_database_url(settings)
    run_bootstrap(settings)
    return 0


def run_migration(database_url: str, step: str) -> object:
    """Run ``expand``, ``contract`` or ``status`` on a database and return what it returns."""
    migrations = importlib.import_module("dw_runtime.store.migrate")
    return asyncio.run(getattr(migrations, step)(database_url))


def run_bootstrap(settings: Settings) -> None:
    """Create the default namespace in the database of ``settings``."""
    prepare = importlib.import_module("dw_runtime.store.bootstrap")
    asyncio.run(prepare.bootstrap(settings))


def required_database_url(settings: Settings) -> str:
    """The database URL; raises :class:`SettingsError` when none is configured."""
    if settings.stores.database_url is None:
        raise SettingsError("No database is configured; set DATABASE_URL, DB_URL or DB_HOST.")
    return settings.stores.database_url


def check_config(environ: Mapping[str, str], role: RoleCommand | None = None) -> int:
    """Print the effective configuration; return 78 when the environment has unknown ``DW_*`` names.

    With a ``role`` it is also built, which reaches no store: raises what would keep that role from starting.
    """
    loaded = load_audited(environ)
    print(effective(loaded))
    for finding in loaded.findings:
        kind = "error" if finding.kind == "unknown" else "warning"
        print(f"dw-server: {kind}: {finding.message}", file=sys.stderr)
    if role is not None:
        role.build()(placed(role, loaded.settings))
    return EXIT_CONFIG if any(finding.kind == "unknown" for finding in loaded.findings) else 0
