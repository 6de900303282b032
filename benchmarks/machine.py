"""Where the benchmark ran: machine, versions, Postgres settings."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
import redis

SHOWN_SETTINGS: Final = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_compression",
    "max_connections",
)


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What a number depends on, in words. ``load_average`` is the one-minute figure before the first case."""

    processor: str
    cores: int
    memory_mib: int
    kernel: str
    load_average: float
    versions: dict[str, str]
    postgres_settings: dict[str, str]


def environment(postgres_setting: Callable[[str], str], redis_url: str) -> Environment:
    """Describe this machine; ``postgres_setting`` gives a setting by name."""
    with redis.Redis.from_url(redis_url) as client:
        valkey = client.info("server")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Environment(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=memory // 2**20,
        kernel=f"{platform.system()} {platform.release()}",
        load_average=os.getloadavg()[0],
        versions={
            "server": version("dw-standalone"),
            "python": platform.python_version(),
            "hypercorn": version("hypercorn"),
            "psycopg": version("psycopg"),
            "postgres": postgres_setting("server_version"),
            "valkey": str(valkey.get("valkey_version", valkey["redis_version"])),
        },
        postgres_settings={name: postgres_setting(name) for name in SHOWN_SETTINGS},
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
