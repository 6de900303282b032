"""The Compose topology as plain processes: its very commands and variables, behind nginx with its very gateway.conf.

What Compose itself would do is done here: names become addresses of this machine, secrets and volumes become folders.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.harness.databases import temporary_database
from tests.harness.processes import free_port
from tests.harness.servers import Server
from tests.harness.small_load import run_workflows
from tests.harness.waiting import eventually, wait_until

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"
ROLES = ("api-ingress", "matching", "scheduler")
MIB = 1024 * 1024
OUTER = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {upstreams}
    include {folder}/default.conf;
}}
"""


def find_nginx() -> str | None:
    """What ``make test`` has found or fetched, or that of this machine."""
    own = Path(sys.prefix) / "nginx" / "nginx"
    return str(own) if own.exists() else shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


NGINX = find_nginx()
pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx on this machine")


class Topology:
    """The services of ``compose.split.yaml``, every replica of them, and the gateway."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self._folder = folder
        document: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.split.yaml").read_text())
        self._services: dict[str, Any] = document["services"]
        shutil.copy(COMPOSE / "make-secrets.sh", folder)
        subprocess.run(["sh", str(folder / "make-secrets.sh")], check=True, capture_output=True)
        (folder / "secrets" / "database_url").write_text(database_url)
        (folder / "payloads").mkdir()
        self._replaced = {
            "/run/secrets": str(folder / "secrets"),
            "redis://valkey:6379/0": redis_url,
            "/payloads": str(folder / "payloads"),
        }
        self.replicas: dict[str, list[Server]] = defaultdict(list)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._nginx: subprocess.Popen[bytes] | None = None

    def secret(self, name: str) -> str:
        """What was drawn for the callers of a role."""
        return (self._folder / "secrets" / name).read_text()

    def _environ(self, service: str) -> dict[str, str]:
        environ: dict[str, str] = {}
        for name, value in self._services[service]["environment"].items():
            for there, here in self._replaced.items():
                value = value.replace(there, here)
            environ[name] = value
        return environ | {"DW_AUTH_TOKEN": ""}

    def start(self) -> None:
        """Migrate once, then every replica, then the gateway."""
        command: list[str] = self._services["migrate"]["command"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DW_", "DB_", "REDIS_"))}
        subprocess.run(
            [sys.executable, "-m", "dw_standalone.cli", *command],
            env=kept | self._environ("migrate"),
            check=True,
            capture_output=True,
        )
        for role in ROLES:
            (command_name,) = self._services[role]["command"]
            for _ in range(self._services[role]["deploy"]["replicas"]):
                self.replicas[role].append(Server(command_name, self._folder, self._environ(role)))
        for servers in self.replicas.values():
            for server in servers:
                server.wait_until_ready()
        self._start_gateway()

    def _start_gateway(self) -> None:
        assert NGINX is not None
        text = (COMPOSE / "gateway.conf").read_text()
        upstreams = []
        for role in ("api-ingress", "matching"):
            text = _once(text, f"http://{role}:8080", f"http://{role}")
            addresses = "".join(f"server 127.0.0.1:{server.port} max_fails=0; " for server in self.replicas[role])
            upstreams.append(f"upstream {role} {{ {addresses}}}")
        text = _once(text, "listen 8080;", f"listen 127.0.0.1:{self.port};")
        (self._folder / "default.conf").write_text(text)
        outer = OUTER.format(folder=self._folder, upstreams="\n    ".join(upstreams))
        (self._folder / "nginx.conf").write_text(outer)
        command = [NGINX, "-p", str(self._folder), "-c", str(self._folder / "nginx.conf")]
        with (self._folder / "nginx.log").open("wb") as log:
            self._nginx = subprocess.Popen(command, stdout=log, stderr=log)

        def is_up() -> bool:
            assert self._nginx is not None and self._nginx.poll() is None, (self._folder / "nginx.log").read_text()
            try:
                return httpx.get(f"{self.url}/api/ready").status_code == 200
            except httpx.HTTPError:
                return False

        wait_until(is_up, "the gateway answers")

    def stop(self) -> None:
        """End what still runs."""
        if self._nginx is not None:
            self._nginx.terminate()
            self._nginx.wait(10)
        for servers in self.replicas.values():
            for server in servers:
                if server.process.poll() is None:
                    server.terminate()
        for servers in self.replicas.values():
            for server in servers:
                server.exit_code()

    async def run_workflows(self, count: int, begun: asyncio.Event | None = None) -> None:
        """Application and worker through the one URL, each with the token of its role."""
        operator, worker = self.secret("operator_token"), self.secret("worker_token")
        await run_workflows(self.url, self.url, count, control_token=operator, worker_token=worker, begun=begun)


def _once(text: str, there: str, here: str) -> str:
    assert text.count(there) == 1, f"{there} stands once in gateway.conf"
    return text.replace(there, here)


@pytest.fixture
def topology(tmp_path: Path, postgres_url: str, redis_url: str) -> Iterator[Topology]:
    with temporary_database(postgres_url) as url, ExitStack() as stack:
        topology = Topology(tmp_path, url, redis_url)
        stack.callback(topology.stop)
        topology.start()
        yield topology


async def test_one_url_serves_workers_and_applications_while_replicas_die_and_leave(topology: Topology) -> None:
    await topology.run_workflows(10)
    await _large_payloads(topology)
    await _leave_politely(topology)

    begun = asyncio.Event()

    async def die() -> None:
        await begun.wait()
        for role in ("api-ingress", "scheduler"):
            topology.replicas[role][0].kill()

    await asyncio.gather(topology.run_workflows(40, begun), die())
    await topology.run_workflows(5)


async def _large_payloads(topology: Topology) -> None:
    """What the gateway lets through is what the server takes; more is refused before it travels on."""
    headers = {
        "authorization": f"Bearer {topology.secret('admin_token')}",
        "x-durable-workflow-control-plane-version": "2",
    }
    async with httpx.AsyncClient(base_url=topology.url, headers=headers, timeout=60) as http:
        policy = {"driver": "local", "threshold_bytes": 1024, "config": {}}
        answer = await http.put("/api/namespaces/default/external-storage", json=policy)
        assert answer.status_code == 200, answer.text
        answer = await http.post("/api/storage/test", json={})
        assert (answer.status_code, answer.json()["status"]) == (200, "passed"), answer.text
        refused = await http.post("/api/external-payloads/v1", content=bytes(64 * MIB + 1))
        assert refused.status_code == 413


async def _leave_politely(topology: Topology) -> None:
    """A poll that waits behind the gateway is answered when its replica leaves."""
    headers = {
        "authorization": f"Bearer {topology.secret('worker_token')}",
        "x-durable-workflow-protocol-version": "1.20",
    }
    leaving = topology.replicas["matching"][0]
    async with httpx.AsyncClient(base_url=f"{topology.url}/api/worker", headers=headers, timeout=90) as http:
        body = {"worker_id": "w-1", "task_queue": "idle", "runtime": "python"}
        assert (await http.post("/register", json=body)).status_code == 201
        polls = [
            asyncio.create_task(
                http.post(
                    "/workflow-tasks/poll", json={"worker_id": "w-1", "task_queue": "idle", "timeout_seconds": 50}
                )
            )
            for _ in range(10)
        ]

        async def all_wait() -> bool:
            held = [await asyncio.to_thread(server.held_polls) for server in topology.replicas["matching"]]
            return sum(held) == len(polls) and held[0] > 0

        await eventually(all_wait, "the polls wait at both replicas")
        concerned = await asyncio.to_thread(leaving.held_polls)
        leaving.terminate()
        assert await asyncio.to_thread(leaving.exit_code) == 0

        async def are_answered() -> bool:
            return sum(poll.done() for poll in polls) == concerned

        await eventually(are_answered, "the polls of the replica that has left are answered, and no other")
        answers = [poll.result() for poll in polls if poll.done()]
        assert {(answer.status_code, answer.json()["poll_status"]) for answer in answers} == {(200, "empty")}
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
