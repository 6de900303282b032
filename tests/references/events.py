"""The events of histories as a page of Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

GOLDEN: Final = Path(__file__).parents[1] / "unit/engine/golden"
_INTRODUCTION: Final = """\
# Events

Generated from the golden histories of the tests; do not edit. An event has a `sequence`, an `event_type`, the
`timestamp` of its commit and a `payload`; members that do not apply are absent or null. Schedules have a history of
their own, `GET /api/schedules/{schedule_id}/history`."""


def render() -> str:
    """The events of histories with the members of their payloads, as the golden histories have them."""
    members: dict[str, dict[str, set[str]]] = {}
    for event in _golden_events():
        known = members.setdefault(event["event_type"], {})
        for name, value in event["payload"].items():
            known.setdefault(name, set()).add(_kind(value))
    lines = [_INTRODUCTION]
    for event_type in sorted(members):
        lines += ["", f"## {event_type}", "", "| member | JSON |", "|---|---|"]
        lines += [f"| `{name}` | {', '.join(sorted(kinds))} |" for name, kinds in sorted(members[event_type].items())]
    return "\n".join(lines) + "\n"


def _golden_events() -> Iterator[dict[str, Any]]:
    for path in sorted(GOLDEN.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            yield from case["history"]


def _kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names[type(value)]
