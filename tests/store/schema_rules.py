"""What an expand migration must not do, because processes of the version before it go on while it is applied and after.

They read rows whole (columns that they do not know are ignored), and write whole rows of the columns that they know: a
column that is new to them gets NULL. So new columns must take NULL, and nothing they rely on may go, change or be
forbidden to them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

_COLUMNS = """
SELECT c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
"""
_RULES = """
SELECT c.relname || ': ' || pg_get_constraintdef(k.oid)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = 'public'::regnamespace AND k.contype IN ('c', 'f', 'u', 'x')
UNION
SELECT c.relname || ': unique ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', '')
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique
"""


class Schema(msgspec.Struct, frozen=True):
    """Columns (``table.column``) by type and whether they refuse NULL, and the constraints and unique indexes."""

    columns: dict[str, tuple[str, bool]]
    rules: frozenset[str]

    @property
    def tables(self) -> set[str]:
        """The names of the tables."""
        return {name.split(".")[0] for name in self.columns}


def read_schema(connection: psycopg.Connection[Any]) -> Schema:
    """The schema as it stands."""
    columns = {name: (kind, is_strict) for name, kind, is_strict in connection.execute(_COLUMNS)}
    return Schema(columns, frozenset(rule for (rule,) in connection.execute(_RULES)))


def complaints(before: Schema, after: Schema) -> list[str]:
    """What the step from one schema to the other does to processes that know only the first; empty when nothing."""
    found = [f"{name} is gone" for name in before.columns.keys() - after.columns.keys()]
    for name, (kind, is_strict) in after.columns.items():
        known = before.columns.get(name)
        if known is None:
            if is_strict and name.split(".")[0] in before.tables:
                found.append(f"{name} is new and refuses NULL")
        elif known[0] != kind:
            found.append(f"{name} has become {kind}")
        elif is_strict and not known[1]:
            found.append(f"{name} refuses NULL now")
    new_rules = (rule for rule in after.rules - before.rules if rule.split(":")[0] in before.tables)
    return sorted(found + [f"{rule} is a new rule" for rule in new_rules])
