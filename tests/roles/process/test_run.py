"""A role process, run for real: its port, its signals and its end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.harness.processes import free_port, is_running
from tests.harness.waiting import wait_until

PROGRAM = Path(__file__).with_name("sample_role.py")


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def answers(port: int) -> bool:
    with suppress(OSError):
        return get(port, "/")[0] == 200
    return False


@contextmanager
def sample(processes: int = 1, drain_seconds: int = 5) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port()
    command = [sys.executable, str(PROGRAM), str(port), str(processes), str(drain_seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: answers(port), "the role answers")
        yield process, port
    finally:
        process.kill()
        process.communicate()


def in_background(call: Callable[[], tuple[int, str]]) -> tuple[threading.Thread, list[tuple[int, str]]]:
    results: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread, results


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_held_polls_with_an_answer_and_the_process_with_zero(number: signal.Signals) -> None:
    with sample() as (process, port):
        thread, results = in_background(lambda: get(port, "/hold"))
        wait_until(lambda: get(port, "/held") == (200, "1"), "one poll is held")
        process.send_signal(number)
        thread.join(10)
        output, errors = process.communicate(timeout=10)
        assert results == [(200, "empty")]
        assert process.returncode == 0
        assert "stopped" in output
        assert errors == ""


def test_a_request_that_has_begun_is_finished_after_the_port_closed(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with sample() as (process, port):
        thread, results = in_background(lambda: get(port, f"/slow?{release}"))
        wait_until(release.with_suffix(".begun").exists, "the request has begun")
        process.terminate()
        wait_until(lambda: not answers(port), "the port is closed")
        release.touch()
        thread.join(10)
        process.communicate(timeout=10)
        assert results == [(200, "finished")]
        assert process.returncode == 0


def test_a_request_that_never_ends_is_cut_off_after_the_drain(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with sample(drain_seconds=1) as (process, port):
        stuck = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        stuck.request("GET", f"/slow?{release}")
        wait_until(release.with_suffix(".begun").exists, "the request has begun")
        process.terminate()
        output, errors = process.communicate(timeout=20)
        stuck.close()
        assert process.returncode == 0
        assert "stopped" in output
        assert "1 requests did not end within 1 seconds and are cut off" in errors
        assert "Traceback" not in errors


@pytest.mark.parametrize("processes", [1, 2])
def test_what_does_not_hear_that_it_is_cut_off_does_not_keep_the_process(processes: int) -> None:
    with sample(processes=processes, drain_seconds=1) as (process, port):
        for _ in range(4 * processes):
            assert get(port, "/leftover")[0] == 200
        process.terminate()
        assert process.wait(15) == 0


def test_a_request_that_does_not_hear_that_it_is_cut_off_does_not_keep_the_process() -> None:
    with sample(drain_seconds=1) as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/deaf")
        assert get(port, "/ready")[0] == 200
        process.terminate()
        assert process.wait(15) == 0
        connection.close()


def test_idle_connections_do_not_delay_the_end() -> None:
    with sample() as (process, port):
        idle = http.client.HTTPConnection("127.0.0.1", port)
        idle.request("GET", "/")
        assert idle.getresponse().read()
        process.terminate()
        process.communicate(timeout=3)
        assert process.returncode == 0
        idle.close()


def test_several_worker_processes_share_the_port_and_end_together() -> None:
    with sample(processes=2) as (process, port):
        pids: set[int] = set()

        def both_answer() -> bool:
            pids.add(int(get(port, "/")[1]))
            return len(pids) == 2

        wait_until(both_answer, "both worker processes answer")
        process.terminate()
        output, errors = process.communicate(timeout=10)
        assert process.returncode == 0
        assert errors == ""
        assert output.count("stopped") == 2
        assert not any(is_running(pid) for pid in pids)


def test_worker_processes_end_when_their_parent_is_killed() -> None:
    with sample(processes=2) as (process, port):
        pid = int(get(port, "/")[1])
        process.kill()
        wait_until(lambda: not is_running(pid), "the worker process is gone")
        wait_until(lambda: not answers(port), "nobody answers")


def test_the_end_of_one_worker_process_ends_all_with_a_failure() -> None:
    with sample(processes=2) as (process, port):
        os.kill(int(get(port, "/")[1]), signal.SIGKILL)
        process.communicate(timeout=10)
        assert process.returncode == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_port_in_use_is_refused_in_one_sentence(processes: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, str(PROGRAM), str(port), str(processes), "5"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stderr == f"dw-server: Port {port} on 127.0.0.1 is already in use; choose another one with --port.\n"
