"""What completions and requests say of streams (worker-plane §8.8, §9.3; control-plane §14)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dw_core.engine.commands.fields import Fields
from dw_core.limits import (
    OUTPUT_APPEND_ITEMS_MAX,
    OUTPUT_ITEMS_DEFAULT,
    OUTPUT_ITEMS_MAX,
    OUTPUT_RETENTION_SECONDS_DEFAULT,
    OUTPUT_TEXT_CHARS_MAX,
    PAYLOAD_REFERENCE_CHARS_MAX,
    SECONDS_MAX,
)
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import read_envelope
from dw_core.payloads.errors import PayloadError

OUTPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,190}", re.ASCII)
_OPERATIONS = ("append", "close", "error")
_FIELD = "workflow_stream"


class StreamPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position of a message stream: consumed through it, or waiting behind it."""

    stream_name: str
    position: int


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to append; ``payload`` is a blob as sent."""

    payload: str | None = None
    payload_reference: str | None = None
    idempotency_key: str | None = None
    item_type: str | None = None
    content_type: str | None = None


class OutputDirective(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to an output stream; ``operation`` append|close|error.

    ``identity`` and ``ordinal`` name the command it came with; ``error_reason`` is set for ``error`` only.
    """

    operation: str
    stream_name: str
    items: tuple[NewItem, ...] = ()
    max_pending_items: int = OUTPUT_ITEMS_DEFAULT
    error_reason: str | None = None
    retention_seconds: int = OUTPUT_RETENTION_SECONDS_DEFAULT
    identity: str | None = None
    ordinal: int | None = None


def read_directive(command: Fields) -> OutputDirective | None:
    """The ``workflow_stream`` of a command, or None when it has none or a wrong one."""
    given = command.mapping(_FIELD)
    if given is None:
        return None
    wrong: dict[str, list[str]] = {}
    fields = Fields(0, given, wrong)
    operation = fields.choice("operation", _OPERATIONS, required=True)
    name = fields.text("stream_name", required=True, limit=OUTPUT_TEXT_CHARS_MAX)
    if name is not None and not OUTPUT_NAME.fullmatch(name):
        fields.error("stream_name", "must begin with a letter or digit and have letters, digits and . _ : - only")
    identity = fields.name("command_identity")
    ordinal = fields.integer("command_ordinal", minimum=0)
    reason = fields.text("error_reason", required=operation == "error", limit=OUTPUT_TEXT_CHARS_MAX)
    retention = fields.integer("retention_seconds", minimum=1, maximum=SECONDS_MAX)
    most = fields.integer("max_pending_items", minimum=1, maximum=OUTPUT_ITEMS_MAX)
    items: tuple[NewItem, ...] = ()
    if operation == "append":
        items = _identified(read_items(fields.raw("items"), wrong, "items"), identity, ordinal)
    for field, messages in wrong.items():
        for message in messages:
            command.error(f"{_FIELD}.{field.removeprefix('commands.0.')}", message)
    if wrong or operation is None or name is None:
        return None
    return OutputDirective(
        operation=operation,
        stream_name=name,
        items=items,
        max_pending_items=most or OUTPUT_ITEMS_DEFAULT,
        error_reason=reason if operation == "error" else None,
        retention_seconds=retention or OUTPUT_RETENTION_SECONDS_DEFAULT,
        identity=identity,
        ordinal=ordinal,
    )


def _identified(items: tuple[NewItem, ...], identity: str | None, ordinal: int | None) -> tuple[NewItem, ...]:
    """Items without an identity get that of their command, so that a repeated command adds nothing (engine §6.16)."""
    if identity is None or ordinal is None:
        return items
    return tuple(
        item
        if item.idempotency_key is not None
        else msgspec.structs.replace(item, idempotency_key=f"dw-stream:{identity}:{ordinal}:{index}")
        for index, item in enumerate(items)
    )


def read_items(given: Any, errors: dict[str, list[str]], field: str) -> tuple[NewItem, ...]:
    """The items of an append; what is wrong with them is noted under ``field``."""
    if not isinstance(given, list) or not 1 <= len(given) <= OUTPUT_APPEND_ITEMS_MAX:
        errors.setdefault(field, []).append(f"must be a list of 1 to {OUTPUT_APPEND_ITEMS_MAX} items")
        return ()
    return tuple(_read_item(item, errors, f"{field}.{index}") for index, item in enumerate(given))


def _read_item(given: Any, errors: dict[str, list[str]], field: str) -> NewItem:
    if not isinstance(given, dict):
        errors.setdefault(field, []).append("must be an object")
        return NewItem()

    def text(name: str, limit: int = OUTPUT_TEXT_CHARS_MAX) -> str | None:
        value = given.get(name)
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= limit and "\0" not in value):
            errors.setdefault(f"{field}.{name}", []).append(f"must be a text of 1 to {limit} characters")
            return None
        return value

    codec = given.get("payload_codec")
    if codec not in (None, CODEC):
        errors.setdefault(f"{field}.payload_codec", []).append(f"must be {CODEC}")
    payload: str | None = None
    try:
        payload = read_envelope(given.get("payload"))
    except PayloadError as wrong:
        errors.setdefault(f"{field}.payload", []).append(wrong.message)
    reference = text("payload_reference", PAYLOAD_REFERENCE_CHARS_MAX)
    if given.get("payload") is None and given.get("payload_reference") is None:
        errors.setdefault(field, []).append("must have a payload or a payload_reference")
    return NewItem(
        payload=payload,
        payload_reference=reference,
        idempotency_key=text("idempotency_key"),
        item_type=text("item_type"),
        content_type=text("content_type"),
    )
