"""The generated pages of ``docs/reference``: ``python -m tests.references`` (``make references``) writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import dw_runtime.telemetry.reference
from dw_runtime.settings.report import reference
from tests.references import events, limits, routes

PAGES: Final[dict[str, Callable[[], str]]] = {
    "events": events.render,
    "limits": limits.render,
    "metrics": dw_runtime.telemetry.reference.render,
    "reasons": routes.render_reasons,
    "routes": routes.render_routes,
    "settings": reference,
}
"""Each page by the name of its file."""


def page(name: str) -> Path:
    """Where a page is."""
    return Path(__file__).parents[2] / "docs/reference" / f"{name}.md"
