"""What a role process is, seen from the code that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from dw_runtime.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Role(Protocol):
    """A role, built but not started. All methods run in one event loop, in the order listed here, each once.

    ``app`` is a plain ASGI application; its lifespan events are not used. Errors of ``startup`` that an operator can
    put right are raised as :class:`~dw_runtime.process.StartupError`.
    """

    @property
    def app(self) -> Application:
        """The application that answers this role's requests."""

    async def startup(self) -> None:
        """Open pools and start background loops. The port is opened when this returns."""

    async def drain(self) -> None:
        """Answer readiness with 503 from now on, end held polls, lease nothing more; return when no poll is held.

        The port stays open meanwhile, so that polls end with an answer. Called when the process is told to stop.
        """

    async def shutdown(self) -> None:
        """Let begun commits finish, stop the loops and close the pools. No request is running any more."""


Build = Callable[[Settings], Role]
"""What every service package offers in its ``main`` module: settings to role."""
