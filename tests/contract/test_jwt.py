"""Driver ``jwt``: tokens of an issuer on this machine, with key rotation, roles and namespaces from claims."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from dw_api_ingress.main import build
from dw_runtime.process.role import Role
from dw_runtime.settings import SettingsError, load
from tests.contract.shell_client import Answer, call
from tests.harness.waiting import eventually

AUDIENCE = "durable-workflow"


class Issuer:
    """An OpenID Connect issuer whose keys a test chooses."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {}
        self.reads = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._show)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _discovery(self, request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def _show(self, request: web.Request) -> web.Response:
        self.reads += 1
        shown = []
        for key_id, key in self.keys.items():
            algorithm = (
                jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
            )
            shown.append(algorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": key_id, "use": "sig"})
        return web.json_response({"keys": shown})

    def token(self, key_id: str = "one", key: Any = None, algorithm: str | None = None, **claims: Any) -> str:
        """A token that is good unless a claim says otherwise."""
        key = key or self.keys[key_id]
        algorithm = algorithm or ("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
        body = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "exp": time.time() + 600,
            "roles": ["operator"],
        } | claims
        return jwt.encode({name: value for name, value in body.items() if value is not None}, key, algorithm,
                          headers={"kid": key_id})  # fmt: skip


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    started = Issuer()
    started.keys["one"] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def role(issuer: Issuer, database_url: str) -> AsyncIterator[Role]:
    environ = {
        "DATABASE_URL": database_url,
        "DW_AUTH_DRIVER": "jwt",
        "DW_JWT_ISSUER": issuer.url,
        "DW_JWT_AUDIENCE": AUDIENCE,
        "DW_JWT_ROLE_CLAIM": "roles",
        "DW_JWT_ROLE_MAP": json.dumps({"sre": "admin"}),
        "DW_JWT_NAMESPACE_CLAIM": "dw.namespaces",
    }
    started = build(load(environ))
    await started.startup()
    try:
        await eventually(lambda: is_ready(started), "the keys have been fetched")
        yield started
    finally:
        await started.drain()
        await started.shutdown()


async def is_ready(role: Role) -> bool:
    return bool((await call(role.app, "GET", "/api/ready")).json["checks"]["auth"]["status"] == "ok")


async def ask(role: Role, token: str, path: str = "/api/workflows", method: str = "GET", **headers: str) -> Answer:
    sent = {"authorization": f"Bearer {token}", "x-durable-workflow-control-plane-version": "2"}
    return await call(role.app, method, path, headers=sent | {name.replace("_", "-"): v for name, v in headers.items()})


EVERYWHERE: dict[str, Any] = {"dw": {"namespaces": ["*"]}}


async def test_a_token_of_the_issuer_gives_the_role_of_its_claim(role: Role, issuer: Issuer) -> None:
    assert (await ask(role, issuer.token(**EVERYWHERE))).status == 200
    refused = await ask(role, issuer.token(**EVERYWHERE), "/api/system/health")
    assert (refused.status, refused.json["role"]) == (403, "operator")
    assert (await ask(role, issuer.token(roles=["sre"], **EVERYWHERE), "/api/system/health")).status == 200
    assert (await ask(role, issuer.token(roles="openid operator", **EVERYWHERE))).status == 200
    entries = await ask(role, issuer.token(roles=["admin"], **EVERYWHERE), "/api/system/audit?page_size=1")
    assert entries.status == 200


async def test_odd_times_of_a_token_are_read_or_refused(role: Role, issuer: Issuer) -> None:
    text = issuer.token(exp=str(int(time.time()) + 600), **EVERYWHERE)
    assert [(await ask(role, text)).status for _ in range(2)] == [200, 200]
    for claim in ("exp", "nbf", "iat"):
        for value in (float("inf"), float("-inf"), "soon", [1], 1e308 if claim != "exp" else -1e308):
            odd: dict[str, Any] = {claim: value}
            answer = await ask(role, issuer.token(**odd, **EVERYWHERE))
            assert (claim, value, answer.status) == (claim, value, 401)


async def test_what_is_not_such_a_token_is_unauthorized(role: Role, issuer: Issuer) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for token in (
        "nonsense",
        "a.b.c",
        issuer.token(key=other, **EVERYWHERE),
        issuer.token(exp=time.time() - 3600, **EVERYWHERE),
        issuer.token(aud="somebody-else", **EVERYWHERE),
        issuer.token(iss="https://elsewhere.example", **EVERYWHERE),
        issuer.token(sub=None, **EVERYWHERE),
        issuer.token(exp=None, **EVERYWHERE),
        issuer.token(roles=["guest"], **EVERYWHERE),
        issuer.token(roles=None, **EVERYWHERE),
        issuer.token(nbf=time.time() + 3600, **EVERYWHERE),
        issuer.token(key="s" * 64, algorithm="HS256", **EVERYWHERE),
        "x" * 20_000,
    ):
        answer = await ask(role, token)
        assert (answer.status, answer.json["reason"]) == (401, "unauthorized"), token[:40]


async def test_a_new_key_is_fetched_when_a_token_names_it(role: Role, issuer: Issuer) -> None:
    issuer.keys["two"] = ec.generate_private_key(ec.SECP256R1())

    async def is_accepted() -> bool:
        return (await ask(role, issuer.token("two", **EVERYWHERE))).status == 200

    await eventually(is_accepted, "the token of the new key is accepted", seconds=20)
    reads = issuer.reads
    for _ in range(20):
        stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert (await ask(role, issuer.token("three", key=stranger, **EVERYWHERE))).status == 401
    assert issuer.reads <= reads + 1, "unknown keys do not become a flood of fetches"


async def test_the_issuer_may_be_away_once_its_keys_are_known(role: Role, issuer: Issuer) -> None:
    await issuer.stop()
    assert (await ask(role, issuer.token(**EVERYWHERE))).status == 200
    await issuer.start()


async def test_only_the_namespaces_of_the_claim_are_open(role: Role, issuer: Issuer, unique_namespace: str) -> None:
    admin = issuer.token(roles=["admin"], **EVERYWHERE)
    body = {"name": unique_namespace}
    sent = {"authorization": f"Bearer {admin}", "x-durable-workflow-control-plane-version": "2"}
    assert (await call(role.app, "POST", "/api/namespaces", body=json.dumps(body).encode(), headers=sent)).status == 201
    limited = issuer.token(roles=["admin"], dw={"namespaces": [unique_namespace]})
    assert (await ask(role, limited, x_namespace=unique_namespace)).status == 200
    for path, headers in (
        ("/api/workflows", {}),
        ("/api/workflows", {"x_namespace": "nowhere"}),
        ("/api/namespaces/default", {}),
        ("/api/system/audit?all_namespaces=true", {"x_namespace": unique_namespace}),
    ):
        answer = await ask(role, limited, path, **headers)
        assert (path, answer.status, answer.json["reason"]) == (path, 403, "forbidden")
    listed = (await ask(role, limited, "/api/namespaces", x_namespace=unique_namespace)).json["namespaces"]
    assert [namespace["name"] for namespace in listed] == [unique_namespace]
    deleted = await ask(role, limited, "/api/namespaces/default", "DELETE", x_namespace=unique_namespace)
    assert deleted.status == 403


def test_a_configuration_that_cannot_work_stops_the_start() -> None:
    good = {
        "DATABASE_URL": "postgresql://x",
        "DW_AUTH_DRIVER": "jwt",
        "DW_JWT_ISSUER": "https://i",
        "DW_JWT_AUDIENCE": "a",
    }
    for wrong in (
        {"DW_JWT_ISSUER": ""},
        {"DW_JWT_AUDIENCE": ""},
        {"DW_JWT_ISSUER": "http://issuer.example"},
        {"DW_JWT_JWKS_URL": "http://issuer.example/keys"},
        {"DW_JWT_ROLE_MAP": "[]"},
        {"DW_JWT_ROLE_MAP": '{"a": "king"}'},
    ):
        with pytest.raises(SettingsError):
            build(load(good | wrong))
