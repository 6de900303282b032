"""From environment variables to a configuration, or to a refusal in plain sentences."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dw_core.leases.durations import LEASE_SECONDS, LeaseTooShort, effective_lease_seconds
from dw_core.services.addresses import read_networks
from dw_core.workers.admission import parse_overrides
from dw_runtime.settings import audit
from dw_runtime.settings.model import GROUPS, REGISTRY, Settings
from dw_runtime.settings.named_tokens import read_named_tokens
from dw_runtime.settings.urls import (
    checked_redis_url,
    database_url_from_parts,
    normal_database_url,
    redis_url_from_parts,
    with_database_tls,
    with_redis_tls,
)
from dw_runtime.settings.variable import Declared, SettingsError, parse

Values = dict[str, dict[str, Any]]


class Loaded(msgspec.Struct, frozen=True):
    """A configuration, what the audit found, and the variable each value came from.

    ``sources`` maps ``group.field`` to the name of the variable that supplied it; fields that kept their default are
    absent.
    """

    settings: Settings
    findings: tuple[audit.Finding, ...]
    sources: Mapping[str, str]


def load(environ: Mapping[str, str]) -> Settings:
    """Read the configuration of a process at boot.

    Raises :class:`SettingsError` for illegal values, and for unknown ``DW_*`` names when ``DW_ENV_AUDIT_STRICT`` is
    set. Without it the audit's findings are left to the caller (see :func:`load_audited`).
    """
    loaded = load_audited(environ)
    unknown = [finding.message for finding in loaded.findings if finding.kind == "unknown"]
    if unknown and loaded.settings.telemetry.env_audit_strict:
        raise SettingsError(" ".join(unknown))
    return loaded.settings


def load_audited(environ: Mapping[str, str]) -> Loaded:
    """Read the configuration and audit the environment; raises :class:`SettingsError` for illegal values."""
    if environ.get("DW_AUTH_PROVIDER"):
        raise SettingsError("DW_AUTH_PROVIDER names a class this server cannot load; use DW_AUTH_DRIVER.")
    values: Values = {group: {} for group in GROUPS}
    sources: dict[str, str] = {}
    findings = [*audit.unknown(environ), *audit.ignored(environ)]
    for declared in REGISTRY:
        found = _text_of(declared, environ)
        if found is None:
            continue
        name, text = found
        values[declared.group][declared.field] = parse(declared, name, text)
        sources[f"{declared.group}.{declared.field}"] = name
        if name.startswith("WORKFLOW_"):
            findings.append(audit.legacy(name, declared.var.name))
    _fill_stores(values, environ, sources)
    _fill_derived(values)
    groups = {group: struct(**values[group]) for group, struct in GROUPS.items()}
    settings = msgspec.convert(groups, Settings)
    _check(settings)
    return Loaded(settings, tuple(findings), sources)


def _text_of(declared: Declared, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The first name of a setting that has a value, with that value; an empty value counts as unset."""
    var = declared.var
    for name in (var.name, *var.also, *var.legacy_names()):
        text = environ.get(name, "")
        path = environ.get(f"{name}_FILE", "") if var.is_secret else ""
        if text and path:
            raise SettingsError(f"{name} and {name}_FILE are both set; keep one of them.")
        if path:
            return name, read_secret(f"{name}_FILE", path)
        if text.strip():
            return name, text.strip()
    return None


def read_secret(name: str, path: str) -> str:
    """Read the file a ``*_FILE`` variable names, without its final line break; raises :class:`SettingsError`."""
    try:
        text = Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{name} names {path}, which cannot be read: {reason}.") from None
    if not text:
        raise SettingsError(f"{name} names {path}, which is empty.")
    return text


def _fill_stores(values: Values, environ: Mapping[str, str], sources: dict[str, str]) -> None:
    stores = values["stores"]
    if environ.get("DB_CONNECTION", "pgsql") not in ("", "pgsql"):
        raise SettingsError("DB_CONNECTION must be pgsql: Postgres is the only database of this server.")
    parts = dict(environ)
    for name in ("DB_PASSWORD", "REDIS_PASSWORD"):
        if environ.get(f"{name}_FILE"):
            parts[name] = read_secret(f"{name}_FILE", environ[f"{name}_FILE"])
    if "database_url" not in stores and (url := database_url_from_parts(parts)):
        stores["database_url"], sources["stores.database_url"] = url, "DB_HOST"
    if "redis_url" not in stores and (url := redis_url_from_parts(parts)):
        stores["redis_url"], sources["stores.redis_url"] = url, "REDIS_HOST"
    if "database_url" in stores:
        stores["database_url"] = with_database_tls(normal_database_url(stores["database_url"]), parts)
    if "redis_url" in stores:
        stores["redis_url"] = with_redis_tls(checked_redis_url(stores["redis_url"]), parts)


def _fill_derived(values: Values) -> None:
    """Give the settings whose default depends on others their value."""
    polling, leases, workers = values["polling"], values["leases"], values["workers"]
    poll_timeout = polling.get("poll_timeout_seconds", 30)
    values["topology"].setdefault("server_id", socket.gethostname())
    polling.setdefault("wake_signal_ttl_seconds", max(poll_timeout + 5, 60))
    leases.setdefault("query_timeout_seconds", max(poll_timeout, 1))
    leases.setdefault("query_lease_seconds", leases["query_timeout_seconds"])
    workers.setdefault(
        "stale_after_seconds", max(2 * poll_timeout, 2 * workers.get("heartbeat_interval_seconds", 60) + 5)
    )


def _check(settings: Settings) -> None:
    """Refuse combinations that are illegal although each value alone is legal."""
    leases = settings.leases
    for name, seconds in (
        ("DW_WORKFLOW_TASK_TIMEOUT", leases.workflow_task_lease_seconds),
        ("DW_ACTIVITY_TASK_TIMEOUT", leases.activity_task_lease_seconds),
    ):
        try:
            effective_lease_seconds(seconds, leases.allow_unsafe_limits)
        except LeaseTooShort:
            raise SettingsError(f"{name} below {LEASE_SECONDS} needs DW_ALLOW_UNSAFE_LIMITS=true.") from None
    if settings.admission.overrides is not None:
        try:
            parse_overrides(settings.admission.overrides)
        except ValueError as wrong:
            raise SettingsError(f"DW_TASK_QUEUE_ADMISSION_OVERRIDES {wrong}.") from None
    try:
        read_networks(settings.services.allowed_networks)
    except ValueError as wrong:
        raise SettingsError(f"DW_SERVICE_ALLOWED_NETWORKS: {wrong}.") from None
    if settings.services.ca_file is not None and not Path(settings.services.ca_file).is_file():
        raise SettingsError(f"DW_SERVICE_CA_FILE names {settings.services.ca_file}, which is no file.")
    if settings.protocol.history_page_size_default > settings.protocol.history_page_size_max:
        raise SettingsError("DW_HISTORY_PAGE_SIZE_DEFAULT must not exceed DW_HISTORY_PAGE_SIZE_MAX.")
    if settings.workers.stale_after_seconds <= settings.workers.heartbeat_interval_seconds:
        raise SettingsError("DW_WORKER_STALE_AFTER_SECONDS must exceed DW_WORKER_HEARTBEAT_INTERVAL_SECONDS.")
    if settings.auth.principal_tokens is not None:
        read_named_tokens(settings.auth.principal_tokens)
