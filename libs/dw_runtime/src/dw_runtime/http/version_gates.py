"""The protocol-version gate of each plane (control-plane §4, worker-plane §2)."""

from __future__ import annotations

from typing import Final

from dw_core.protocol.problems import Problem
from dw_core.protocol.versions import (
    WORKER_PROTOCOL_MINOR,
    WORKER_PROTOCOL_VERSION,
    accepts,
    accepts_control_plane,
)
from dw_runtime.http.envelopes import CONTROL_HEADER, WORKER_HEADER
from dw_runtime.http.headers import RawHeaders

_ADVERTISED: Final = WORKER_PROTOCOL_VERSION.encode()
_CONTROL_NAME, _CONTROL_VALUE = CONTROL_HEADER
_WORKER_NAME = WORKER_HEADER[0]


def worker_minor(headers: RawHeaders) -> int:
    """The minor version a worker speaks. Raises ``missing_`` or ``unsupported_protocol_version``."""
    given = headers.get(_WORKER_NAME)
    if given == _ADVERTISED:
        return WORKER_PROTOCOL_MINOR
    minor = accepts(None if given is None else given.decode("latin-1"))
    if isinstance(minor, Problem):
        raise minor
    return minor


def check_control_version(headers: RawHeaders) -> None:
    """Raise ``missing_`` or ``unsupported_control_plane_version`` unless the header says exactly ``2``."""
    given = headers.get(_CONTROL_NAME)
    if given == _CONTROL_VALUE:
        return
    problem = accepts_control_plane(None if given is None else given.decode("latin-1"))
    if problem is not None:
        raise problem
