"""nginx with a configuration that is ours, as a child of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until

STOP_SECONDS = 10
# Without a master nobody changes users. Temporary files and logs stay in the folder; the access log tells to which
# replicas each request was sent.
_OUTER = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{}}
http {{
    log_format tries '$status $upstream_addr';
    access_log {folder}/access.log tries;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/default.conf;
}}
"""


def find_nginx() -> str | None:
    """What ``make test`` has found or fetched, or that of this machine."""
    own = Path(sys.prefix) / "nginx" / "nginx"
    return str(own) if own.exists() else shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


needs_nginx = pytest.mark.skipif(find_nginx() is None, reason="there is no nginx: `make test` says how to get one")


class Nginx:
    """A running nginx."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        binary = find_nginx()
        assert binary is not None
        command = [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with (folder / "nginx.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def errors(self) -> str:
        """What it complains of."""
        logs = (self._folder / name for name in ("nginx.log", "error.log"))
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def tries(self, count: int) -> list[tuple[int, list[str]]]:
        """Of each of so many requests the status and the addresses that it was sent to, in turn."""
        log = self._folder / "access.log"
        wait_until(lambda: log.read_text().count("\n") >= count, f"nginx has logged {count} requests")
        lines = log.read_text().splitlines()
        return [(int(status), tried.split(", ")) for status, _, tried in (line.partition(" ") for line in lines)]

    def is_listening(self) -> bool:
        """Whether it takes connections; fails with its log when it has ended."""
        assert self.process.poll() is None, self.errors
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True


@contextmanager
def running_nginx(folder: Path, text: str, port: int) -> Iterator[Nginx]:
    """Run nginx with this text as what it includes, listening on this port, until the end of the context."""
    folder.mkdir()
    (folder / "default.conf").write_text(text)
    (folder / "nginx.conf").write_text(_OUTER.format(folder=folder))
    nginx = Nginx(folder, port)
    try:
        wait_until(nginx.is_listening, "nginx listens")
        yield nginx
    finally:
        nginx.process.terminate()
        try:
            nginx.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            nginx.process.kill()
            nginx.process.wait(STOP_SECONDS)
            raise


def replaced(text: str, there: str, here: str, times: int = 1) -> str:
    """The text with other words in it; they must stand there exactly so often."""
    assert text.count(there) == times, f"{there!r} stands {text.count(there)} times in the configuration, not {times}"
    return text.replace(there, here)


def upstream(name: str, ports: list[int]) -> str:
    """A name as it is to nginx when it is looked up for each request: all its addresses, none remembered as bad."""
    servers = "".join(f"    server 127.0.0.1:{port} max_fails=0;\n" for port in ports)
    return f"upstream {name} {{\n{servers}}}\n"
