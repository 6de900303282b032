"""Who gave a command: what its record keeps of the request."""

from __future__ import annotations

from typing import Any

from dw_runtime.http.call import Call


def requester(call: Call) -> dict[str, str]:
    """The caller as the code of a workflow that is to be cancelled sees it; empty names are left out (engine §6.12)."""
    principal = call.principal
    known = {"type": principal.role, "id": principal.subject}
    return {name: value for name, value in known.items() if value} or {"type": "anonymous"}


def command_context(call: Call) -> dict[str, Any]:
    """The ``context`` of a command record (control-plane §8.3)."""
    principal = call.principal
    return {
        "caller": {"subject": principal.subject, "role": principal.role},
        "auth": {"method": principal.method},
        "request": {
            "id": call.request_id,
            "name": call.route.name,
            "method": call.route.method,
            "route": call.route.path,
            "address": call.address,
        },
    }
