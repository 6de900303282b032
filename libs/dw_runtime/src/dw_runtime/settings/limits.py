"""Settings of the protocol, of request and structural limits, of payloads and of retention."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dw_runtime.settings.variable import Var


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker plane speaks and how history is paged (topology §6.4)."""

    worker_protocol_version: Annotated[
        str, Var("DW_WORKER_PROTOCOL_VERSION", "Worker protocol version; only this one is spoken.", choices=("1.20",))
    ] = "1.20"
    history_page_size_default: Annotated[
        int, Var("DW_HISTORY_PAGE_SIZE_DEFAULT", "Events of a history page that names no size.", "events", minimum=1)
    ] = 500
    history_page_size_max: Annotated[
        int, Var("DW_HISTORY_PAGE_SIZE_MAX", "Events of the largest history page.", "events", minimum=1)
    ] = 1000
    compression_enabled: Annotated[
        bool, Var("DW_COMPRESSION_ENABLED", "Whether history may be compressed for workers that ask.")
    ] = True


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request (topology §6.3, ``limits``)."""

    payload_bytes_max: Annotated[int, Var("DW_MAX_PAYLOAD_BYTES", "Largest payload.", "bytes", minimum=1)] = 2_097_152
    memo_bytes_max: Annotated[int, Var("DW_MAX_MEMO_BYTES", "Largest memo.", "bytes", minimum=1)] = 262_144
    search_attributes_max: Annotated[int, Var("DW_MAX_SEARCH_ATTRIBUTES", "Search attributes of a run.", minimum=0)] = (
        100
    )
    search_attribute_key_length_max: Annotated[
        int, Var("DW_MAX_SEARCH_ATTRIBUTE_KEY_LENGTH", "Longest name of a search attribute.", "characters", minimum=1)
    ] = 128
    search_attribute_value_bytes_max: Annotated[
        int, Var("DW_MAX_SEARCH_ATTRIBUTE_VALUE_BYTES", "Largest search-attribute value.", "bytes", minimum=1)
    ] = 2048
    operation_name_length_max: Annotated[
        int,
        Var(
            "DW_MAX_OPERATION_NAME_LENGTH", "Longest name of a type, signal, query or update.", "characters", minimum=1
        ),
    ] = 256
    pending_activities_max: Annotated[
        int, Var("DW_MAX_PENDING_ACTIVITIES", "Open activities of a run, as published in limits.", minimum=0)
    ] = 2000
    pending_children_max: Annotated[
        int, Var("DW_MAX_PENDING_CHILDREN", "Open children of a run, as published in limits.", minimum=0)
    ] = 2000


def _structural(name: str, doc: str, unit: str = "") -> Var:
    return Var(f"DW_V2_LIMIT_{name}", f"{doc}; 0 lifts the limit.", unit, minimum=0)


class StructuralLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run and one transaction (topology §6.3, ``structural_limits``)."""

    pending_activities: Annotated[int, _structural("PENDING_ACTIVITIES", "Open activities of a run")] = 2000
    pending_children: Annotated[int, _structural("PENDING_CHILDREN", "Open children of a run")] = 1000
    pending_timers: Annotated[int, _structural("PENDING_TIMERS", "Open timers of a run")] = 2000
    pending_signals: Annotated[int, _structural("PENDING_SIGNALS", "Unapplied signals of a run")] = 5000
    pending_updates: Annotated[int, _structural("PENDING_UPDATES", "Open updates of a run")] = 500
    command_batch_size: Annotated[int, _structural("COMMAND_BATCH_SIZE", "Commands of one task completion")] = 1000
    payload_bytes: Annotated[int, _structural("PAYLOAD_SIZE_BYTES", "Size of a payload in a command", "bytes")] = (
        2_097_152
    )
    memo_bytes: Annotated[int, _structural("MEMO_SIZE_BYTES", "Size of a memo", "bytes")] = 262_144
    search_attribute_bytes: Annotated[
        int, _structural("SEARCH_ATTRIBUTE_SIZE_BYTES", "Size of all search attributes of a run", "bytes")
    ] = 40_960
    history_transaction_events: Annotated[
        int, _structural("HISTORY_TRANSACTION_SIZE", "Events written by one transition", "events")
    ] = 5000
    warning_percent: Annotated[
        int,
        Var(
            "DW_V2_LIMIT_WARNING_THRESHOLD_PERCENT",
            "Share of a limit that warns; 0 warns never.",
            "percent",
            minimum=0,
            maximum=100,
        ),
    ] = 80


class HistoryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """When a run should continue as new, and the hard cap on its history (topology §6.3)."""

    events: Annotated[
        int,
        Var("DW_V2_CONTINUE_AS_NEW_EVENT_THRESHOLD", "Events that recommend to continue as new.", "events", minimum=0),
    ] = 10_000
    size_bytes: Annotated[
        int, Var("DW_V2_CONTINUE_AS_NEW_SIZE_BYTES_THRESHOLD", "History size that recommends it.", "bytes", minimum=0)
    ] = 5_242_880
    fan_out: Annotated[
        int, Var("DW_V2_CONTINUE_AS_NEW_FAN_OUT_THRESHOLD", "Open operations that recommend it.", minimum=0)
    ] = 200
    events_warning: Annotated[
        int, Var("DW_V2_HISTORY_EVENT_WARNING_THRESHOLD", "Events that warn.", "events", minimum=0)
    ] = 8000
    size_bytes_warning: Annotated[
        int, Var("DW_V2_HISTORY_SIZE_BYTES_WARNING_THRESHOLD", "History size that warns.", "bytes", minimum=0)
    ] = 4_194_304
    fan_out_warning: Annotated[
        int, Var("DW_V2_HISTORY_FAN_OUT_WARNING_THRESHOLD", "Open operations that warn.", minimum=0)
    ] = 160
    events_max: Annotated[
        int, Var("DW_MAX_HISTORY_EVENTS", "Events after which a run accepts no more.", "events", minimum=1)
    ] = 50_000


class ExternalPayloads(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads kept outside the database, and executors outside workers."""

    bytes_max: Annotated[int, Var("DW_EXTERNAL_PAYLOAD_MAX_BYTES", "Largest external payload.", "bytes", minimum=1)] = (
        67_108_864
    )
    request_timeout_seconds: Annotated[
        int, Var("DW_EXTERNAL_PAYLOAD_REQUEST_TIMEOUT", "Wait for the payload store.", "seconds", minimum=1)
    ] = 30
    upload_expiry_seconds: Annotated[
        int,
        Var("DW_EXTERNAL_PAYLOAD_UPLOAD_EXPIRY", "How long a payload is kept that no run uses.", "seconds", minimum=1),
    ] = 3600
    local_root: Annotated[
        str | None,
        Var("DW_EXTERNAL_PAYLOAD_LOCAL_ROOT", "Folder that the driver local may use; without it there is none."),
    ] = None
    disks: Annotated[
        str | None,
        Var(
            "DW_EXTERNAL_PAYLOAD_DISKS",
            "JSON object of the disks that policies may name, with the credentials of each.",
            is_secret=True,
        ),
    ] = None


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long closed runs and the audit trail are kept, and how exports are signed."""

    history_days: Annotated[
        int, Var("DW_HISTORY_RETENTION_DAYS", "Retention of a new namespace.", "days", minimum=1, maximum=365)
    ] = 30
    audit_days: Annotated[
        int, Var("DW_AUDIT_RETENTION_DAYS", "How long the audit trail is kept.", "days", minimum=1, maximum=3650)
    ] = 90
