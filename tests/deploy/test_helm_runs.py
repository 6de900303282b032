"""What the chart renders runs: jobs, roles and test as processes with their very commands, variables and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.deploy.chart import Object, Rendered, render, variables
from tests.harness.databases import temporary_database
from tests.harness.servers import OWN_NAMES, Server
from tests.harness.waiting import wait_until

SECRETS = "/etc/durable-workflow/secrets"
ROLES = {"-api-ingress": "control", "-matching": "worker", "-scheduler": None}


class Installation:
    """A rendered release on a database of its own, with its secrets below ``folder``."""

    def __init__(self, database_url: str, redis_url: str, folder: Path) -> None:
        postgres, redis = urlsplit(database_url), urlsplit(redis_url)
        overrides: dict[str, Any] = {
            "postgres": {
                "host": postgres.hostname,
                "port": postgres.port,
                "database": postgres.path.removeprefix("/"),
                "username": unquote(postgres.username or ""),
                "tls": {"mode": "disable"},
            },
            "redis": {"host": redis.hostname, "port": redis.port},
            "settings": {"DW_DEFAULT_NAMESPACE": "main"},
        }
        self.rendered: Rendered = render("split-minimal", overrides)
        self._folder = folder
        files = {"postgres/password": unquote(postgres.password or "none")}
        files |= {f"auth/DW_{role}_TOKEN": f"{role}-secret" for role in ("WORKER", "OPERATOR", "ADMIN")}
        for path, content in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(content)

    def environ(self, container: Object) -> dict[str, str]:
        """The variables of a container, with its files where they are here."""
        named = {name: value if isinstance(value, str) else "a-pod" for name, value in variables(container).items()}
        return {name: value.replace(SECRETS, str(self._folder)) for name, value in named.items()}

    def run(self, container: Object, *replaced: tuple[str, str]) -> str:
        """Run a command of the release to its end; its output."""
        arguments: list[str] = container["args"]
        for rendered, actual in replaced:
            arguments = [actual if it == rendered else it for it in arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*OWN_NAMES, "DATABASE_URL"))}
        command = [sys.executable, "-m", "dw_standalone.cli", *arguments]
        environ = {**kept, **self.environ(container)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, suffix: str) -> Server:
        """Start the server of a Deployment."""
        container = self.rendered.container(suffix)
        return Server(container["args"][0], self._folder, {**self.environ(container), "DW_AUTH_TOKEN": ""})


@pytest.fixture
def installation(postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[Installation]:
    """A release whose database is empty."""
    with temporary_database(postgres_url) as url:
        yield Installation(url, redis_url, tmp_path)


def test_pods_wait_for_the_job_and_then_a_workflow_runs_through_the_release(installation: Installation) -> None:
    rendered = installation.rendered
    servers = {suffix: installation.start(suffix) for suffix in ROLES}
    try:
        for suffix, server in servers.items():
            wait_until(partial(_is_unready, server), f"{suffix} says that it is not ready", seconds=60)
            _, body = server.get("/api/ready")
            assert body["checks"]["migrations"]["status"] == "missing"
        installation.run(rendered.one("Job", "-expand")["spec"]["template"]["spec"]["containers"][0])
        for server in servers.values():
            server.wait_until_ready()
        (pod,) = rendered.of_kind("Pod")
        schema = json.loads(installation.run(pod["spec"]["initContainers"][0]))
        assert (schema["repository_exists"], schema["pending_migrations"]) == (True, [])
        said = installation.run(
            pod["spec"]["containers"][0],
            ("http://dw-durable-workflow-api-ingress:8080", servers["-api-ingress"].url),
            ("http://dw-durable-workflow-matching:8080", servers["-matching"].url),
        )
        assert said.startswith("A workflow with one activity ran through in ")
    finally:
        for server in servers.values():
            server.terminate()
            server.exit_code()


def _is_unready(server: Server) -> bool:
    """Whether the readiness probe says no; a process that does not listen yet says nothing."""
    try:
        return server.get("/api/ready")[0] == 503
    except OSError:
        return False
