"""``dw-server smoke`` runs one workflow through a deployment, or says what is wrong."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import Planes
from tests.harness.processes import free_port
from tests.harness.servers import TOKEN, Server


async def smoke(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [sys.executable, "-m", "dw_standalone.cli", "smoke", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DW_")}
    return await asyncio.to_thread(
        subprocess.run, command, env={**kept, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


async def test_one_workflow_runs_through_one_address(server: Server) -> None:
    done = await smoke("--url", server.url, DW_AUTH_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A workflow with one activity ran through in ") and "activity" in done.stdout


async def test_each_plane_may_have_an_address_and_the_token_a_file(split_planes: Planes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    planes = ("--url", split_planes.control.url, "--worker-url", split_planes.worker.url)
    done = await smoke(*planes, "--token-file", str(tmp_path / "token"), DW_AUTH_DRIVER="jwt")
    assert done.returncode == 0, done.stderr


async def test_a_failure_is_one_sentence_with_the_step(server: Server) -> None:
    refused = await smoke("--url", server.url, DW_AUTH_TOKEN="wrong")
    assert refused.returncode == 1 and "/api/worker/register was answered with 401" in refused.stderr
    away = await smoke("--url", f"http://127.0.0.1:{free_port()}", DW_AUTH_TOKEN=TOKEN)
    assert away.returncode == 1 and "refused" in away.stderr and "Traceback" not in away.stderr
    without = await smoke("--url", server.url)
    assert without.returncode == 78 and "DW_OPERATOR_TOKEN and DW_WORKER_TOKEN" in without.stderr
