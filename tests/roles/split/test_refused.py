"""Combinations of shape, class and entry point that must not start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.servers import Server

SPLIT, STANDALONE = "split_control_execution", "standalone_server"


@pytest.mark.parametrize(
    ("command", "shape", "process_class"),
    [
        ("matching", STANDALONE, None),
        ("standalone", SPLIT, None),
        ("api-ingress", SPLIT, "matching_node"),
        ("scheduler", SPLIT, "server_http_node"),
        ("matching", "embedded", None),
        ("matching", "mesh", None),
    ],
)
def test_an_illegal_combination_ends_with_one_line(
    tmp_path: Path, command: str, shape: str, process_class: str | None
) -> None:
    environ = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "DW_SERVER_TOPOLOGY_SHAPE": shape}
    if process_class is not None:
        environ["DW_SERVER_PROCESS_CLASS"] = process_class
    server = Server(command, tmp_path, environ)
    try:
        assert server.exit_code(30) == 78
    except subprocess.TimeoutExpired:
        server.kill()
        raise
    (line,) = server.log.splitlines()
    assert line.startswith("dw-server: ")
    assert "DW_SERVER_TOPOLOGY_SHAPE" in line
    assert "Traceback" not in line
