"""Writes ``README.md`` of the chart from the comments in ``values.yaml``: ``python deploy/helm/readme.py``.

A comment that begins with ``# --`` and everything that follows it up to the next key describes that key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent / "durable-workflow"

_INTRODUCTION = """\
# Helm chart `durable-workflow`

Generated from `values.yaml` by `python deploy/helm/readme.py`; do not edit.

{description}. Chart {version}, application {app_version}, Kubernetes {kubernetes}.

How to install it, scale it and upgrade it: `docs/how-to/install-with-helm.md` of the repository.

`ci/` has complete sets of values: the least for each shape, everything at once, Argo CD, and two releases for Flux.

## Values

| Key | Default | Meaning |
|---|---|---|
"""

_KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):(.*)$")
_COMMENT = re.compile(r"^ *# ?(.*)$")


def documented(text: str) -> Iterator[tuple[str, str]]:
    """Dotted key and description of every described key, in their order."""
    path: list[tuple[int, str]] = []
    words: list[str] = []
    for line in text.splitlines():
        comment, key = _COMMENT.match(line), _KEY.match(line)
        if comment:
            words = [comment[1].removeprefix("-- ")] if comment[1].startswith("-- ") else [*words, comment[1]]
        elif key:
            indent = len(key[1])
            path = [*((depth, name) for depth, name in path if depth < indent), (indent, key[2])]
            if words:
                yield ".".join(name for _, name in path), " ".join(words)
            words = []


def default_of(values: Any, key: str) -> str:
    """The default of a dotted key as JSON; empty for a block whose own keys are described."""
    for name in key.split("."):
        values = values[name]
    return json.dumps(values, ensure_ascii=False)


def render(chart: Path = CHART) -> str:
    """The whole page as Markdown."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    text = (chart / "values.yaml").read_text()
    values = yaml.safe_load(text)
    described = list(documented(text))
    parents = {key.rpartition(".")[0] for key, _ in described}
    parents |= {parent.rpartition(".")[0] for parent in parents} | {"apiIngress", "matching", "scheduler"}
    rows = []
    for key, meaning in described:
        default = "" if key in parents else f"`{default_of(values, key)}`"
        rows.append(f"| `{key}` | {default} | {meaning} |")
    introduction = _INTRODUCTION.format(
        description=about["description"],
        version=about["version"],
        app_version=about["appVersion"],
        kubernetes=about["kubeVersion"].removesuffix("-0"),
    )
    return introduction + "\n".join(rows) + "\n"


def main() -> int:
    """Write the page."""
    (CHART / "README.md").write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
