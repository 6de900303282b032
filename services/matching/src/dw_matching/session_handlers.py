"""The worker-session handlers of the worker plane (worker-plane §15)."""

from __future__ import annotations

import msgspec

from dw_core.protocol.problems import Problem
from dw_core.protocol.reasons import REASONS
from dw_core.protocol.requests_worker import WorkerSessionClose, WorkerSessionCreate, WorkerSessionHeartbeat
from dw_core.sessions.reading import read_session
from dw_matching.sessions import WorkerSessions
from dw_runtime.http.call import Call, Handlers, Reply


class SessionHandlers:
    """Translates the requests; the id in the path arrives decoded."""

    def __init__(self, sessions: WorkerSessions) -> None:
        self._sessions = sessions

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "worker_session_create": self.create,
            "worker_session_heartbeat": self.heartbeat,
            "worker_session_close": self.close,
        }

    async def create(self, call: Call) -> Reply:
        """Create a session, or take it over; raises ``invalid_worker_session`` for options that make no sense."""
        request: WorkerSessionCreate = call.body
        options, errors = read_session(msgspec.structs.asdict(request))
        if options is None:
            reason = "invalid_worker_session"
            raise Problem(
                reason,
                "The options of the session are invalid.",
                admitted=False,
                outcome=None,
                status=REASONS[reason],
                errors=errors,
            )
        answer = await self._sessions.create(call.namespace, request.worker_id, options)
        return Reply(answer, answer["status"])

    async def heartbeat(self, call: Call) -> Reply:
        """Renew a session."""
        request: WorkerSessionHeartbeat = call.body
        return Reply(
            await self._sessions.heartbeat(
                call.namespace, request.worker_id, call.params["session_id"], request.lease_seconds
            )
        )

    async def close(self, call: Call) -> Reply:
        """End a session."""
        request: WorkerSessionClose = call.body
        return Reply(await self._sessions.close(call.namespace, request.worker_id, call.params["session_id"]))
