"""From the pump's answer to what a handler returns or raises."""

from __future__ import annotations

from typing import Any

from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Problem


def settle(reply: dict[str, Any] | Rejection) -> dict[str, Any]:
    """The members of a reply, unchanged.

    Raises the :class:`Problem` of a rejection: its reason, message and extra members. The map of a
    ``validation_failed`` stands under both of its names (control-plane §5.2).
    """
    if not isinstance(reply, Rejection):
        return reply
    fields = reply.fields
    if reply.reason == "validation_failed":
        fields = fields | {"validation_errors": fields["errors"]}
    raise Problem(reply.reason, reply.message, **fields)
