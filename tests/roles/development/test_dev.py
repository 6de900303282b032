"""``dw-server dev``, run as a newcomer runs it."""

from __future__ import annotations

import http.client
import re
import signal
import urllib.request
from pathlib import Path

import psycopg
import pytest

from dw_standalone import administration
from dw_standalone.embedded import EmbeddedServices
from tests.harness.development import Dev, running
from tests.harness.waiting import wait_until

END_SECONDS = 3


def status(port: int, path: str, method: str = "GET", body: str | None = None) -> int:
    headers = {"Authorization": "Bearer dev-token", "X-Durable-Workflow-Control-Plane-Version": "2"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_dev_serves_both_planes_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    with running(tmp_path, "--ephemeral") as dev:
        greeting = dev.greeting()
        assert greeting.startswith("\nDurable Workflow "), "nothing is printed before the greeting"
        assert f"http://127.0.0.1:{dev.port}" in greeting
        assert "dev-token" in greeting
        assert status(dev.port, "/api/ready") == 200
        assert status(dev.port + 2, "/api/ready") == 200
        dev.process.send_signal(signal.SIGINT)
        output, _ = dev.process.communicate(timeout=END_SECONDS)
        assert (dev.process.returncode, output.strip()) == (0, "Stopped.")
        assert dev.processes() == []
    assert list(tmp_path.iterdir()) == []


def test_dev_split_runs_the_three_roles_apart_with_several_processes(tmp_path: Path) -> None:
    with running(tmp_path, "--ephemeral", "--split", "--processes", "2") as dev:
        greeting = dev.greeting()
        for offset in range(3):
            assert f"http://127.0.0.1:{dev.port + offset}" in greeting
            assert status(dev.port + offset, "/api/ready") == 200
        keep_payloads(dev.port)
        seen: set[str] = set()

        def are_both_seen() -> bool:
            seen.update(scraped_processes(dev.port))
            return seen == {"0", "1"}

        wait_until(are_both_seen, "both processes are scraped")
        dev.process.send_signal(signal.SIGINT)
        dev.process.communicate(timeout=END_SECONDS)
        assert dev.process.returncode == 0
        assert dev.processes() == []


def scraped_processes(port: int) -> set[str]:
    """The processes that one scrape names; each connection reaches one of those that share the port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return set(re.findall(r'^dw_store_commits_total\{process="(\d+)"\}', answer.read().decode(), re.MULTILINE))


def keep_payloads(port: int) -> None:
    """Have large payloads kept beside the data, and see that they are."""
    for method, path, body in (
        ("PUT", "/api/namespaces/default/external-storage", '{"driver": "local"}'),
        ("POST", "/api/storage/test", "{}"),
    ):
        assert status(port, path, method, body) == 200, "large payloads are kept beside the data"


def test_no_process_survives_a_dev_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--data-dir", str(tmp_path / "data"), "--processes", "2") as dev:
        dev.greeting()
        assert dev.processes()
        keep_payloads(dev.port)
        assert (tmp_path / "data" / "payloads" / "avro").is_dir()
        dev.process.kill()
        wait_until(lambda: dev.processes() == [], "no process is left")


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    dev = Dev(tmp_path, "--data-dir", name)
    output, _ = dev.process.communicate(timeout=30)
    assert dev.process.returncode == 1
    assert output == (
        f"dw-server: The data folder {tmp_path / name} cannot be used: it, or what it should be in, is not a folder; "
        "choose another one with --data-dir.\n"
    )


def test_a_data_folder_with_another_schema_is_one_sentence(tmp_path: Path) -> None:
    with EmbeddedServices(tmp_path / "data") as services:
        administration.run_migration(services.database_url, "expand")
        with psycopg.connect(services.database_url) as connection:
            connection.execute("UPDATE schema_migrations SET checksum = 'another'")
    dev = Dev(tmp_path, "--data-dir", "data")
    output, _ = dev.process.communicate(timeout=30)
    assert dev.process.returncode == 1
    assert output == (
        "dw-server: The data folder data was written by another version of the server, with another schema; "
        "delete it or choose another one with --data-dir.\n"
    )


def test_every_process_says_where_it_serves_and_that_it_drains(tmp_path: Path) -> None:
    with running(tmp_path, "--ephemeral", environ={"DW_LOG_LEVEL": "info"}) as dev:
        before = dev.greeting()
        for port in (dev.port, dev.port + 2):
            assert f'"event":"serving on 127.0.0.1 port {port}"' in before
        dev.process.send_signal(signal.SIGINT)
        after, _ = dev.process.communicate(timeout=END_SECONDS)
        assert after.count('"event":"draining"') == 2
