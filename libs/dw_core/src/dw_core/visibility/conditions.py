"""What a query asks of a run, field by field: the form in which the store is asked (control-plane §11)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.metadata.attributes import search_number
from dw_core.protocol.timestamps import read_time
from dw_core.visibility.query import Term, Value, wrong

STATUSES: Final = {
    "running": ("pending", "running", "waiting"),
    "completed": ("completed",),
    "failed": ("failed", "cancelled", "terminated"),
}
"""The statuses of each bucket (control-plane §8.1). ``running`` and ``failed`` name their whole bucket."""
_EVERY_STATUS: Final = tuple(status for bucket in STATUSES.values() for status in bucket)
_KEYWORD_FIELDS: Final = {
    "WorkflowType": "workflow_type",
    "WorkflowId": "workflow_id",
    "RunId": "run_id",
    "TaskQueue": "queue",
    "BuildId": "compatibility",
    "BuildIds": "compatibility",
}
_TIME_FIELDS: Final = {"StartTime": "started", "ExecutionTime": "started", "CloseTime": "closed"}


class Span(msgspec.Struct, kw_only=True):
    """What lies between two bounds, each with whether it belongs to the span; None is no bound."""

    low: Any = None
    has_low: bool = True
    high: Any = None
    has_high: bool = True

    def narrow(self, op: str, value: Any) -> None:
        """Leave only what compares with the value in this way: >, >=, < or <=."""
        is_inclusive = op in (">=", "<=")
        if op in (">", ">="):
            if self.low is None or (value, not is_inclusive) > (self.low, not self.has_low):
                self.low, self.has_low = value, is_inclusive
        elif self.high is None or (value, is_inclusive) < (self.high, self.has_high):
            self.high, self.has_high = value, is_inclusive


class Keyword(msgspec.Struct, kw_only=True):
    """A field of a run that must be one of ``allowed``, None for any, and none of ``denied``."""

    allowed: list[str] | None = None
    denied: list[str] = []

    def take(self, op: str, values: Sequence[str]) -> None:
        """Add ``=`` or ``!=`` of these values."""
        if op == "!=":
            self.denied = [*self.denied, *values]
        elif self.allowed is None:
            self.allowed = list(dict.fromkeys(values))
        else:
            self.allowed = [value for value in self.allowed if value in values]


class Attribute(msgspec.Struct, kw_only=True):
    """A condition on one search attribute.

    One of its values is among ``texts`` or ``numbers`` or between the bounds; when ``is_negative``, it has a value and
    none is.
    """

    name: str
    texts: list[str] | None = None
    numbers: list[Any] | None = None
    low: Any = None
    has_low: bool = True
    high: Any = None
    has_high: bool = True
    is_negative: bool = False


class Conditions(msgspec.Struct, kw_only=True):
    """One alternative: everything in it holds. ``fields`` goes by column; ``substring`` is looked for in ids."""

    fields: dict[str, Keyword] = {}
    statuses: list[str] | None = None
    started: Span = msgspec.field(default_factory=Span)
    closed: Span = msgspec.field(default_factory=Span)
    not_started: list[datetime] = []
    not_closed: list[datetime] = []
    attributes: list[Attribute] = []
    substring: str | None = None

    def keyword(self, column: str) -> Keyword:
        """The condition on a column, made when there is none yet."""
        return self.fields.setdefault(column, Keyword())

    def allow_statuses(self, statuses: Sequence[str]) -> None:
        """Leave only these statuses."""
        before = _EVERY_STATUS if self.statuses is None else self.statuses
        self.statuses = [status for status in before if status in statuses]

    @property
    def bucket(self) -> str | None:
        """The bucket that all allowed statuses are in, None when there is no such one."""
        allowed = self.statuses
        return next((b for b, s in STATUSES.items() if allowed and set(allowed) <= set(s)), None)


def read_conditions(terms: Sequence[Term], types: Mapping[str, str]) -> Conditions:
    """One alternative of a query; ``types`` are the registered search attributes by name.

    Raises ``Invalid`` for an unknown field, an operator that a field does not have and a value of another type.
    """
    conditions = Conditions()
    for term in terms:
        if term.field in _KEYWORD_FIELDS:
            conditions.keyword(_KEYWORD_FIELDS[term.field]).take(_equality(term), _texts(term))
        elif term.field in ("Status", "ExecutionStatus"):
            conditions.allow_statuses(_statuses(term))
        elif term.field in _TIME_FIELDS:
            _take_time(conditions, _TIME_FIELDS[term.field], term)
        elif term.field in types:
            conditions.attributes.append(_attribute(term, types[term.field]))
        else:
            raise wrong(f"{term.field[:128]} is no field and no registered search attribute", term.position)
    return conditions


def _equality(term: Term) -> str:
    if term.op not in ("=", "!="):
        raise wrong(f"{term.field} takes =, != and IN, not {term.op}", term.position)
    return term.op


def _texts(term: Term) -> list[str]:
    """Values of a text field; an unquoted number is the text of its digits, as written for an integer."""
    found: list[str] = []
    for value in term.values:
        if isinstance(value, bool | float):
            raise wrong(f"{term.field} is compared with text", term.position)
        found.append(str(value))
    return found


def _statuses(term: Term) -> list[str]:
    meant: set[str] = set()
    for value in _texts(term):
        name = value.lower()
        if name not in STATUSES and name not in _EVERY_STATUS:
            raise wrong(f"{value[:64]} is no status", term.position)
        meant.update(STATUSES.get(name, (name,)))
    is_denied = _equality(term) == "!="
    return [status for status in _EVERY_STATUS if (status in meant) is not is_denied]


def _take_time(conditions: Conditions, name: str, term: Term) -> None:
    times = [_time(term, value) for value in term.values]
    span: Span = getattr(conditions, name)
    if term.op == "!=":
        getattr(conditions, f"not_{name}").extend(times)
    elif term.op != "=":
        span.narrow(term.op, times[0])
    elif len(times) > 1:
        raise wrong(f"{term.field} does not take IN", term.position)
    else:
        span.narrow(">=", times[0])
        span.narrow("<=", times[0])


def _time(term: Term, value: Value) -> datetime:
    found = read_time(value) if isinstance(value, str) else None
    if found is None:
        raise wrong(f"{term.field} is compared with an ISO 8601 time", term.position)
    return found


def _attribute(term: Term, kind: str) -> Attribute:
    match kind:
        case "bool":
            if not all(isinstance(value, bool) for value in term.values):
                raise wrong(f"{term.field} is compared with true or false", term.position)
            texts = ["true" if value else "false" for value in term.values]
            return Attribute(name=term.field, texts=texts, is_negative=_equality(term) == "!=")
        case "int" | "float" | "datetime":
            return _number(term, kind)
        case _:
            return Attribute(name=term.field, texts=_texts(term), is_negative=_equality(term) == "!=")


def _number(term: Term, kind: str) -> Attribute:
    numbers = [_time_number(term, v) if kind == "datetime" else _plain_number(term, v) for v in term.values]
    if term.op in ("=", "!="):
        return Attribute(name=term.field, numbers=numbers, is_negative=term.op == "!=")
    span = Span()
    span.narrow(term.op, numbers[0])
    return Attribute(name=term.field, low=span.low, has_low=span.has_low, high=span.high, has_high=span.has_high)


def _time_number(term: Term, value: Value) -> int | float:
    return search_number(_time(term, value).isoformat(), "datetime") or 0


def _plain_number(term: Term, value: Value) -> int | float:
    if isinstance(value, bool | str) or not math.isfinite(value):
        raise wrong(f"{term.field} is compared with a number", term.position)
    return value
