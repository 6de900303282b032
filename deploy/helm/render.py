"""Renders the chart without a cluster: ``python deploy/helm/render.py [folder]``.

Every set of values of the chart's folder ``ci`` becomes one file of objects in ``folder`` (``build/helm``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import helm_python

CHART = Path(__file__).resolve().parent / "durable-workflow"


def render(values: Path) -> str:
    """The objects of one set of values as YAML documents."""
    with helm_python.Chart.load(CHART) as chart:
        texts = chart.render(helm_python.values_from_yaml(values.read_text()), name="dw", namespace="workflows")
    objects = (text.strip() for name, text in sorted(texts.items()) if name.endswith(".yaml"))
    return "\n---\n".join(text.removeprefix("---").strip() for text in objects if text) + "\n"


def main(arguments: list[str]) -> int:
    """Render every set and say where it is; return the exit code."""
    folder = Path(arguments[0] if arguments else "build/helm")
    folder.mkdir(parents=True, exist_ok=True)
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        file = folder / values.name.replace("-values", "")
        try:
            file.write_text(render(values))
        except helm_python.HelmError as error:
            print(f"{values.name}: {error}", file=sys.stderr)
            return 1
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
