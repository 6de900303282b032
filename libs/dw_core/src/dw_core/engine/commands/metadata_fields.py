"""Reading ``upsert_search_attributes`` and ``upsert_memo`` (worker-plane §9.3)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.commands.fields import Fields
from dw_core.engine.commands.parsed import UpsertMemo, UpsertSearchAttributes
from dw_core.metadata.attributes import TYPES, infer, name_complaint, value_complaint
from dw_core.metadata.memo import complaint
from dw_core.payloads.codec import decode_blob
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.references import is_external
from dw_core.protocol.nul import NUL_COMPLAINT, holds_nul

MEMO_FIELD = "entries"
"""The field whose errors have a reason of their own, ``workflow_memo_validation_failed``."""


def upsert_search_attributes(fields: Fields) -> UpsertSearchAttributes | None:
    """Names, declared types and values; what a namespace has fixed is checked when the command is applied."""
    attributes = fields.mapping("attributes")
    if not attributes:
        if attributes is not None or not fields.has("attributes"):
            fields.error("attributes", "must be an object with at least one entry")
        return None
    types = fields.mapping("attribute_types") or {}
    for name, declared in types.items():
        if name not in attributes:
            fields.error(f"attribute_types.{name[:128]}", "names no attribute of this command")
        elif declared not in TYPES:
            fields.error(f"attribute_types.{name[:128]}", f"must be one of {', '.join(TYPES)}")
    for name, value in attributes.items():
        wrong = _attribute_complaint(name, value, types.get(name))
        if wrong is not None:
            fields.error(f"attributes.{name[:128]}", wrong)
    return UpsertSearchAttributes(attributes=attributes, types=types)


def _attribute_complaint(name: str, value: Any, declared: Any) -> str | None:
    wrong = name_complaint(name, is_typed=declared is not None)
    if wrong is not None or value is None:
        return wrong
    if holds_nul(value):
        return NUL_COMPLAINT
    kind = declared if declared in TYPES else infer(value)
    if kind is None:
        return "must be a string, a number, a boolean, a list of strings or null"
    return value_complaint(value, kind)


def upsert_memo(fields: Fields) -> UpsertMemo | None:
    """The patch as a blob, which is stored as sent, and as entries; only the strict envelope will do."""
    if not isinstance(fields.raw(MEMO_FIELD), dict):
        fields.error(MEMO_FIELD, "must be a payload envelope of codec and blob")
        return None
    blob = fields.payload(MEMO_FIELD, required=True)
    if blob is None:
        return None
    if is_external(blob):
        fields.error(MEMO_FIELD, "must not be kept outside the database")
        return None
    try:
        entries = decode_blob(blob)
    except PayloadError as wrong:
        fields.error(MEMO_FIELD, wrong.message)
        return None
    wrong_entries = complaint(entries)
    if wrong_entries is not None:
        fields.error(MEMO_FIELD, wrong_entries)
        return None
    return UpsertMemo(blob=blob, entries=entries)
