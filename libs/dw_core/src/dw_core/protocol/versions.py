"""Version negotiation of both planes: what is advertised, what a request may ask for."""

from __future__ import annotations

import re

from dw_core.protocol.problems import Problem

WORKER_PROTOCOL_VERSION = "1.20"
WORKER_PROTOCOL_MAJOR, WORKER_PROTOCOL_MINOR = 1, 20
WORKER_PROTOCOL_HEADER = "X-Durable-Workflow-Protocol-Version"
CONTROL_PLANE_VERSION = "2"
CONTROL_PLANE_HEADER = "X-Durable-Workflow-Control-Plane-Version"
ACCEPTED_WORKER_VERSIONS = tuple(f"{WORKER_PROTOCOL_MAJOR}.{minor}" for minor in range(WORKER_PROTOCOL_MINOR + 1))

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")


def accepts(header: str | None) -> int | Problem:
    """The minor a worker asked for, or the refusal (worker-plane §2).

    ``header`` is the value of ``X-Durable-Workflow-Protocol-Version``, None when absent; blanks around it are ignored.
    The same major and a minor up to ours is accepted, compared as integers.
    """
    requested = (header or "").strip()
    remediation = f"Send {WORKER_PROTOCOL_HEADER} with {WORKER_PROTOCOL_MAJOR}.0 up to {WORKER_PROTOCOL_VERSION}."
    if not requested:
        return Problem(
            "missing_protocol_version",
            f"The header {WORKER_PROTOCOL_HEADER} is missing.",
            supported_version=WORKER_PROTOCOL_VERSION,
            requested_version=None,
            remediation=remediation,
        )
    parsed = _VERSION.fullmatch(requested)
    if parsed and int(parsed[1]) == WORKER_PROTOCOL_MAJOR and int(parsed[2]) <= WORKER_PROTOCOL_MINOR:
        return int(parsed[2])
    return Problem(
        "unsupported_protocol_version",
        f"This server does not speak worker protocol {requested[:64]}.",
        supported_version=WORKER_PROTOCOL_VERSION,
        requested_version=requested[:64],
        remediation=remediation,
    )


def accepts_control_plane(header: str | None) -> Problem | None:
    """The refusal of a control-plane version, or None when it is exactly ours after trimming (control-plane §4)."""
    requested = (header or "").strip()
    if requested == CONTROL_PLANE_VERSION:
        return None
    remediation = f"Send {CONTROL_PLANE_HEADER}: {CONTROL_PLANE_VERSION}."
    if not requested:
        return Problem(
            "missing_control_plane_version",
            f"The header {CONTROL_PLANE_HEADER} is missing.",
            supported_version=CONTROL_PLANE_VERSION,
            requested_version=None,
            remediation=remediation,
        )
    return Problem(
        "unsupported_control_plane_version",
        f"This server does not speak control-plane version {requested[:64]}.",
        supported_version=CONTROL_PLANE_VERSION,
        requested_version=requested[:64],
        remediation=remediation,
    )
