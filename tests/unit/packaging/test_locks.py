"""The committed locks: current, hashed, and without addresses of registries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def test_no_lock_is_stale() -> None:
    command = [sys.executable, str(ROOT / "requirements" / "lock.py"), "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_a_lock_for_every_purpose() -> None:
    assert [lock.stem for lock in LOCKS] == ["build", "docs", "lint", "run", "test"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_registry_and_hashes_every_package(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"https?://|--index|--find-links|file:", text)
    packages = re.findall(r"^[A-Za-z0-9].*$", text, re.MULTILINE)
    assert packages
    assert all(re.match(r"\S+==\S+ .*\\$", package) for package in packages)


def test_all_locks_agree_on_versions() -> None:
    versions: dict[tuple[str, str], set[str]] = {}
    for lock in LOCKS:
        for name, version, marker in re.findall(r"^([\w.-]+)==(\S+) (.*)\\$", lock.read_text(), re.MULTILINE):
            versions.setdefault((name, marker), set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
