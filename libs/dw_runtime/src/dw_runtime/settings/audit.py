"""What an environment contains that is not a setting: typing errors, legacy names, names without meaning here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from dw_runtime.settings.model import IGNORED, REGISTRY

RESERVED_PREFIXES = ("DW_TEST_", "DW_BENCH_")


class Finding(msgspec.Struct, frozen=True):
    """One remark about the environment; ``kind`` is ``unknown``, ``legacy`` or ``ignored``."""

    kind: str
    name: str
    message: str


def known_names() -> frozenset[str]:
    """Every current spelling of every setting, with the ``_FILE`` variants of secrets."""
    names: set[str] = set()
    for declared in REGISTRY:
        for name in (declared.var.name, *declared.var.also):
            names.add(name)
            if declared.var.is_secret:
                names.add(f"{name}_FILE")
    return frozenset(names)


def unknown(environ: Mapping[str, str]) -> list[Finding]:
    """Find ``DW_*`` names that no setting has, each with the closest name that exists."""
    known = known_names()
    findings = []
    for name in sorted(environ):
        if not name.startswith("DW_") or name.startswith(RESERVED_PREFIXES):
            continue
        if name in known or name in IGNORED or name == "DW_AUTH_PROVIDER":
            continue
        close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]}?" if close else ""
        findings.append(Finding("unknown", name, f"{name} is not a setting of this server.{hint}"))
    return findings


def ignored(environ: Mapping[str, str]) -> list[Finding]:
    """Find names that are accepted for compatibility and have no effect."""
    return [
        Finding("ignored", name, f"{name} has no meaning for this server and is ignored.")
        for name in IGNORED
        if name.startswith("DW_") and environ.get(name)
    ]


def legacy(name: str, current: str) -> Finding:
    """The remark about a legacy spelling that supplied a value."""
    return Finding("legacy", name, f"{name} is a legacy name; use {current}.")
