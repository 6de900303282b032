"""The image: its file keeps the rules for images, and what its steps build runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "images" / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
PACKAGES = re.findall(r"(?:libs|services)/\w+", next(line for line in INSTRUCTIONS if "pip wheel" in line))


def values(instruction: str) -> list[str]:
    """What follows each of these instructions."""
    return [line.removeprefix(instruction).strip() for line in INSTRUCTIONS if line.startswith(f"{instruction} ")]


def test_the_base_is_an_argument_and_nothing_runs_as_root() -> None:
    assert [source.split()[0] for source in values("FROM")] == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    assert re.fullmatch(r"\d+:\d+", values("USER")[-1]) and not values("USER")[-1].startswith("0:")
    assert values("HEALTHCHECK") == [], "probes belong to who runs the containers"
    assert values("ENTRYPOINT") == ['["dw-server"]'], "no shell stands between signals and the process"
    labels = " ".join(values("LABEL"))
    assert {"title", "description", "version", "revision"} == set(re.findall(r"opencontainers\.image\.(\w+)", labels))


def test_what_is_installed_is_locked_by_hash_and_what_is_copied_is_there() -> None:
    for line in INSTRUCTIONS:
        if "pip install" in line and "-r " in line:
            assert all("--require-hashes" in part for part in line.split("&&") if "pip install" in part)
    for copied in values("COPY"):
        if not copied.startswith("--from"):
            assert all((ROOT / source).exists() for source in copied.split()[:-1])
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"!requirements", "!libs", "!services"} <= set(ignored)
    assert set(PACKAGES) == {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("[ls]*/*/pyproject.toml")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages as the image has them: built into wheels, installed from these."""
    folder = tmp_path_factory.mktemp("image")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder / "wheels")]
    subprocess.run([*pip, *wheels, *PACKAGES], cwd=ROOT, check=True, capture_output=True)
    found = [str(path) for path in (folder / "wheels").glob("*.whl")]
    assert len(found) == len(PACKAGES)
    target = folder / "root"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(target), *found], check=True)
    return target


def run(installed: Path, *command: str) -> str:
    """What a command of the installed packages prints; the checkout is not on the path before them."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=installed, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_what_was_built_runs_and_has_its_statements_and_migrations(installed: Path) -> None:
    where = "import dw_runtime, dw_core, dw_standalone as d; print(dw_runtime.__file__, dw_core.__file__, d.__file__)"
    assert all(path.startswith(str(installed)) for path in run(installed, "-c", where).split())
    assert re.match(r"\d+\.\d+", run(installed, "-m", "dw_standalone.cli", "version"))
    count = "from dw_runtime.store.statements import statements; print(len(statements()))"
    assert int(run(installed, "-c", count)) > 100
    sources = {path.name for path in ROOT.glob("libs/dw_runtime/src/dw_runtime/store/migrations/*.sql")}
    assert {path.name for path in installed.glob("dw_runtime/store/migrations/*.sql")} == sources
