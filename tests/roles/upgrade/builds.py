"""Wheels of an earlier commit and of this checkout, each installed into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[3]
MIGRATIONS = "libs/dw_runtime/src/dw_runtime/store/migrations"
PACKAGES = (
    "libs/dw_core",
    "libs/dw_runtime",
    "services/api_ingress",
    "services/matching",
    "services/scheduler",
    "services/standalone",
)
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


class Build(msgspec.Struct, frozen=True):
    """Installed packages; ``environ`` makes a process use them rather than the checkout."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """What a process of this build has in its environment."""
        return {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *command: str, **environ: str) -> str:
        """Run a command of ``dw-server`` to its end; what it prints."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DW_", "DB_", "REDIS_"))}
        done = subprocess.run(
            [sys.executable, "-m", "dw_standalone.cli", *command],
            cwd=self.folder,
            env=kept | self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def modules(self) -> str:
        """Where a process of this build finds its code."""
        code = "import dw_core, dw_runtime, dw_matching; print(dw_core.__file__, dw_runtime.__file__)"
        environ = os.environ | self.environ
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        return done.stdout


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def earlier_commit() -> str | None:
    """The commit that is upgraded from: ``DW_UPGRADE_FROM``, or the one before the newest migration.

    None when the history of git does not go back that far.
    """
    named = os.environ.get("DW_UPGRADE_FROM")
    if named:
        return _git("rev-parse", "--verify", f"{named}^{{commit}}")
    added = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", MIGRATIONS)
    return None if added is None else _git("rev-parse", "--verify", "--quiet", f"{added}^1")


def export(commit: str, folder: Path) -> Path:
    """The files of a commit, in a new folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, *PACKAGES], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def build(source: Path, folder: Path) -> Build:
    """Build the packages of a source tree into wheels and install these, without what they depend on."""
    wheels = folder / "wheels"
    packages = [str(source / package) for package in PACKAGES]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels)]
    subprocess.run([*_PIP, "wheel", *options, *packages], check=True, capture_output=True)
    found = sorted(str(path) for path in wheels.glob("*.whl"))
    assert len(found) == len(PACKAGES)
    target = folder / "installed"
    install = ["install", "--no-deps", "--no-index", "--target", str(target), *found]
    subprocess.run([*_PIP, *install], check=True, capture_output=True)
    return Build(target)
