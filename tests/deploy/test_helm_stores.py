"""Postgres, Redis and secrets: the same way for pods, jobs and tests, and never more connections than there are."""

from __future__ import annotations

from typing import Any

import pytest

from dw_runtime.settings import load
from tests.deploy.chart import Object, Rendered, refusal, render, server_containers, variables

SPLIT, FULL, ARGO, STANDALONE = "split-minimal", "split-full", "split-argo", "standalone-minimal"
SECRETS = "/etc/durable-workflow/secrets"
STORES = ("DB_", "DATABASE_URL")


def store_variables(container: Object) -> dict[str, Any]:
    """The variables that lead to Postgres."""
    return {name: value for name, value in variables(container).items() if name.startswith(STORES)}


def by_owner(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """Those of every container that has any, by the name of its object without the release."""
    found = {}
    for owner, container in server_containers(rendered):
        if store_variables(container):
            found[f"{owner.removeprefix('dw-durable-workflow-')}/{container['name']}"] = store_variables(container)
    return found


def test_pods_jobs_and_tests_reach_postgres_with_the_same_variables() -> None:
    owners = by_owner(render(SPLIT))
    assert owners.keys() == {
        *("api-ingress/server", "matching/server", "scheduler/server", "expand/migrate", "test-workflow/schema")
    }
    first, *others = owners.values()
    assert all(other == first for other in others)
    assert first == {
        "DB_HOST": "postgres.db.svc",
        "DB_PORT": "5432",
        "DB_DATABASE": "durable_workflow",
        "DB_USERNAME": "durable_workflow",
        "DB_PASSWORD_FILE": f"{SECRETS}/postgres/password",
        "DB_SSLMODE": "verify-full",
        "DB_SSLROOTCERT": f"{SECRETS}/postgres/ca.crt",
    }


def test_behind_a_pooler_migrations_go_straight_to_postgres() -> None:
    owners = by_owner(render(FULL))
    direct, pooled = owners["expand/migrate"], owners["matching/server"]
    assert (direct["DB_HOST"], direct["DB_PORT"]) == ("postgres.db.svc", "5432")
    assert (pooled["DB_HOST"], pooled["DB_PORT"]) == ("pgbouncer.db.svc", "6432")
    assert owners["test-workflow/schema"] == direct
    for name in pooled.keys() - {"DB_HOST", "DB_PORT"}:
        assert direct[name] == pooled[name], name
    assert pooled["DB_SSLCERT"] == f"{SECRETS}/postgres/tls.crt"
    assert pooled["DB_USERNAME"] == {"secretKeyRef": {"name": "durable-workflow-postgres", "key": "username"}}


def test_urls_come_from_the_secret_with_one_of_their_own_for_migrations() -> None:
    owners = by_owner(render(ARGO))
    assert owners["matching/server"]["DATABASE_URL_FILE"] == f"{SECRETS}/postgres/url"
    jobs = [values for owner, values in owners.items() if owner.endswith("/migrate")]
    assert len(jobs) == 2
    for values in jobs:
        assert values["DATABASE_URL_FILE"] == f"{SECRETS}/postgres/direct-url"
        assert values["DB_SSLROOTCERT"] == f"{SECRETS}/postgres/ca.crt"
        assert "DB_HOST" not in values


def test_the_server_understands_what_the_chart_says_of_tls(tmp_path: Any) -> None:
    values = {
        name: value.replace(SECRETS, str(tmp_path))
        for name, value in variables(render(FULL).container("-matching")).items()
        if isinstance(value, str) and name.startswith(("DB_", "REDIS_"))
    }
    for store in ("postgres", "redis"):
        (tmp_path / store).mkdir()
        (tmp_path / store / "password").write_text("secret")
    stores = load({**values, "DB_USERNAME": "u"}).stores
    assert stores.database_url == (
        "postgresql://u:secret@pgbouncer.db.svc:6432/durable_workflow?sslmode=verify-full"
        f"&sslrootcert={tmp_path}/postgres/ca.crt&sslcert={tmp_path}/postgres/tls.crt&sslkey={tmp_path}/postgres/tls.key"
    )
    assert stores.redis_url == f"rediss://:secret@valkey.cache.svc:6379/0?ssl_ca_certs={tmp_path}/redis/ca.crt"


def test_private_keys_are_readable_for_the_group_of_the_pod_only() -> None:
    spec = render(FULL).one("Deployment", "-matching")["spec"]["template"]["spec"]
    (volume,) = [it for it in spec["volumes"] if it["name"] == "secrets"]
    assert volume["projected"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == 65532


def test_jobs_see_the_secrets_of_the_database_only() -> None:
    job = render(FULL).one("Job", "-expand")["spec"]["template"]["spec"]
    (volume,) = [it for it in job["volumes"] if it["name"] == "secrets"]
    names = {source["secret"]["name"] for source in volume["projected"]["sources"]}
    assert names == {"durable-workflow-postgres", "durable-workflow-postgres-tls"}
    assert variables(job["containers"][0]).keys().isdisjoint({"REDIS_HOST", "DW_ADMIN_TOKEN_FILE"})


@pytest.mark.parametrize("name", [SPLIT, STANDALONE])
def test_without_redis_no_variable_speaks_of_it(name: str) -> None:
    for _, container in server_containers(render(name)):
        assert not [it for it in variables(container) if it.startswith("REDIS_")]
    assert "There is no Redis" in render(name).notes
    assert "There is no Redis" not in render(FULL).notes


def test_tokens_are_files_of_the_one_secret() -> None:
    env = render(SPLIT).env("-api-ingress")
    for role in ("WORKER", "OPERATOR", "ADMIN"):
        assert env[f"DW_{role}_TOKEN_FILE"] == f"{SECRETS}/auth/DW_{role}_TOKEN"
    assert "DW_AUTH_TOKEN_FILE" not in env
    alone = render(STANDALONE).env("-server")
    assert alone["DW_AUTH_TOKEN_FILE"] == f"{SECRETS}/auth/DW_AUTH_TOKEN" and "DW_WORKER_TOKEN_FILE" not in alone


def test_an_issuer_of_tokens_is_named_with_its_roles() -> None:
    env = render(ARGO).env("-api-ingress")
    assert (env["DW_AUTH_DRIVER"], env["DW_JWT_ISSUER"]) == ("jwt", "https://issuer.example.com")
    assert env["DW_JWT_ROLE_MAP"] == '{"platform-team":"admin"}' and "DW_JWT_JWKS_URL" not in env


def test_settings_that_are_secrets_come_from_files() -> None:
    env = render(FULL).env("-scheduler")
    assert env["DW_EXTERNAL_PAYLOAD_DISKS_FILE"] == f"{SECRETS}/settings/DW_EXTERNAL_PAYLOAD_DISKS"


def test_the_budget_refuses_with_its_numbers() -> None:
    said = refusal(SPLIT, {"postgres": {"maxConnections": 90}})
    assert (
        "The roles may open 82 connections, and postgres.maxConnections 90 less postgres.reservedConnections 10" in said
    )
    assert "matching: (2 pods + 1 surge) x 1 processes x (pool of 8 + 1) = 27" in said
    assert "migrations: 1" in said
    assert render(SPLIT, {"postgres": {"maxConnections": 92}})


@pytest.mark.parametrize(
    ("matching", "line"),
    [
        ({"replicaCount": 4, "processes": 2}, "(4 pods + 1 surge) x 2 processes x (pool of 8 + 1) = 90"),
        (
            {"poolSize": 4, "strategy": {"rollingUpdate": {"maxSurge": "50%"}}},
            "(2 pods + 1 surge) x 1 processes x (pool of 4 + 1) = 15",
        ),
        ({"replicaCount": 5, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}, "(5 pods + 2 surge)"),
        ({"strategy": {"type": "Recreate", "rollingUpdate": None}}, "(2 pods + 0 surge)"),
        ({"autoscaling": {"enabled": True, "maxReplicas": 7}}, "(7 pods + 1 surge)"),
        ({"externalScaler": True, "autoscaling": {"maxReplicas": 3}}, "(3 pods + 1 surge)"),
    ],
)
def test_the_budget_counts_what_can_run_at_most(matching: dict[str, Any], line: str) -> None:
    assert f"matching: {line}" in render(SPLIT, {"matching": matching, "postgres": {"maxConnections": 5000}}).notes


def test_a_pool_of_a_role_reaches_its_processes() -> None:
    assert render(FULL).env("-matching")["DW_DB_POOL_SIZE"] == "12"
    assert render(FULL).env("-scheduler")["DW_DB_POOL_SIZE"] == "8"
    assert render(FULL).env("-api-ingress")["DW_PROCESSES"] == "2"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"postgres": {"host": ""}}, "postgres.host is needed, or postgres.secretKeys.url"),
        ({"postgres": {"existingSecret": ""}}, "postgres.existingSecret is needed for the keys"),
        (
            {"postgres": {"tls": {"existingSecret": ""}}},
            "postgres.tls.mode verify-full needs postgres.tls.existingSecret",
        ),
        ({"postgres": {"tls": {"certKey": "tls.crt"}}}, "postgres.tls.certKey and postgres.tls.keyKey belong together"),
        ({"redis": {"tls": {"keyKey": "k"}}}, "redis.tls.certKey and redis.tls.keyKey belong together"),
        ({"redis": {"secretKeys": {"url": "url"}}}, "redis.existingSecret is needed"),
        ({"auth": {"existingSecret": ""}}, "auth.existingSecret is needed for the driver token"),
        ({"auth": {"driver": "jwt"}}, "auth.jwt.issuer and auth.jwt.audience are needed"),
    ],
)
def test_what_is_missing_is_said(overrides: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(SPLIT, overrides)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = refusal(SPLIT, {"postgres": {"host": "", "maxConnections": 20}, "auth": {"existingSecret": ""}})
    assert said.count("\n- ") == 3
