"""What every log line of a request carries: its id, its namespace and, once known, its run."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

_request: ContextVar[tuple[str, str] | None] = ContextVar("dw_request", default=None)
_run: ContextVar[str | None] = ContextVar("dw_run", default=None)


def bind_request(request_id: str, namespace: str) -> None:
    """Name the request that the current task serves; one context variable, so the hot path pays for one."""
    _request.set((request_id, namespace))


def bind_run(run_id: str | None) -> None:
    """Name the run that the current task works on."""
    _run.set(run_id)


def add_context(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: add the bound names unless the event brings its own."""
    request = _request.get()
    if request is not None:
        event.setdefault("request_id", request[0])
        event.setdefault("namespace", request[1])
    run_id = _run.get()
    if run_id is not None:
        event.setdefault("run_id", run_id)
    return event
