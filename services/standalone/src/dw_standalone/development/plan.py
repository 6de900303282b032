"""Which role processes ``dev`` starts, on which ports, with which environment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

TOKEN = "dev-token"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080

AUTH_NAMES = ("DW_AUTH_DRIVER", "DW_AUTH_TOKEN", "DW_PRINCIPAL_TOKENS", "DW_SIGNATURE_KEY")
"""Whoever sets one of these chooses the authentication; otherwise the development token opens everything."""

SPLIT_ENVIRONMENT = {
    "DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution",
    "DW_V2_MATCHING_ROLE_QUEUE_WAKE": "false",
}


class Process(msgspec.Struct, frozen=True):
    """A role process of the plan; ``label`` is what it serves, in words."""

    command: str
    label: str
    host: str
    port: int
    processes: int
    environ: Mapping[str, str]

    @property
    def url(self) -> str:
        """Where the process answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def plan(
    environ: Mapping[str, str], host: str | None, port: int | None, processes: int, is_split: bool
) -> list[Process]:
    """List the processes to start, the one that serves the control plane first.

    ``environ`` already names the stores. Together, both planes share ``port`` and the scheduler listens two ports
    above it; split, the control plane, the worker plane and the scheduler take ``port`` and the next two.
    """
    host, port = host or DEFAULT_HOST, port or DEFAULT_PORT
    common = {**environ, **_defaults(environ)}
    wanted: tuple[tuple[str, str, int, int], ...]
    if is_split:
        common |= SPLIT_ENVIRONMENT
        wanted = (
            ("api-ingress", "control plane", port, processes),
            ("matching", "worker plane", port + 1, processes),
            ("scheduler", "scheduler", port + 2, 1),
        )
    else:
        common["DW_SERVER_TOPOLOGY_SHAPE"] = "standalone_server"
        wanted = (("standalone", "both planes", port, processes), ("scheduler", "scheduler", port + 2, 1))
    return [
        Process(command, label, host, number, count, {**common, "DW_SERVER_ID": f"dev-{command}"})
        for command, label, number, count in wanted
    ]


def _defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings for a developer's machine, where the environment says nothing else."""
    defaults = {"DW_LOG_LEVEL": "warning", "DW_DRAIN_SECONDS": "1"}
    if not any(environ.get(name) or environ.get(f"{name}_FILE") for name in AUTH_NAMES):
        defaults["DW_AUTH_TOKEN"] = TOKEN
    return {name: value for name, value in defaults.items() if not environ.get(name)}
