"""Environment variables become a configuration, or a refusal that says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from dw_runtime.settings import Settings, SettingsError, load, load_audited
from dw_runtime.settings.model import REGISTRY
from dw_runtime.settings.urls import without_password


def test_an_empty_environment_gives_the_published_defaults() -> None:
    settings = load({})
    assert settings.http.port == 8080
    assert settings.auth.driver == "token"
    assert settings.leases.workflow_task_lease_seconds == 300
    assert settings.leases.activity_task_lease_seconds == 300
    assert settings.protocol.history_page_size_default == 500
    assert settings.protocol.history_page_size_max == 1000
    assert settings.structural_limits.pending_children == 1000
    assert settings.request_limits.pending_children_max == 2000
    assert settings.retention.history_days == 30
    assert settings.stores.database_url is None
    assert settings.stores.redis_url is None


def test_values_are_converted_to_the_type_of_their_field() -> None:
    settings = load(
        {
            "DW_HTTP_PORT": " 9000 ",
            "DW_COMPRESSION_ENABLED": "false",
            "DW_SERVICE_ALLOWED_NETWORKS": "10.0.0.0/8, 192.168.1.7",
            "DW_WORKFLOW_TASK_MAX_DISPATCHES_PER_MINUTE": "7",
        }
    )
    assert settings.http.port == 9000
    assert settings.protocol.compression_enabled is False
    assert settings.services.allowed_networks == ("10.0.0.0/8", "192.168.1.7")
    assert settings.admission.workflow_dispatches_per_minute == 7


@pytest.mark.parametrize(("text", "value"), [("0", False), ("1", True), ("true", True), ("FALSE", False)])
def test_switches_accept_digits_and_words(text: str, value: bool) -> None:
    assert load({"DW_V2_MATCHING_ROLE_QUEUE_WAKE": text}).topology.matching_queue_wake is value


def test_an_empty_value_counts_as_unset() -> None:
    assert load({"DW_HTTP_PORT": "", "DW_AUTH_TOKEN": ""}) == load({})


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"DW_HTTP_PORT": "http"}, "DW_HTTP_PORT must be a whole number."),
        ({"DW_HTTP_PORT": "70000"}, "DW_HTTP_PORT must be at most 65535, not 70000."),
        ({"DW_WORKER_POLL_TIMEOUT": "1.5"}, "DW_WORKER_POLL_TIMEOUT must be a whole number of seconds."),
        ({"DW_COMPRESSION_ENABLED": "maybe"}, "DW_COMPRESSION_ENABLED must be true or false, not 'maybe'."),
        (
            {"DW_AUTH_DRIVER": "ldap"},
            "DW_AUTH_DRIVER must be one of none, token, signature, jwt; 'ldap' is none of them.",
        ),
        ({"DW_AUTH_PROVIDER": "X"}, "DW_AUTH_PROVIDER names a class this server cannot load; use DW_AUTH_DRIVER."),
        ({"DW_TASK_QUEUE_ADMISSION_OVERRIDES": "{"}, "DW_TASK_QUEUE_ADMISSION_OVERRIDES is not valid JSON."),
        ({"DB_CONNECTION": "mysql"}, "DB_CONNECTION must be pgsql: Postgres is the only database of this server."),
        ({"DATABASE_URL": "mysql://x"}, "The database URL must begin with postgresql://."),
        (
            {"DW_HISTORY_PAGE_SIZE_DEFAULT": "900", "DW_HISTORY_PAGE_SIZE_MAX": "800"},
            "DW_HISTORY_PAGE_SIZE_DEFAULT must not exceed DW_HISTORY_PAGE_SIZE_MAX.",
        ),
        (
            {"DW_WORKER_STALE_AFTER_SECONDS": "60"},
            "DW_WORKER_STALE_AFTER_SECONDS must exceed DW_WORKER_HEARTBEAT_INTERVAL_SECONDS.",
        ),
    ],
)
def test_an_illegal_value_is_refused_in_one_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(environ)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("name", ["DW_WORKFLOW_TASK_TIMEOUT", "DW_ACTIVITY_TASK_TIMEOUT"])
def test_leases_shorter_than_published_need_the_unsafe_switch(name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} below 300 needs DW_ALLOW_UNSAFE_LIMITS=true"):
        load({name: "2"})
    assert 2 in _leases(load({name: "2", "DW_ALLOW_UNSAFE_LIMITS": "true"}))
    assert 400 in _leases(load({name: "400"}))


def _leases(settings: Settings) -> tuple[int, int]:
    return settings.leases.workflow_task_lease_seconds, settings.leases.activity_task_lease_seconds


def test_derived_defaults_follow_the_poll_timeout() -> None:
    settings = load({"DW_WORKER_POLL_TIMEOUT": "58"})
    assert settings.polling.wake_signal_ttl_seconds == 63
    assert settings.leases.query_timeout_seconds == 58
    assert settings.leases.query_lease_seconds == 58
    assert load({}).polling.wake_signal_ttl_seconds == 60
    assert load({}).workers.stale_after_seconds == 125


def test_every_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for declared in REGISTRY:
        if declared.var.is_secret and declared.var.name not in ("DW_PRINCIPAL_TOKENS",):
            secret = "redis://from-file" if declared.var.name == "REDIS_URL" else "postgresql://from-file"
            file.write_text(f"{secret}\n")
            settings = load({f"{declared.var.name}_FILE": str(file)})
            assert getattr(getattr(settings, declared.group), declared.field) == secret


def test_a_secret_file_that_cannot_serve_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "token").write_text("t")
    with pytest.raises(SettingsError, match=r"^DW_AUTH_TOKEN_FILE names \S+, which cannot be read: No such file"):
        load({"DW_AUTH_TOKEN_FILE": str(tmp_path / "missing")})
    with pytest.raises(SettingsError, match=r"which is empty\.$"):
        load({"DW_AUTH_TOKEN_FILE": str(tmp_path / "empty")})
    with pytest.raises(SettingsError, match="are both set"):
        load({"DW_AUTH_TOKEN": "a", "DW_AUTH_TOKEN_FILE": str(tmp_path / "token")})


def test_store_urls_come_from_urls_before_parts(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss/word\n")
    parts = {
        "DB_HOST": "db",
        "DB_USERNAME": "us er",
        "DB_PASSWORD_FILE": str(tmp_path / "password"),
        "DB_SSLMODE": "require",
        "REDIS_HOST": "::1",
        "REDIS_PASSWORD": "s:ecret",
        "REDIS_SCHEME": "tls",
    }
    stores = load(parts).stores
    assert stores.database_url == "postgresql://us%20er:p%40ss%2Fword@db:5432/durable_workflow?sslmode=require"
    assert stores.redis_url == "rediss://:s%3Aecret@[::1]:6379/0"
    both = {"DB_HOST": "db", "DB_URL": "pgsql://second/x"}
    assert load(both).stores.database_url == "postgresql://second/x"
    assert load({**both, "DATABASE_URL": "postgres://first/x"}).stores.database_url == "postgresql://first/x"


def test_tls_of_the_stores_holds_for_parts_and_for_urls_that_do_not_say_otherwise() -> None:
    files = {
        "DB_SSLMODE": "verify-full",
        "DB_SSLROOTCERT": "/tls/ca.crt",
        "DB_SSLCERT": "/tls/a b.crt",
        "REDIS_SSLROOTCERT": "/tls/ca.crt",
        "REDIS_SSLKEY": "/tls/key",
    }
    query = "sslmode=verify-full&sslrootcert=/tls/ca.crt&sslcert=/tls/a%20b.crt"
    stores = load({**files, "DB_HOST": "db", "REDIS_HOST": "r", "REDIS_SCHEME": "tls"}).stores
    assert stores.database_url == f"postgresql://db:5432/durable_workflow?{query}"
    assert stores.redis_url == "rediss://r:6379/0?ssl_ca_certs=/tls/ca.crt&ssl_keyfile=/tls/key"
    named = {"DATABASE_URL": "postgresql:///x?host=/run&sslmode=disable", "REDIS_URL": "redis://r"}
    stores = load({**files, **named}).stores
    assert stores.database_url == f"{named['DATABASE_URL']}&sslrootcert=/tls/ca.crt&sslcert=/tls/a%20b.crt"
    assert stores.redis_url == "redis://r"


def test_a_legacy_name_works_with_a_remark_and_yields_to_the_current_name() -> None:
    loaded = load_audited(
        {"WORKFLOW_SERVER_TOPOLOGY_SHAPE": "standalone_server", "WORKFLOW_V2_STICKY_EXECUTION_ENABLED": "0"}
    )
    assert loaded.settings.topology.shape == "standalone_server"
    assert loaded.settings.fleet.sticky_execution_enabled is False
    assert {(finding.kind, finding.name) for finding in loaded.findings} == {
        ("legacy", "WORKFLOW_SERVER_TOPOLOGY_SHAPE"),
        ("legacy", "WORKFLOW_V2_STICKY_EXECUTION_ENABLED"),
    }
    assert load({"WORKFLOW_SERVER_MODE": "embedded", "DW_MODE": "service"}).topology.mode == "service"


def test_an_unknown_name_is_found_with_a_suggestion() -> None:
    findings = load_audited({"DW_AUTH_TOKN": "x"}).findings
    assert [finding.message for finding in findings] == [
        "DW_AUTH_TOKN is not a setting of this server. Did you mean DW_AUTH_TOKEN?"
    ]


def test_unknown_names_stop_the_boot_only_in_strict_mode() -> None:
    load({"DW_AUTH_TOKN": "x"})
    with pytest.raises(SettingsError, match="Did you mean DW_AUTH_TOKEN"):
        load({"DW_AUTH_TOKN": "x", "DW_ENV_AUDIT_STRICT": "1"})


def test_names_of_tests_and_names_of_other_servers_are_no_typing_errors() -> None:
    findings = load_audited(
        {"DW_TEST_X": "1", "DW_BENCH_Y": "1", "DW_SERVER_KEY": "k", "DW_AUTH_TOKEN_FILE": ""}
    ).findings
    assert [(finding.kind, finding.name) for finding in findings] == [("ignored", "DW_SERVER_KEY")]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:s3cret%zz@db/x",
        "postgresql://bob:s3cret@[::1/x",
        "postgresql://bob:s3cret/more@db/x",
        "postgresql://bob:12345/s3cret@db/x",
        "postgresql://bob:s3cret@db:99999/x",
        "mysql://bob:s3cret@db/x",
        "bob:s3cret@db",
    ],
)
def test_a_database_url_that_cannot_be_read_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"DATABASE_URL": url})
    assert "s3cret" not in str(refused.value) and "database URL" in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cret/more@h:1/0",
        "redis://:s3cret#more@h:1/0",
        "redis://:12345/s3cret@h:1/0",
        "redis://:s3cret@h:s3cret/0",
        "redis://:s3cret@[::1/0",
        "redis://:s3cret@h/0?socket_timeout=s3cret",
        "rediss//:s3cret@h",
    ],
)
def test_a_redis_url_that_cannot_be_read_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"REDIS_URL": url})
    assert "s3cret" not in str(refused.value) and "Redis URL" in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_redis_url_of_another_scheme_is_told_the_right_ones() -> None:
    with pytest.raises(SettingsError, match=r"^The Redis URL must begin with redis://, rediss:// or unix://\.$"):
        load({"REDIS_URL": "http://cache:6379"})


def test_several_hosts_and_strange_passwords_are_read() -> None:
    for url in ("postgresql://h1:5432,h2/x", "postgresql://bob:a#b?c@h/x", "postgresql:///x?host=/run/postgresql"):
        assert load({"DATABASE_URL": url}).stores.database_url == url
    for url in ("rediss://u:p@h:6380/1", "unix://u:p@/run/redis.sock?db=1"):
        assert load({"REDIS_URL": url}).stores.redis_url == url


def test_a_url_is_shown_without_password_and_query() -> None:
    assert without_password("postgresql://bob:a#b?c/d@h:1/x?password=p") == "postgresql://bob:***@h:1/x"
    assert without_password("postgresql://h/x?password=p") == "postgresql://h/x"
    assert without_password("redis://:p@h/0") == "redis://:***@h/0"
