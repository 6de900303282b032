"""Updates of memo and search attributes by the workflow (engine §6.5)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from dw_core.engine.commands.parsed import Parsed, UpsertMemo, UpsertSearchAttributes
from dw_core.engine.rows import AttributeType, Metadata
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection
from dw_core.engine.writer import RunWriter
from dw_core.limits import Limits
from dw_core.metadata import attributes, memo
from dw_core.payloads.codec import decode_blob, encode_blob
from dw_core.payloads.envelope import envelope


def refuse_metadata(snapshot: Snapshot, batch: Parsed, limits: Limits) -> Rejection | None:
    """Why a batch's updates do not fit what the run and its namespace have already; None when they do.

    Everything that one command shows by itself has been checked when it was parsed.
    """
    if not batch.updates_metadata:
        return None
    current = snapshot.metadata
    assert current is not None, "the metadata of a run whose batch updates it is read"
    types = dict(snapshot.attribute_types)
    values, merged_memo = current.search_attributes, _memo(current)
    for index, command in enumerate(batch.commands):
        if isinstance(command, UpsertMemo):
            merged_memo = memo.merge(merged_memo, command.entries)
            wrong = memo.complaint(merged_memo, may_be_empty=True)
            if wrong is not None:
                return _invalid("workflow_memo_validation_failed", f"commands.{index}.entries", f"merged, it {wrong}")
        elif isinstance(command, UpsertSearchAttributes):
            refused = _refuse_types(index, command, types, limits)
            if refused is not None:
                return refused
            values = attributes.merge(values, command.attributes)
    return _over_limit(values, limits)


def _refuse_types(
    index: int, command: UpsertSearchAttributes, types: dict[str, str], limits: Limits
) -> Rejection | None:
    """A name keeps the type of its first typed use in the namespace; ``types`` learns those of this command."""
    for name, value in command.attributes.items():
        declared, fixed = command.types.get(name), types.get(name)
        field = f"commands.{index}.attributes.{name}"
        if fixed is not None and declared not in (None, fixed):
            return _invalid("validation_failed", field, f"has the type {fixed} in this namespace")
        wrong = None if fixed is None or value is None else attributes.value_complaint(value, fixed)
        if wrong is not None:
            return _invalid("validation_failed", field, wrong)
        if declared is not None and fixed is None:
            if len(types) >= limits.max_search_attributes:
                return Rejection(
                    "search_attribute_limit_reached",
                    "The namespace has as many typed search attributes as it may have.",
                    {"outcome": "rejected", "recorded": False, "limit": limits.max_search_attributes},
                )
            types[name] = declared
    return None


def _over_limit(values: Mapping[str, Any], limits: Limits) -> Rejection | None:
    checks = (
        ("search_attribute_count", len(values), limits.max_search_attributes),
        ("search_attribute_size", attributes.size_bytes(values), limits.search_attribute_size_bytes),
    )
    for kind, value, limit in checks:
        if limit and value > limit:
            return Rejection(
                "structural_limit_exceeded",
                f"The batch would exceed the limit {kind}.",
                {"outcome": "rejected", "limit_kind": kind, "current_value": value, "configured_limit": limit},
            )
    return None


def _invalid(reason: str, field: str, message: str) -> Rejection:
    errors = {field: [message]}
    return Rejection(reason, "The request is invalid.", {"errors": errors, "validation_errors": errors})


def _memo(current: Metadata) -> dict[str, Any]:
    """The memo as values: what the workflow has made of it, else what the start gave."""
    return current.memo if current.memo_blob is None else dict(decode_blob(current.memo_blob))


def _changed(writer: RunWriter) -> Metadata:
    """The after image that this decision works on."""
    if writer.transition.metadata is None:
        assert writer.snapshot.metadata is not None
        writer.transition.metadata = copy.copy(writer.snapshot.metadata)
    return writer.transition.metadata


def update_memo(writer: RunWriter, sequence: int, command: UpsertMemo, source: str) -> int:
    """``MemoUpserted``: the patch as it was sent and the whole memo after it, both as envelopes."""
    changed = _changed(writer)
    merged = memo.merge(_memo(changed), command.entries)
    changed.memo, changed.memo_blob = memo.shown(merged), encode_blob(merged)
    payload = {
        "sequence": sequence,
        "entries": envelope(command.blob),
        "merged": envelope(changed.memo_blob),
    }
    return writer.append("MemoUpserted", payload, workflow_task_id=source)


def update_search_attributes(writer: RunWriter, sequence: int, command: UpsertSearchAttributes, source: str) -> int:
    """``SearchAttributesUpserted``: the patch, the types of what it sets, and all attributes after it."""
    changed = _changed(writer)
    known = writer.snapshot.attribute_types | {t.name: t.type for t in writer.transition.attribute_types}
    types: dict[str, str] = {}
    for name, value in command.attributes.items():
        declared = command.types.get(name)
        if declared is not None and name not in known:
            writer.transition.attribute_types.append(
                AttributeType(namespace=writer.run.namespace, name=name, type=declared)
            )
        kind = declared or known.get(name) or attributes.infer(value)
        if value is not None and kind is not None:
            types[name] = kind
    changed.search_attributes = attributes.merge(changed.search_attributes, command.attributes)
    kept = (changed.search_attribute_types or {}) | types
    changed.search_attribute_types = {name: kept[name] for name in changed.search_attributes if name in kept}
    payload = {
        "sequence": sequence,
        "attributes": command.attributes,
        "attribute_types": types,
        "merged": changed.search_attributes,
    }
    return writer.append("SearchAttributesUpserted", payload, workflow_task_id=source)
