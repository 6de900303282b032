"""The compose files: what they set exists, what they name is there, and the gateway knows its one rule."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane
from dw_core.topology.placement import ENTRY_POINTS
from dw_runtime.settings.audit import known_names

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
FILES = {"compose.yaml": "standalone_server", "compose.split.yaml": "split_control_execution"}
ROLES = {"compose.yaml": {"standalone", "scheduler"}, "compose.split.yaml": {"api-ingress", "matching", "scheduler"}}
POLL_SECONDS_MAX = 60
LARGEST_UPLOAD_BYTES = 67_108_864


def read(name: str) -> dict[str, Any]:
    """A compose file with its anchors resolved."""
    document: dict[str, Any] = yaml.safe_load((COMPOSE / name).read_text())
    return document


def servers(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The services that run our image, by name."""
    return {name: it for name, it in document["services"].items() if it["image"].startswith("durable-workflow-server")}


@pytest.mark.parametrize("name", FILES)
def test_every_variable_is_a_setting_and_every_secret_is_declared(name: str) -> None:
    document = read(name)
    for service in servers(document).values():
        environment = service["environment"]
        assert environment.keys() <= known_names()
        assert environment["DW_SERVER_TOPOLOGY_SHAPE"] == FILES[name]
        for variable, value in environment.items():
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"]
        assert set(service["secrets"]) <= document["secrets"].keys()
        assert not any("TOKEN" in variable and not variable.endswith("_FILE") for variable in environment)


@pytest.mark.parametrize("name", FILES)
def test_every_role_runs_after_one_migration_and_is_probed_by_its_readiness(name: str) -> None:
    document = read(name)
    found = {service["command"][0]: service for service in servers(document).values()}
    assert found.keys() == ROLES[name] | {"bootstrap"} and ROLES[name] <= set(ENTRY_POINTS)
    for role in ROLES[name]:
        assert found[role]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert any("/api/ready" in part for part in found[role]["healthcheck"]["test"])
        assert found[role]["read_only"] is True and found[role]["cap_drop"] == ["ALL"]
        assert name == "compose.yaml" or found[role]["deploy"]["replicas"] == 2
    assert found["bootstrap"]["restart"] == "no"
    assert document["services"]["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]


@pytest.mark.parametrize("name", FILES)
def test_every_process_has_the_folder_of_large_payloads_which_its_user_may_write(name: str) -> None:
    document = read(name)
    dockerfile = (ROOT / "deploy" / "images" / "Dockerfile").read_text()
    (user,) = re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE)
    for service in servers(document).values():
        folder = service["environment"]["DW_EXTERNAL_PAYLOAD_LOCAL_ROOT"]
        assert service["volumes"] == [f"payloads:{folder}"] and "payloads" in document["volumes"]
        assert f"--chown={user} {folder} {folder}" in dockerfile, "a new volume takes the owner of the folder below it"


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_named_is_there(name: str) -> None:
    document = read(name)
    drawn = (
        re.findall(r"secrets/(\w+)", (COMPOSE / "make-secrets.sh").read_text())
        + re.findall(r"for name in ([\w ]+);", (COMPOSE / "make-secrets.sh").read_text())[0].split()
    )
    for secret in document["secrets"].values():
        assert Path(secret["file"]).name in drawn
    for service in servers(document).values():
        assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    for mount in document["services"].get("gateway", {}).get("volumes", ()):
        assert (COMPOSE / mount.partition(":")[0]).is_file()


def test_the_gateway_sends_each_plane_to_its_role_and_outlasts_a_poll() -> None:
    text = (COMPOSE / "gateway.conf").read_text()
    upstreams = dict(re.findall(r"location (\S+) \{\s+set \$upstream http://([\w-]+):8080;", text))
    assert upstreams == {"/api/worker/": "matching", "/": "api-ingress"}
    for route in ROUTES:
        if route.plane is not Plane.DISCOVERY:
            assert route.path.startswith("/api/worker/") is (route.plane is Plane.WORKER), route.name
    assert {int(seconds) for seconds in re.findall(r"proxy_read_timeout (\d+)s", text)} == {90}
    assert min(int(seconds) for seconds in re.findall(r"proxy_read_timeout (\d+)s", text)) >= POLL_SECONDS_MAX + 15
    assert text.count("proxy_next_upstream error timeout;") == 2
    assert "non_idempotent" not in text, "a POST may have taken effect"
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(megabytes) * 1024 * 1024 > LARGEST_UPLOAD_BYTES, "what is too large the server refuses by name"


def test_secrets_are_drawn_once(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_text((COMPOSE / "make-secrets.sh").read_text())
    drawn = []
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True, env={"PATH": os.environ["PATH"]})
        drawn.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert drawn[0] == drawn[1]
    values = [value for name, value in drawn[0].items() if name != "database_url"]
    assert len(set(values)) == len(values) and all(re.fullmatch(r"[0-9a-f]{48}", value) for value in values)
    assert drawn[0]["postgres_password"] in drawn[0]["database_url"]
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o755 & ~_umask()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
