"""What a secret is worth: the principal behind it and the roles it passes for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec

from dw_runtime.http.call import Principal
from dw_runtime.settings.named_tokens import NamedToken

ROLES: Final = ("worker", "operator", "admin")
"""Every role, the most powerful last."""
WORKER: Final = "worker"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"

EVERY_ROLE: Final = frozenset({WORKER, OPERATOR, ADMIN})
_PASSES: Final = {
    WORKER: frozenset({WORKER}),
    OPERATOR: frozenset({OPERATOR}),
    ADMIN: frozenset({OPERATOR, ADMIN}),
}


class Grant(msgspec.Struct, frozen=True):
    """An authenticated caller. A route is open to it when ``passes`` meets the route's ``principals``."""

    principal: Principal
    passes: frozenset[str]


def grant_of(roles: Iterable[str], principal: Callable[[str], Principal]) -> Grant:
    """The grant of somebody who has these roles, at least one; ``principal`` makes them of the most powerful."""
    held = sorted(roles, key=ROLES.index)
    return Grant(principal(held[-1]), frozenset().union(*(_PASSES[role] for role in held)))


class Secret(msgspec.Struct, frozen=True):
    """One configured secret and its grant; shown without its value."""

    value: bytes
    grant: Grant

    def __repr__(self) -> str:
        return f"Secret(value=hidden, role={self.grant.principal.role!r})"


class SecretSet(msgspec.Struct, frozen=True):
    """The secrets of one driver as configured, empty when absent."""

    single: str
    worker: str
    operator: str
    admin: str


def grant_secrets(secrets: SecretSet, method: str, *, backward_compatible: bool) -> tuple[Secret, ...]:
    """Every usable secret with what it grants (control-plane §2.1, §2.2).

    A single secret alone has full access, workers' routes included. Beside role secrets it is a plain administrator,
    or nothing at all without ``backward_compatible``. One value configured for several roles passes for all of them.
    """
    by_value: dict[str, tuple[str, frozenset[str]]] = {}
    for role, value in ((WORKER, secrets.worker), (OPERATOR, secrets.operator), (ADMIN, secrets.admin)):
        if value:
            _merge(by_value, value, role, _PASSES[role])
    if secrets.single and not by_value:
        _merge(by_value, secrets.single, ADMIN, EVERY_ROLE)
    elif secrets.single and backward_compatible:
        _merge(by_value, secrets.single, ADMIN, _PASSES[ADMIN])
    return tuple(
        Secret(value.encode(), Grant(Principal(subject=role, role=role, method=method), passes))
        for value, (role, passes) in by_value.items()
    )


def _merge(by_value: dict[str, tuple[str, frozenset[str]]], value: str, role: str, passes: frozenset[str]) -> None:
    known_role, known_passes = by_value.get(value, (role, frozenset()))
    by_value[value] = (max(role, known_role, key=ROLES.index), known_passes | passes)


def named_secrets(entries: Iterable[NamedToken]) -> tuple[Secret, ...]:
    """The entries with what they grant; names of namespaces are compared in lower case."""
    return tuple(Secret(entry.token.encode(), grant_of(entry.roles, partial(_principal, entry))) for entry in entries)


def _principal(entry: NamedToken, role: str) -> Principal:
    names = None if entry.namespaces is None else frozenset(name.strip().lower() for name in entry.namespaces)
    return Principal(subject=entry.subject, role=role, method="token", namespaces=names)
