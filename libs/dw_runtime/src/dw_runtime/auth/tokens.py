"""Driver ``jwt``: bearer tokens that an OpenID Connect issuer has signed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import jwt
import msgspec

from dw_core.protocol.problems import Problem
from dw_runtime.auth.authenticator import AuthState, KeysUnknown
from dw_runtime.auth.grants import ROLES, Grant, grant_of
from dw_runtime.auth.keys import SigningKeys
from dw_runtime.http.call import Principal

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are accepted: asymmetric ones only, so that no public key can pass for a shared secret."""
REMEMBERED_SECONDS: Final = 60.0
"""How long a token that was found good is not checked again."""
REMEMBERED_MAX: Final = 10_000
TOKEN_BYTES_MAX: Final = 16_384
SUBJECT_CHARS_MAX: Final = 255
EVERY_NAMESPACE: Final = "*"


class ClaimRules(msgspec.Struct, frozen=True, kw_only=True):
    """How the claims of a token say who somebody is.

    ``role_map`` leads from the values of ``role_claim`` to roles; a value that is a role needs no entry.
    ``namespace_claim`` holds the namespaces somebody may use, ``*`` for all; without it everybody may use all.
    Claims inside objects are named with dots.
    """

    issuer: str
    audience: str
    role_claim: str = "roles"
    role_map: Mapping[str, str] = {}
    namespace_claim: str | None = None
    leeway_seconds: int = 30


class JwtAuthenticator:
    """Checks signature, issuer, audience and time of a token, and turns its claims into a grant."""

    reads_body = False

    def __init__(self, rules: ClaimRules, keys: SigningKeys) -> None:
        self.keys = keys
        self._rules = rules
        self._known: OrderedDict[bytes, tuple[float, Grant]] = OrderedDict()

    def authenticate(self, headers: Mapping[bytes, bytes], body: bytes) -> Grant:
        """The caller's grant. Raises ``unauthorized``, and ``KeysUnknown`` when the key of the token is not known."""
        scheme, _, credential = headers.get(b"authorization", b"").strip().partition(b" ")
        token = credential.strip() if scheme.lower() == b"bearer" else b""
        if not token or len(token) > TOKEN_BYTES_MAX:
            raise _unauthorized("This endpoint needs a bearer token of the configured issuer.")
        known = self._known.get(token)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        claims = self._claims(token)
        grant = self._grant(claims)
        left = min(REMEMBERED_SECONDS, claims["exp"] + self._rules.leeway_seconds - time.time())
        self._known[token] = (time.monotonic() + left, grant)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return grant

    async def refresh(self) -> None:
        """Fetch the keys again."""
        await self.keys.refresh()

    def state(self) -> AuthState:
        """Not ready before the keys of the issuer are known."""
        if self.keys.are_known:
            return AuthState("ok", "jwt")
        return AuthState("missing", "jwt", "Let this process reach the keys of the issuer (DW_JWT_JWKS_URL).")

    def _claims(self, token: bytes) -> dict[str, Any]:
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            key = self.keys.find(key_id)
            if key is None:
                raise KeysUnknown
            return jwt.decode(
                token,
                key=key.key,
                algorithms=[name for name in ALGORITHMS if key.algorithm_name in (None, name)],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_seconds,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise _unauthorized("The token has expired.") from None
        except jwt.PyJWTError:
            # Why it is not good would help whoever makes one up.
            raise _unauthorized("The token is not one of the configured issuer for this server.") from None

    def _grant(self, claims: Mapping[str, Any]) -> Grant:
        named = _texts(_claim(claims, self._rules.role_claim))
        roles = {self._rules.role_map.get(name, name) for name in named} & set(ROLES)
        if not roles:
            raise _unauthorized("The token gives its bearer no role on this server.")
        namespaces: frozenset[str] | None = None
        if self._rules.namespace_claim is not None:
            allowed = _texts(_claim(claims, self._rules.namespace_claim))
            namespaces = None if EVERY_NAMESPACE in allowed else frozenset(name.strip().lower() for name in allowed)
        subject = str(claims["sub"])[:SUBJECT_CHARS_MAX]
        return grant_of(roles, lambda role: Principal(subject, role, "jwt", namespaces))


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or inside objects by the names on the way to it."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any) -> list[str]:
    """A claim as a list of texts: a list, or one text with spaces between its parts as in ``scope``."""
    if isinstance(value, str):
        return value.split()
    return [member for member in value if isinstance(member, str)] if isinstance(value, list) else []


def _unauthorized(message: str) -> Problem:
    return Problem("unauthorized", message)
