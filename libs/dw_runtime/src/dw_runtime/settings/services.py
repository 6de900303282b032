"""Settings of calls that the server makes to HTTP targets."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dw_runtime.settings.variable import Var


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What ``invocable_http`` operations may reach."""

    allowed_networks: Annotated[
        tuple[str, ...],
        Var(
            "DW_SERVICE_ALLOWED_NETWORKS",
            "Internal networks or addresses that service operations may call, by commas; plain http is for these only.",
        ),
    ] = ()
    ca_file: Annotated[
        str | None,
        Var("DW_SERVICE_CA_FILE", "File with certificates that service operations trust beside the system's."),
    ] = None
