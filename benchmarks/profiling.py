"""Where the server's time went, from a cProfile file."""

from __future__ import annotations

import pstats
from pathlib import Path
from typing import Final

FUNCTIONS_SHOWN: Final = 25
PACKAGES_SHOWN: Final = 15


def render(profile: Path) -> str:
    """Own time by package, then the functions with the most own time; waiting for events is left out."""
    rows = _own_times(profile)
    total = sum(seconds for _, _, seconds in rows) or 1.0
    packages: dict[str, float] = {}
    for package, _, seconds in rows:
        packages[package] = packages.get(package, 0.0) + seconds
    ranked = sorted(packages.items(), key=lambda item: item[1], reverse=True)[:PACKAGES_SHOWN]
    lines = ["Own time by package, under cProfile (which makes Python code look dearer than C code)."]
    lines += [f"{seconds / total:6.1%}  {package}" for package, seconds in ranked]
    lines += ["", "Functions with the most own time."]
    top = sorted(rows, key=lambda row: row[2], reverse=True)[:FUNCTIONS_SHOWN]
    lines += [f"{seconds / total:6.1%}  {package}: {function}" for package, function, seconds in top]
    return "\n".join(lines)


def _own_times(profile: Path) -> list[tuple[str, str, float]]:
    """Package, function and own seconds of every function; pstats has no typed access to its table."""
    table: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = vars(pstats.Stats(str(profile)))["stats"]
    return [
        (_package(file, function), f"{function} ({Path(file).name}:{line})", own)
        for (file, line, function), (_, _, own, _, _) in table.items()
        if "poll' of 'select" not in function
    ]


def _package(file: str, function: str) -> str:
    """The package of a function; of one in C the type it belongs to, or the module."""
    if file == "~":
        words = function.strip("<>").replace("'", "").split()
        owner = words[words.index("of") + 1] if "of" in words else words[-1]
        return f"built-in {owner.partition('.')[0]}"
    parts = Path(file).parts
    for marker in ("site-packages", "src"):
        if marker in parts:
            inside = parts[parts.index(marker) + 1 :]
            return ".".join(inside[:2]) if inside[0].startswith("dw_") else inside[0]
    return f"python {parts[-2] if len(parts) > 2 else Path(file).stem}"
