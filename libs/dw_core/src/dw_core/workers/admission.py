"""Caps on what a queue may hand out: leases at a time and dispatches per minute (topology §5.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dw_core.engine.rows import TaskKind

SECTIONS = {TaskKind.WORKFLOW: "workflow_tasks", TaskKind.ACTIVITY: "activity_tasks"}
_FIELDS = {
    "max_active_leases_per_queue": "queue_leases_max",
    "max_active_leases": "queue_leases_max",
    "max_active_leases_per_namespace": "namespace_leases_max",
    "max_dispatches_per_minute": "queue_dispatches_max",
    "max_dispatches_per_minute_per_namespace": "namespace_dispatches_max",
    "max_dispatches_per_minute_per_budget_group": "group_dispatches_max",
    "dispatch_budget_group": "budget_group",
    "budget_group": "budget_group",
}


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The caps of one queue and kind of task; None is no cap. Minutes are calendar minutes in UTC.

    ``group_dispatches_max`` is shared by the queues of a namespace that name the same ``budget_group``.
    """

    queue_leases_max: int | None = None
    namespace_leases_max: int | None = None
    queue_dispatches_max: int | None = None
    namespace_dispatches_max: int | None = None
    budget_group: str | None = None
    group_dispatches_max: int | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is capped."""
        caps = msgspec.structs.asdict(self)
        caps.pop("budget_group")
        return all(cap is None for cap in caps.values())

    def budgets(self, queue: str) -> dict[str, int]:
        """The dispatches per minute that are allowed, by the scope they are counted in."""
        found = {"namespace": self.namespace_dispatches_max, f"queue:{queue}": self.queue_dispatches_max}
        if self.budget_group is not None:
            found[f"group:{self.budget_group}"] = self.group_dispatches_max
        return {scope: cap for scope, cap in found.items() if cap is not None}


Overrides = Mapping[str, Mapping[str, Mapping[str, Any]]]


class AdmissionRules(msgspec.Struct, frozen=True):
    """The caps of every queue: defaults by kind, and overrides by ``ns:queue``, ``ns:*``, ``queue`` or ``*``."""

    defaults: Mapping[TaskKind, QueueLimits] = {}
    overrides: Overrides = {}

    def limits(self, namespace: str, kind: TaskKind, queue: str) -> QueueLimits | None:
        """The caps of a queue, None when it has none. The most specific override that names the kind wins; what it
        leaves out keeps its default, and null lifts a cap."""
        section = SECTIONS.get(kind)
        if section is None:
            return None
        limits = self.defaults.get(kind, QueueLimits())
        for key in (f"{namespace}:{queue}", f"{namespace}:*", queue, "*"):
            if section in self.overrides.get(key, {}):
                limits = msgspec.structs.replace(limits, **self.overrides[key][section])
                break
        return None if limits.is_unlimited else limits


def parse_overrides(text: str) -> Overrides:
    """Overrides from their JSON text, with the names of :class:`QueueLimits`.

    Raises ``ValueError`` with what is wrong, to follow the name of the setting: a mistake must not silently lift a cap.
    """
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ValueError("is not valid JSON") from None
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    return {key: _sections(key, value) for key, value in document.items()}


def _sections(key: str, value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError(f"has no object under {key!r}")
    found: dict[str, dict[str, Any]] = {}
    for section, caps in value.items():
        if section not in SECTIONS.values():
            raise ValueError(f"has the unknown section {section!r} under {key!r}")
        if not isinstance(caps, dict):
            raise ValueError(f"has no object under {section!r} of {key!r}")
        found[section] = {_field(key, name): _cap(key, name, cap) for name, cap in caps.items()}
    return found


def _field(key: str, name: str) -> str:
    if name not in _FIELDS:
        raise ValueError(f"has the unknown cap {name!r} under {key!r}")
    return _FIELDS[name]


def _cap(key: str, name: str, cap: Any) -> Any:
    is_name = _FIELDS[name] == "budget_group"
    if cap is None or (isinstance(cap, str) and cap if is_name else type(cap) is int and cap >= 1):
        return cap
    raise ValueError(f"needs {'a name' if is_name else 'a positive number'} for {name!r} under {key!r}")
