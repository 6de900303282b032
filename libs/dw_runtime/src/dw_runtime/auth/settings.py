"""The secrets an authenticator is built from."""

from __future__ import annotations

import msgspec

from dw_runtime.settings.named_tokens import NamedToken


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Driver and secrets (control-plane §2.1); an empty secret counts as not configured.

    ``driver`` is ``none``, ``token`` or ``signature``. ``token`` and ``signature_key`` are the single secrets that
    predate roles; the others give exactly their role. With ``backward_compatible`` the single secret keeps working
    beside role secrets, as a plain administrator. ``named`` are the tokens of named principals.
    """

    driver: str = "token"
    token: str = ""
    worker_token: str = ""
    operator_token: str = ""
    admin_token: str = ""
    signature_key: str = ""
    worker_signature_key: str = ""
    operator_signature_key: str = ""
    admin_signature_key: str = ""
    backward_compatible: bool = True
    named: tuple[NamedToken, ...] = ()

    def __repr__(self) -> str:
        return f"AuthSettings(driver={self.driver!r}, backward_compatible={self.backward_compatible!r}, secrets=hidden)"
