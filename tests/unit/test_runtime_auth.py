"""Who passes where, for every driver and every way of configuring secrets (control-plane §2)."""

from __future__ import annotations

import hmac
import json

import pytest

from dw_core.protocol.problems import Problem
from dw_runtime.auth.authenticator import build_authenticator
from dw_runtime.auth.grants import Grant
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.http.call import Principal
from dw_runtime.settings import SettingsError, load
from dw_runtime.settings.named_tokens import read_named_tokens

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


NAMED = json.dumps(
    [
        {"token": "new-operator-token-0", "subject": "deployer", "roles": ["operator"]},
        {"token": "billing-worker-token", "subject": "billing", "roles": ["worker"], "namespaces": ["Billing"]},
    ]
)


def test_tokens_of_named_principals_open_what_they_say() -> None:
    named = read_named_tokens(NAMED)
    door = build_authenticator(AuthSettings(driver="token", token="the-old-token", named=named))

    def grant(token: str) -> Grant:
        return door.authenticate({b"authorization": b"Bearer " + token.encode()}, b"")

    assert grant("the-old-token").passes == {"worker", "operator", "admin"}
    assert grant("new-operator-token-0").principal == Principal("deployer", "operator", "token")
    worker = grant("billing-worker-token")
    assert (worker.principal.subject, set(worker.passes)) == ("billing", {"worker"})
    assert worker.principal.may_use("billing") and not worker.principal.may_use("default")
    with pytest.raises(Problem):
        grant("another-token-of-nobody")
    assert "billing-worker-token" not in repr(named)
    assert build_authenticator(AuthSettings(driver="token", named=named)).state().status == "ok"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "not valid JSON"),
        ("{}", "must be an array"),
        ('[{"token": "secret-value-secret", "subject": "a", "roles": ["root"]}]', r"Look at \[0\]\.roles"),
        ('[{"token": "short", "subject": "a", "roles": ["admin"]}]', "16 characters"),
        ('[{"token": "secret-value-secret", "subject": "a", "roles": []}]', "roles"),
        ('[{"token": "secret-value-secret", "subject": "a", "roles": ["admin"], "more": 1}]', "must be an array"),
        (json.dumps([{"token": "secret-value-secret", "subject": s, "roles": ["admin"]} for s in "ab"]), "twice"),
    ],
)
def test_named_tokens_that_cannot_be_used_stop_the_start_and_are_not_shown(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as refused:
        load({"DW_PRINCIPAL_TOKENS": text})
    assert "secret-value" not in str(refused.value) and "root" not in str(refused.value)
