"""From the pump's answer to what a handler returns or raises."""

from __future__ import annotations

from typing import Any

from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Invalid, Problem


def settle(reply: dict[str, Any] | Rejection) -> dict[str, Any]:
    """The members of a reply, unchanged.

    Raises the :class:`Problem` of a rejection: its reason, message and extra members. A rejection with
    ``validation_failed`` and ``errors`` becomes :class:`Invalid`, so that both names of the error map are there
    (control-plane §5.2).
    """
    if not isinstance(reply, Rejection):
        return reply
    if reply.reason == "validation_failed":
        raise Invalid(reply.fields["errors"], reply.message)
    raise Problem(reply.reason, reply.message, **reply.fields)
