"""Settings of bridge adapters."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dw_runtime.settings.variable import SettingsError, Var


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """Who may send events."""

    signature_keys: Annotated[
        str | None,
        Var(
            "DW_BRIDGE_SIGNATURE_KEYS",
            "Keys of adapters whose events must be signed: adapter=key, by commas. X-Bridge-Signature is the hex "
            "HMAC-SHA256 of the body.",
            is_secret=True,
        ),
    ] = None


def read_signature_keys(text: str | None) -> dict[str, str]:
    """The keys by adapter; raises ``SettingsError`` for a part that is not of the form adapter=key."""
    found: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        adapter, separator, key = part.strip().partition("=")
        if not adapter or not separator or not key:
            raise SettingsError("DW_BRIDGE_SIGNATURE_KEYS must be a list of adapter=key.")
        found[adapter] = key
    return found
