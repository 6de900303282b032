"""``compose.split.yaml`` as plain processes: its very commands, variables and replicas, behind its very gateway.

What Compose itself would do is done here: names become addresses of this machine, secrets and volumes become folders.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from durable_workflow import Client

from tests.deploy.gateways import COMPOSE, compose_gateway
from tests.harness.nginx import Nginx, replaced, running_nginx
from tests.harness.processes import free_port
from tests.harness.servers import OWN_NAMES, Server

ROLES = ("api-ingress", "matching", "scheduler")
BOOTSTRAP_SECONDS = 90


class Topology:
    """The services of the file, every replica of them."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self._folder = folder
        document: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.split.yaml").read_text())
        self._services: dict[str, Any] = document["services"]
        self._redis_url = redis_url
        self._draw_secrets(database_url)
        (folder / "payloads").mkdir()
        self.replicas: dict[str, list[Server]] = {}
        self.url = ""

    def _draw_secrets(self, database_url: str) -> None:
        """As an operator does; the database has other names here."""
        script = shutil.copy(COMPOSE / "make-secrets.sh", self._folder)
        subprocess.run(["sh", script], check=True, capture_output=True, timeout=30)
        drawn = self._folder / "secrets" / "database_url"
        assert drawn.read_text().endswith("@postgres:5432/durable_workflow")
        drawn.write_text(database_url)

    def secret(self, name: str) -> str:
        """What was drawn for the callers of a role."""
        return (self._folder / "secrets" / name).read_text()

    def environ(self, service: str) -> dict[str, str]:
        """The variables of a service, with its files and the stores where they are here."""
        environ: dict[str, str] = dict(self._services[service]["environment"])
        for name, value in environ.items():
            if name.endswith("_FILE"):
                environ[name] = replaced(value, "/run/secrets", str(self._folder / "secrets"))
        assert environ["REDIS_URL"] == "redis://valkey:6379/0"
        assert environ["DW_EXTERNAL_PAYLOAD_LOCAL_ROOT"] == "/payloads"
        here = {"REDIS_URL": self._redis_url, "DW_EXTERNAL_PAYLOAD_LOCAL_ROOT": str(self._folder / "payloads")}
        return environ | here

    def migrate(self) -> None:
        """Run the service that ends before the others begin."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*OWN_NAMES, "DATABASE_URL"))}
        command = [sys.executable, "-m", "dw_standalone.cli", *self._services["migrate"]["command"]]
        environ = kept | self.environ("migrate")
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=BOOTSTRAP_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start every replica of every role and wait until all are ready."""
        for role in ROLES:
            (command,) = self._services[role]["command"]
            replicas = self.replicas[role] = []
            for _ in range(self._services[role]["deploy"]["replicas"]):
                # The harness gives a token of its own to servers that have none; these have theirs in files.
                replicas.append(Server(command, self._folder, self.environ(role) | {"DW_AUTH_TOKEN": ""}))
        for server in self._servers():
            server.wait_until_ready()

    def _servers(self) -> list[Server]:
        return [server for replicas in self.replicas.values() for server in replicas]

    def stop(self) -> None:
        """End what still runs; fails when something does not end by itself."""
        running = [server for server in self._servers() if server.process.poll() is None]
        for server in running:
            server.terminate()
        late = []
        for server in running:
            try:
                server.exit_code()
            except subprocess.TimeoutExpired:
                server.kill()
                late.append(server.command)
        assert not late, f"did not end in time: {late}"

    def ports(self, role: str) -> list[int]:
        """Where the replicas of a role listen."""
        return [server.port for server in self.replicas[role]]

    @contextmanager
    def gateway(self) -> Iterator[Nginx]:
        """The gateway before the replicas, at :attr:`url`."""
        port = free_port()
        text = compose_gateway(port, self.ports("api-ingress"), self.ports("matching"))
        with running_nginx(self._folder / "nginx", text, port) as nginx:
            self.url = nginx.url
            yield nginx

    def client(self) -> Client:
        """A client of the SDK at the one URL, with the tokens of the roles that applications and workers have."""
        return Client(self.url, control_token=self.secret("operator_token"), worker_token=self.secret("worker_token"))


@contextmanager
def running_topology(folder: Path, database_url: str, redis_url: str) -> Iterator[Topology]:
    """Everything that the file describes, on an empty database, until the end of the context."""
    topology = Topology(folder, database_url, redis_url)
    with ExitStack() as stack:
        topology.migrate()
        stack.callback(topology.stop)
        topology.start()
        stack.enter_context(topology.gateway())
        yield topology
