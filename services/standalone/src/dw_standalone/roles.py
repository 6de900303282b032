"""The role processes: what each is called, where its code is, and which process class it is by default."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

import msgspec

from dw_runtime.process import run
from dw_runtime.process.role import Build
from dw_runtime.settings import Settings, SettingsError, load_audited


class RoleCommand(msgspec.Struct, frozen=True):
    """A role as a command: ``module`` offers ``build``; shape and class apply when the environment names none."""

    name: str
    module: str
    shape: str
    process_class: str
    summary: str

    def build(self) -> Build:
        """The function that builds the role; its package is imported only now."""
        build: Build = importlib.import_module(self.module).build
        return build


_SPLIT = "split_control_execution"
_STANDALONE = "standalone_server"

ROLES: dict[str, RoleCommand] = {
    role.name: role
    for role in (
        RoleCommand("api-ingress", "dw_api_ingress.main", _SPLIT, "control_plane_node", "Serve the control plane."),
        RoleCommand("matching", "dw_matching.main", _SPLIT, "matching_node", "Serve the worker plane and its sweeps."),
        RoleCommand("scheduler", "dw_scheduler.main", _STANDALONE, "scheduler_node", "Run the clock-driven passes."),
        RoleCommand(
            "standalone", "dw_standalone.main", _STANDALONE, "server_http_node", "Serve both planes on one port."
        ),
    )
}


def run_role(
    role: RoleCommand, environ: Mapping[str, str], host: str | None, port: int | None, processes: int | None
) -> int:
    """Run a role until it is told to stop; return its exit code. Arguments that are not None override variables.

    Raises :class:`SettingsError` for an illegal configuration. Remarks about the environment go to standard error.
    """
    return run(role.build(), role_settings(role, environ, host, port, processes))


def role_settings(
    role: RoleCommand, environ: Mapping[str, str], host: str | None, port: int | None, processes: int | None
) -> Settings:
    """The configuration of a role process."""
    given = {"DW_HTTP_HOST": host, "DW_HTTP_PORT": port, "DW_PROCESSES": processes}
    overlay = {name: str(value) for name, value in given.items() if value is not None}
    return placed(role, read_settings({**environ, **overlay}))


def placed(role: RoleCommand, settings: Settings) -> Settings:
    """The configuration with the role's shape and class where none are given."""
    topology = msgspec.structs.replace(
        settings.topology,
        shape=settings.topology.shape or role.shape,
        process_class=settings.topology.process_class or role.process_class,
    )
    return msgspec.structs.replace(settings, topology=topology)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Load the configuration and say on standard error what the audit found.

    Raises :class:`SettingsError` for illegal values, and for unknown names when ``DW_ENV_AUDIT_STRICT`` is set.
    """
    loaded = load_audited(environ)
    unknown = [finding.message for finding in loaded.findings if finding.kind == "unknown"]
    if unknown and loaded.settings.telemetry.env_audit_strict:
        raise SettingsError(" ".join(unknown))
    for finding in loaded.findings:
        print(f"dw-server: warning: {finding.message}", file=sys.stderr, flush=True)
    return loaded.settings
