"""The protocol-version gate of each plane (control-plane §4, worker-plane §2)."""

from __future__ import annotations

from typing import Final

from dw_core.protocol.problems import Problem
from dw_core.protocol.versions import CONTROL_PLANE_VERSION, WORKER_PROTOCOL_VERSION, accepts
from dw_runtime.http.envelopes import CONTROL_HEADER, WORKER_HEADER
from dw_runtime.http.headers import RawHeaders

_ADVERTISED: Final = WORKER_PROTOCOL_VERSION.encode()
_ADVERTISED_MINOR: Final = int(WORKER_PROTOCOL_VERSION.partition(".")[2])
_CONTROL_NAME, _CONTROL_VALUE = CONTROL_HEADER
_WORKER_NAME = WORKER_HEADER[0]


def worker_minor(headers: RawHeaders) -> int:
    """The minor version a worker speaks. Raises ``missing_`` or ``unsupported_protocol_version``."""
    given = headers.get(_WORKER_NAME)
    if given == _ADVERTISED:
        return _ADVERTISED_MINOR
    return accepts(None if given is None else given.decode("latin-1"))


def check_control_version(headers: RawHeaders) -> None:
    """Raise ``missing_`` or ``unsupported_control_plane_version`` unless the header says exactly ``2``."""
    given = headers.get(_CONTROL_NAME, b"")
    if given == _CONTROL_VALUE:
        return
    requested = given.decode("latin-1").strip()
    if requested == CONTROL_PLANE_VERSION:
        return
    remediation = f"Send X-Durable-Workflow-Control-Plane-Version: {CONTROL_PLANE_VERSION}."
    if not requested:
        raise Problem(
            "missing_control_plane_version",
            "The control-plane version header is missing.",
            supported_version=CONTROL_PLANE_VERSION,
            requested_version=None,
            remediation=remediation,
        )
    raise Problem(
        "unsupported_control_plane_version",
        f"Control-plane version {requested} is not supported.",
        supported_version=CONTROL_PLANE_VERSION,
        requested_version=requested,
        remediation=remediation,
    )
