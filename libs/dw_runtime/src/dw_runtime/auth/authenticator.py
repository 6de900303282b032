"""The drivers behind one interface; ``none``, ``token`` and ``signature`` are here, ``jwt`` has a module of its own."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from dw_core.protocol.problems import Problem
from dw_runtime.auth.grants import ADMIN, EVERY_ROLE, Grant, Secret, SecretSet, grant_secrets, named_secrets
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.http.call import Principal


class AuthState(msgspec.Struct, frozen=True):
    """The ``auth`` check of readiness: ``status`` ok|missing|invalid, and a remediation unless ok (topology §3.2)."""

    status: str
    driver: str
    remediation: str | None = None


class KeysUnknown(Exception):
    """The credential was signed with a key that is not known yet; :meth:`Authenticator.refresh` may find it."""


class Authenticator(Protocol):
    """Turns a credential into a grant. Unless it ``reads_body``, the headers are all it needs."""

    reads_body: bool

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        """The caller's grant. Raises ``unauthorized`` (401), or ``server_error`` (500) when misconfigured."""

    def state(self) -> AuthState:
        """Whether the configuration can authenticate anybody."""

    async def refresh(self) -> None:
        """Learn keys that were not known; called after ``KeysUnknown``."""


class Unchanging:
    """A driver whose secrets are those of the configuration."""

    reads_body = False

    async def refresh(self) -> None:
        """There is nothing to learn."""


class OpenDoor(Unchanging):
    """Driver ``none``: everybody is an anonymous administrator who passes every role check."""

    _grant: Final = Grant(Principal(subject="anonymous", role=ADMIN, method="none"), EVERY_ROLE)

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        return self._grant

    def state(self) -> AuthState:
        return AuthState("ok", "none")


class TokenAuthenticator(Unchanging):
    """Driver ``token``: ``Authorization: Bearer <token>``."""

    def __init__(self, secrets: tuple[Secret, ...]) -> None:
        self._secrets = secrets

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        scheme, _, credential = headers.get(b"authorization", b"").strip().partition(b" ")
        given = credential.strip() if scheme.lower() == b"bearer" else b""
        found: Grant | None = None
        for secret in self._secrets:  # no early exit: the time must not tell which secret matched
            if hmac.compare_digest(secret.value, given):
                found = secret.grant
        if found is None:
            raise _unauthorized("a valid bearer token")
        return found

    def state(self) -> AuthState:
        return AuthState("ok", "token")


class SignatureAuthenticator(Unchanging):
    """Driver ``signature``: ``X-Signature`` is the lower-case hex HMAC-SHA256 of the raw request body."""

    reads_body = True

    def __init__(self, secrets: tuple[Secret, ...]) -> None:
        self._secrets = secrets

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        given = headers.get(b"x-signature", b"").strip()
        found: Grant | None = None
        for secret in self._secrets:
            if hmac.compare_digest(hmac.digest(secret.value, body, "sha256").hex().encode(), given):
                found = secret.grant
        if found is None:
            raise _unauthorized("a valid X-Signature")
        return found

    def state(self) -> AuthState:
        return AuthState("ok", "signature")


class Misconfigured(Unchanging):
    """No usable secret, or an unknown driver: every request is refused as our own fault (control-plane §2.1)."""

    def __init__(self, state: AuthState) -> None:
        self._state = state

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        raise Problem("server_error", "Authentication is not configured on this server.")

    def state(self) -> AuthState:
        return self._state


def build_authenticator(settings: AuthSettings) -> Authenticator:
    """The authenticator for ``settings``; a configuration that cannot work gives one that refuses everybody."""
    if settings.driver == "none":
        return OpenDoor()
    if settings.driver == "token":
        configured = SecretSet(settings.token, settings.worker_token, settings.operator_token, settings.admin_token)
        variable = "DW_AUTH_TOKEN"
    elif settings.driver == "signature":
        configured = SecretSet(
            settings.signature_key,
            settings.worker_signature_key,
            settings.operator_signature_key,
            settings.admin_signature_key,
        )
        variable = "DW_SIGNATURE_KEY"
    else:
        # An unknown name is not echoed: readiness is public and the value could be a misplaced secret.
        return Misconfigured(AuthState("invalid", "custom", "Set DW_AUTH_DRIVER to none, token or signature."))
    secrets = grant_secrets(configured, settings.driver, backward_compatible=settings.backward_compatible)
    if settings.driver == "token":
        secrets += named_secrets(settings.named)
    if not secrets:
        return Misconfigured(AuthState("missing", settings.driver, f"Set {variable} or a secret per role."))
    return TokenAuthenticator(secrets) if settings.driver == "token" else SignatureAuthenticator(secrets)


def _unauthorized(wanted: str) -> Problem:
    return Problem("unauthorized", f"This endpoint needs {wanted}.")
