"""The migration files beside this module: pairs ``NNNN_name.expand.sql`` and ``NNNN_name.contract.sql``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Phase = Literal["expand", "contract"]

_FILE = re.compile(r"(?P<name>\d{4}_[a-z0-9_]+)\.(?P<phase>expand|contract)\.sql")
_CREATES = re.compile(r"^CREATE (?:UNLOGGED )?(?:TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
_DROPS = re.compile(r"^DROP (?:TABLE|VIEW) (?:IF EXISTS )?(\w+)", re.MULTILINE)
_NO_TRANSACTION = "-- no transaction\n"
_THEN = re.compile(r"^-- then\n", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One file. ``creates`` and ``drops`` are the tables and views it makes and removes; statements start a line."""

    name: str
    phase: Phase
    text: str

    @property
    def key(self) -> str:
        """Name and phase: the identity of a file in the bookkeeping."""
        return f"{self.name}.{self.phase}"

    @property
    def checksum(self) -> str:
        """Hex SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_transactional(self) -> bool:
        """Whether the file runs in a transaction; its first line says when it must not."""
        return not self.text.startswith(_NO_TRANSACTION)

    @property
    def parts(self) -> list[str]:
        """What is sent at once: the file, or outside a transaction the statements between ``-- then`` lines."""
        return [self.text] if self.is_transactional else _THEN.split(self.text)

    @property
    def creates(self) -> tuple[str, ...]:
        """Tables and views the file creates."""
        return tuple(_CREATES.findall(self.text))

    @property
    def drops(self) -> tuple[str, ...]:
        """Tables and views the file drops."""
        return tuple(_DROPS.findall(self.text))


@cache
def migrations() -> tuple[Migration, ...]:
    """Every file in the order in which it is applied: all expand files by number, then all contract files."""
    found = []
    for file in (files(__package__) / "migrations").iterdir():
        named = _FILE.fullmatch(file.name)
        if named is not None:
            phase: Phase = "expand" if named["phase"] == "expand" else "contract"
            found.append(Migration(name=named["name"], phase=phase, text=file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda m: (m.phase == "contract", m.name)))


def bookkeeping() -> str:
    """The text that creates the bookkeeping table unless it exists."""
    return (files(__package__) / "migrations" / "bookkeeping.sql").read_text(encoding="utf-8")


def expected_relations(known: Collection[Migration], applied: Collection[str]) -> set[str]:
    """Tables and views that exist when the files with these keys have been applied."""
    expected: set[str] = set()
    for migration in known:
        if migration.key in applied:
            expected -= set(migration.drops)
            expected |= set(migration.creates)
    return expected
