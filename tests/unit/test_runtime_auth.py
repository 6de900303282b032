"""Who passes where, for every driver and every way of configuring secrets (control-plane §2)."""

from __future__ import annotations

import hmac

import pytest

from dw_core.protocol.problems import Problem
from dw_runtime.auth.authenticator import build_authenticator
from dw_runtime.auth.settings import AuthSettings

ROLES = AuthSettings(token="single", worker_token="w", operator_token="o", admin_token="a")


def _role_and_passes(settings: AuthSettings, header: str) -> tuple[str, set[str]]:
    grant = build_authenticator(settings).authenticate({b"authorization": header.encode()}, b"")
    return grant.principal.role, set(grant.passes)


def _reason(settings: AuthSettings, headers: dict[bytes, bytes], body: bytes = b"") -> str:
    with pytest.raises(Problem) as refused:
        build_authenticator(settings).authenticate(headers, body)
    return refused.value.reason


def test_a_single_token_alone_has_full_access() -> None:
    assert _role_and_passes(AuthSettings(token="t"), "Bearer t") == ("admin", {"worker", "operator", "admin"})


def test_beside_role_tokens_the_single_token_is_a_plain_administrator() -> None:
    assert _role_and_passes(ROLES, "Bearer single") == ("admin", {"operator", "admin"})


def test_without_backward_compatibility_the_single_token_is_refused_beside_role_tokens() -> None:
    settings = AuthSettings(token="single", worker_token="w", backward_compatible=False)
    assert _reason(settings, {b"authorization": b"Bearer single"}) == "unauthorized"


@pytest.mark.parametrize(
    ("token", "role", "passes"),
    [
        ("w", "worker", {"worker"}),
        ("o", "operator", {"operator"}),
        ("a", "admin", {"operator", "admin"}),
    ],
)
def test_role_tokens_give_exactly_their_role(token: str, role: str, passes: set[str]) -> None:
    assert _role_and_passes(ROLES, f"Bearer {token}") == (role, passes)
    assert _role_and_passes(ROLES, f"bearer   {token} ") == (role, passes)


def test_one_value_for_several_roles_passes_for_all_of_them() -> None:
    settings = AuthSettings(worker_token="same", operator_token="same")
    assert _role_and_passes(settings, "Bearer same") == ("operator", {"worker", "operator"})


@pytest.mark.parametrize("header", [b"", b"Bearer", b"Bearer ", b"Basic w", b"w", b"Bearer w x", b"Bearer \xff"])
def test_anything_else_is_unauthorized(header: bytes) -> None:
    assert _reason(ROLES, {b"authorization": header}) == "unauthorized"
    assert _reason(ROLES, {}) == "unauthorized"


def test_a_signature_covers_the_raw_body_in_lower_case_hex() -> None:
    settings = AuthSettings(driver="signature", worker_signature_key="wk", admin_signature_key="ak", token="t")
    body = b'{"a": 1}'
    signature = hmac.new(b"wk", body, "sha256").hexdigest().encode()
    grant = build_authenticator(settings).authenticate({b"x-signature": signature}, body)
    assert (grant.principal.role, grant.principal.method) == ("worker", "signature")
    assert _reason(settings, {b"x-signature": signature}, b'{"a":1}') == "unauthorized"
    assert _reason(settings, {b"x-signature": signature.upper()}, body) == "unauthorized"
    assert _reason(settings, {b"authorization": b"Bearer t"}, body) == "unauthorized"


def test_driver_none_lets_everybody_pass_everywhere() -> None:
    grant = build_authenticator(AuthSettings(driver="none")).authenticate({}, b"")
    assert (grant.principal.subject, grant.principal.role) == ("anonymous", "admin")
    assert grant.passes == {"worker", "operator", "admin"}


@pytest.mark.parametrize(
    ("settings", "status", "driver"),
    [
        (AuthSettings(), "missing", "token"),
        (AuthSettings(driver="signature", token="t"), "missing", "signature"),
        (AuthSettings(driver="ldap", token="t"), "invalid", "custom"),
    ],
)
def test_a_configuration_that_cannot_work_is_our_fault_and_shows_in_its_state(
    settings: AuthSettings, status: str, driver: str
) -> None:
    assert _reason(settings, {b"authorization": b"Bearer t"}) == "server_error"
    state = build_authenticator(settings).state()
    assert (state.status, state.driver) == (status, driver)
    assert state.remediation


def test_secrets_never_show() -> None:
    settings = AuthSettings(token="hush-hush", worker_signature_key="hush-hush")
    authenticator = build_authenticator(settings)
    assert "hush" not in repr(settings) + repr(vars(authenticator)) + str(settings)
