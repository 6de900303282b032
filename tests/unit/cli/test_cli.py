"""What the command says: help, versions, and refusals in one sentence."""

from __future__ import annotations

import socket

import pytest

from dw_runtime.settings import SettingsError
from dw_standalone.cli import main
from dw_standalone.development.plan import plan
from dw_standalone.roles import ROLES, role_settings

COMMANDS = (*ROLES, "dev", "migrate", "bootstrap", "check-config", "smoke", "version")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "DB_URL", "DB_HOST", "REDIS_URL", "REDIS_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: dw-server {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [*ROLES, "dev"])
def test_every_role_takes_an_address_and_a_number_of_processes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    help_text = capsys.readouterr().out
    assert all(option in help_text for option in ("--host", "--port", "--processes"))


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"


def test_check_config_shows_settings_and_refuses_unknown_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DW_AUTH_TOKEN", "hidden")
    assert main(["check-config"]) == 0
    assert "hidden" not in "".join(capsys.readouterr())
    monkeypatch.setenv("DW_PROCESES", "2")
    assert main(["check-config"]) == 78
    shown = capsys.readouterr()
    assert "DW_HTTP_PORT=8080" in shown.out
    assert shown.err == ("dw-server: error: DW_PROCESES is not a setting of this server. Did you mean DW_PROCESSES?\n")


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "No database is configured"),
        ({"DATABASE_URL": "postgresql://h/d", "DW_SERVER_TOPOLOGY_SHAPE": "odd"}, "the shape is unknown"),
        (
            {"DATABASE_URL": "postgresql://h/d", "DW_SERVER_PROCESS_CLASS": "control_plane_node"},
            "contradicts the entry point",
        ),
    ],
)
def test_check_config_says_what_keeps_a_role_from_starting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environ: dict[str, str], reason: str
) -> None:
    monkeypatch.setenv("DW_AUTH_TOKEN", "hidden")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["check-config"]) == 0
    assert main(["check-config", "matching"]) == 78
    assert reason in capsys.readouterr().err


def test_check_config_passes_a_role_that_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DW_AUTH_TOKEN", "hidden")
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/d")
    for role in ROLES:
        assert main(["check-config", role]) == 0


@pytest.mark.parametrize("arguments", [["migrate", "expand"], ["migrate", "status"], ["bootstrap"]])
def test_administration_without_a_database_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 78
    assert capsys.readouterr().err == "dw-server: No database is configured; set DATABASE_URL, DB_URL or DB_HOST.\n"


def test_an_illegal_setting_ends_with_code_78(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DW_PROCESSES", "0")
    assert main(["check-config"]) == 78
    assert capsys.readouterr().err == "dw-server: DW_PROCESSES must be at least 1, not 0.\n"


@pytest.mark.parametrize(
    ("command", "port", "reason"),
    [
        ("dev", "0", "must be a number from 1 to 65533, not '0'"),
        ("dev", "65534", "must be a number from 1 to 65533, not '65534'"),
        ("standalone", "65536", "must be a number from 0 to 65535, not '65536'"),
        ("matching", "-1", "must be a number from 0 to 65535, not '-1'"),
        ("scheduler", "http", "must be a number from 0 to 65535, not 'http'"),
    ],
)
def test_a_number_that_is_no_port_is_wrong_usage(
    command: str, port: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, f"--port={port}"])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument --port: {reason}\n")


def test_dev_refuses_a_port_in_use_before_it_starts_anything(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["dev", "--ephemeral", "--port", str(port)]) == 1
    assert capsys.readouterr().err == (
        f"dw-server: Port {port} on 127.0.0.1 is already in use; choose another one with --port.\n"
    )


def test_arguments_override_variables_and_roles_know_their_class() -> None:
    settings = role_settings(ROLES["matching"], {"DW_HTTP_PORT": "1", "DW_HTTP_HOST": "::1"}, None, 9000, 3)
    assert (settings.http.host, settings.http.port, settings.http.processes) == ("::1", 9000, 3)
    assert settings.topology.shape == "split_control_execution"
    assert settings.topology.process_class == "matching_node"
    named = role_settings(ROLES["matching"], {"DW_SERVER_PROCESS_CLASS": "scheduler_node"}, None, None, None)
    assert named.topology.process_class == "scheduler_node"


def test_a_role_refuses_unknown_names_in_strict_mode() -> None:
    with pytest.raises(SettingsError, match="Did you mean DW_HTTP_PORT"):
        role_settings(ROLES["matching"], {"DW_HTP_PORT": "1", "DW_ENV_AUDIT_STRICT": "1"}, None, None, None)


def test_dev_puts_the_planes_on_neighbouring_ports_when_split() -> None:
    together = plan({}, None, None, 1, is_split=False)
    assert [(process.command, process.port) for process in together] == [("standalone", 8080), ("scheduler", 8082)]
    split = plan({}, None, 9000, 2, is_split=True)
    assert [(process.command, process.port, process.processes) for process in split] == [
        ("api-ingress", 9000, 2),
        ("matching", 9001, 2),
        ("scheduler", 9002, 1),
    ]
    assert {process.environ["DW_SERVER_TOPOLOGY_SHAPE"] for process in split} == {"split_control_execution"}


def test_dev_sets_its_token_only_where_no_authentication_is_chosen() -> None:
    assert plan({}, None, None, 1, is_split=False)[0].environ["DW_AUTH_TOKEN"] == "dev-token"
    chosen = plan({"DW_AUTH_TOKEN_FILE": "/x"}, None, None, 1, is_split=False)[0].environ
    assert "DW_AUTH_TOKEN" not in chosen
