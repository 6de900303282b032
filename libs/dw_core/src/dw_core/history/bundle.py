"""The history export bundle: all that is known of a run, with a checksum (control-plane §10.6, engine §9.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dw_core.history.canonical import NAME, canonical_json
from dw_core.payloads.codec import CODEC, SCHEMA
from dw_core.payloads.frame import FINGERPRINT, MAGIC

BUNDLE_SCHEMA: Final = "durable-workflow.v2.history-export"
BUNDLE_SCHEMA_VERSION: Final = 1
_FINGERPRINT: Final = f"crc64-avro:{FINGERPRINT.hex()}"
_PAYLOAD_MEMBERS = ("arguments", "input", "output", "result")

Json = dict[str, Any]


class Sections(msgspec.Struct, kw_only=True):
    """What the store knows of a run: its row, the details of its start, and the rows that belong to it, as JSON."""

    run: Json
    summary: Json
    current_run_id: str
    events: list[Json] = []
    commands: list[Json] = []
    signals: list[Json] = []
    updates: list[Json] = []
    tasks: list[Json] = []
    activities: list[Json] = []
    timers: list[Json] = []
    failures: list[Json] = []
    waits: list[Json] = []
    parents: list[Json] = []
    children: list[Json] = []


def build_bundle(sections: Sections, exported_at: str) -> Json:
    """The bundle with its checksum; ``exported_at`` is ISO 8601 with a zone."""
    run, summary = sections.run, sections.summary
    bundle: Json = {
        "schema": BUNDLE_SCHEMA,
        "schema_version": BUNDLE_SCHEMA_VERSION,
        "exported_at": exported_at,
        "dedupe_key": f"{run['run_id']}:{run['last_history_sequence']}:{run['last_progress_at']}",
        "history_complete": run["closed_at"] is not None,
        "workflow": _workflow(sections),
        "payloads": {
            "codec": CODEC,
            "arguments": {"available": True, "data": summary["arguments"]},
            "output": {"available": summary["output"] is not None, "codec": CODEC, "data": summary["output"]},
        },
        "summary": None,
        "selected_run": {},
        "history_events": [_event(event) for event in sections.events],
        "waits": sections.waits,
        "timeline": [],
        "linked_intakes_scope": None,
        "linked_intakes": [],
        "commands": [_command(command) for command in sections.commands],
        "signals": sections.signals,
        "updates": sections.updates,
        "tasks": sections.tasks,
        "activities": sections.activities,
        "timers": sections.timers,
        "failures": sections.failures,
        "links": {"parents": sections.parents, "children": sections.children},
        "redaction": {"applied": False, "policy": None, "paths": []},
        "codec_schemas": {"avro": _codec_schemas()},
    }
    bundle["payload_manifest"] = {"version": 1, "entries": list(_manifest(bundle))}
    # Checksums are taken of what a reader of the response will see.
    seen = msgspec.json.decode(msgspec.json.encode(bundle))
    bundle["integrity"] = {
        "canonicalization": NAME,
        "checksum_algorithm": "sha256",
        "checksum": hashlib.sha256(canonical_json(seen)).hexdigest(),
        "signature_algorithm": None,
        "signature": None,
        "key_id": None,
    }
    return bundle


def _workflow(sections: Sections) -> Json:
    run, summary = sections.run, sections.summary
    copied = ("run_id", "run_number", "workflow_type", "namespace", "compatibility", "status", "closed_reason", "queue")
    return {
        "instance_id": run["workflow_id"],
        **{name: run[name] for name in copied},
        "is_current_run": run["run_id"] == sections.current_run_id,
        "current_run_id": sections.current_run_id,
        "workflow_class": run["workflow_type"],
        "business_key": summary["business_key"],
        "visibility_labels": [],
        "memo": summary["memo"],
        "search_attributes": summary["search_attributes"],
        "status_bucket": summary["status_bucket"],
        "connection": None,
        "last_history_sequence": run["last_history_sequence"],
        "started_at": run["started_at"],
        "closed_at": run["closed_at"],
        "archived_at": (run["archive"] or {}).get("archived_at"),
    }


def _event(event: Json) -> Json:
    copied = ("id", "sequence", "workflow_task_id", "workflow_command_id", "recorded_at", "payload")
    return {"type": event["event_type"]} | {name: event[name] for name in copied}


def _command(row: Json) -> Json:
    copied = ("target_scope", "source", "context", "status", "outcome", "rejection_reason", "request_id")
    times = ("accepted_at", "applied_at", "rejected_at")
    return {
        "id": row["command_id"],
        "sequence": row["command_sequence"],
        "type": row["command_type"],
        **{name: row[name] for name in (*copied, *times)},
        "requested_run_id": None,
        "resolved_run_id": row["run_id"],
        "payload_codec": CODEC,
        "payload": row["payload"],
    }


def _codec_schemas() -> Json:
    schema = msgspec.json.encode(SCHEMA).decode()
    return {
        "encoding": "base64-avro-single-object",
        "framing": "single_object",
        "magic_hex": MAGIC.hex(),
        "current_fingerprint": _FINGERPRINT,
        "writer_schemas": {_FINGERPRINT: {"schema": schema, "fingerprint": _FINGERPRINT}},
    }


def _manifest(bundle: Json) -> Iterator[Json]:
    """One entry for every payload in the bundle, by its path."""
    for name in ("arguments", "output"):
        yield _entry(f"payloads.{name}.data", bundle["payloads"][name]["data"])
    for section in ("history_events", "signals", "updates", "activities"):
        for index, row in enumerate(bundle[section]):
            holder = row["payload"] if section == "history_events" else row
            inside = f"{section}.{index}" + (".payload" if section == "history_events" else "")
            for member in _PAYLOAD_MEMBERS:
                value = holder.get(member) if isinstance(holder, dict) else None
                if isinstance(value, dict) and "blob" in value:
                    yield _entry(f"{inside}.{member}.blob", value["blob"])
                elif isinstance(value, str):
                    yield _entry(f"{inside}.{member}", value)


def _entry(path: str, blob: str | None) -> Json:
    return {
        "path": path,
        "codec": CODEC,
        "available": blob is not None,
        "redacted": False,
        "encoding": "base64",
        "avro_framing": "single_object",
        "avro_prefix_hex": (MAGIC + FINGERPRINT).hex(),
        "writer_schema": None,
        "writer_schema_fingerprint": _FINGERPRINT,
        "diagnostic": None,
    }
