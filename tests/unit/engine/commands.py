"""Commands as a worker sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dw_core.payloads.codec import encode_blob

Json = dict[str, Any]
Tree = Sequence["str | Tree"]


def envelope(value: Any) -> Json:
    """A payload envelope."""
    return {"codec": "avro", "blob": encode_blob(value)}


def activity(activity_type: str = "work", **fields: Any) -> Json:
    """``schedule_activity``."""
    return {"type": "schedule_activity", "activity_type": activity_type, "queue": "q", **fields}


def retrying(max_attempts: int | None, *backoff_seconds: int, types: Sequence[str] = ()) -> Json:
    """A retry policy."""
    return {
        "max_attempts": max_attempts,
        "backoff_seconds": list(backoff_seconds),
        "non_retryable_error_types": list(types),
    }


def timer(delay_seconds: Any = 5, **fields: Any) -> Json:
    """``start_timer``."""
    return {"type": "start_timer", "delay_seconds": delay_seconds, **fields}


def child(workflow_type: str = "child", **fields: Any) -> Json:
    """``start_child_workflow``."""
    return {"type": "start_child_workflow", "workflow_type": workflow_type, "queue": "q", **fields}


def children(base: int, size: int, **fields: Any) -> list[Json]:
    """A flat group of children."""
    found = []
    for index in range(size):
        level = entry(base, size, index) | {
            "parallel_group_id": f"parallel-children:{base}:{size}",
            "parallel_group_kind": "child",
        }
        found.append(child(**fields) | level | {"parallel_group_path": [level]})
    return found


def select(base: int, *members: Json | list[Json]) -> list[Json]:
    """The commands of ``ctx.select``: members are commands, or lists of commands that make one group member."""
    sizes = [len(member) if isinstance(member, list) else 1 for member in members]
    total, found = sum(sizes), []
    for index, member in enumerate(members):
        first = base + sum(sizes[:index])
        leaves = member if isinstance(member, list) else [member]
        for offset, command in enumerate(leaves):
            outer = {
                "parallel_group_id": f"select-calls:{base}:{total}",
                "parallel_group_kind": "mixed",
                "parallel_group_mode": "select",
                "parallel_group_base_sequence": base,
                "parallel_group_size": total,
                "parallel_group_index": first - base + offset,
                "selection_member_key": f"m{index}",
                "selection_member_index": index,
                "selection_member_base_sequence": first,
                "selection_member_size": sizes[index],
                "selection_member_kind": "group" if isinstance(member, list) else _KINDS[command["type"]],
            }
            inner = _mixed(first, sizes[index], offset) if isinstance(member, list) else []
            path = [outer, *inner]
            found.append(command | path[-1] | {"parallel_group_path": path})
    return found


_KINDS = {
    "schedule_activity": "activity",
    "start_timer": "timer",
    "start_child_workflow": "child",
    "open_condition_wait": "condition",
}


def _mixed(base: int, size: int, index: int) -> list[Json]:
    return [
        {
            "parallel_group_id": f"parallel-calls:{base}:{size}",
            "parallel_group_kind": "mixed",
            "parallel_group_base_sequence": base,
            "parallel_group_size": size,
            "parallel_group_index": index,
        }
    ]


def cancel_member(base: int, size: int, index: int, first: int, **fields: Any) -> Json:
    """``cancel_selection_operation`` of a lone member."""
    return {
        "type": "cancel_selection_operation",
        "selection_group_id": f"select-calls:{base}:{size}",
        "member_key": f"m{index}",
        "member_index": index,
        "member_base_sequence": first,
        "member_size": 1,
        "operation_kind": "activity",
        "operation_identity": "some",
        **fields,
    }


def continued(**fields: Any) -> Json:
    """``continue_as_new``."""
    return {"type": "continue_as_new", "queue": "q", **fields}


def wait(key: str | None = "ready", timeout_seconds: Any = None, **fields: Any) -> Json:
    """``open_condition_wait``."""
    named = {"condition_key": key, "condition_definition_fingerprint": "sha256:f", "timeout_seconds": timeout_seconds}
    return {"type": "open_condition_wait"} | {k: v for k, v in named.items() if v is not None} | fields


def side_effect(value: Any = 1) -> Json:
    """``record_side_effect``."""
    return {"type": "record_side_effect", "result": encode_blob(value)}


def output(
    operation: str, *values: Any, name: str = "out", identity: str = "task", ordinal: int = 0, **fields: Any
) -> Json:
    """A side effect that appends these values to an output stream, or ends it."""
    directive: Json = {"operation": operation, "stream_name": name}
    directive |= {"command_identity": identity, "command_ordinal": ordinal}
    if operation == "append":
        directive["items"] = [{"payload": envelope(value), "payload_codec": "avro"} for value in values]
    if operation == "error":
        directive["error_reason"] = "broken"
    return side_effect(None) | {"workflow_stream": directive | fields}


def version(change_id: str = "change", number: int = 2, low: int = -1, high: int = 2) -> Json:
    """``record_version_marker``."""
    return {
        "type": "record_version_marker",
        "change_id": change_id,
        "version": number,
        "min_supported": low,
        "max_supported": high,
    }


def attributes(types: Json | None = None, **values: Any) -> Json:
    """``upsert_search_attributes``."""
    return {"type": "upsert_search_attributes", "attributes": values} | ({"attribute_types": types} if types else {})


def memo(**entries: Any) -> Json:
    """``upsert_memo``."""
    return {"type": "upsert_memo", "entries": envelope(entries)}


def local(outcome: str = "completed", attempts: Sequence[Json] | None = None, **fields: Any) -> Json:
    """``record_local_activity``, of one attempt when nothing else is said."""
    report: Json = {"type": "record_local_activity", "activity_type": "norm", "execution_mode": "local"}
    members = {"result": envelope(1)} if outcome == "completed" else {"message": "no", "exception_type": "ValueError"}
    tried = attempts or [{"attempt_number": 1, "outcome": outcome, "duration_ms": 4}]
    return report | {"outcome": outcome, "arguments": envelope([]), "attempts": tried} | members | fields


def apply(update_id: str, value: Any = None) -> Json:
    """``complete_update``."""
    return {"type": "complete_update", "update_id": update_id, "result": envelope(value)}


def refuse(update_id: str, message: str = "no", **fields: Any) -> Json:
    """``fail_update``."""
    return {"type": "fail_update", "update_id": update_id, "message": message, **fields}


def service(operation: str = "greet", **fields: Any) -> Json:
    """``start_service_operation`` of ``shop/desk``."""
    named = {"endpoint_name": "shop", "service_name": "desk", "operation_name": operation, "payload_codec": "avro"}
    return {"type": "start_service_operation", **named, "request_payload": encode_blob([1]), **fields}


def finish(value: Any = None) -> Json:
    """``complete_workflow``."""
    return {"type": "complete_workflow", "result": envelope(value)}


def give_up(message: str = "failed", **fields: Any) -> Json:
    """``fail_workflow``."""
    return {"type": "fail_workflow", "message": message, **fields}


def entry(base: int, size: int, index: int) -> Json:
    """One level of a parallel group path of activities."""
    return {
        "parallel_group_id": f"parallel-activities:{base}:{size}",
        "parallel_group_kind": "activity",
        "parallel_group_base_sequence": base,
        "parallel_group_size": size,
        "parallel_group_index": index,
    }


def leaf(path: Sequence[Json], activity_type: str = "work", **fields: Any) -> Json:
    """One activity of a parallel group: the path outermost first, the flat keys from its last entry."""
    return activity(activity_type, **fields) | path[-1] | {"parallel_group_path": list(path)}


def group(base: int, tree: Tree, **fields: Any) -> list[Json]:
    """The commands of ``yield [...]``: a tree of activity types, grouped as the worker groups them."""
    return [leaf(path, name, **fields) for path, name in _paths(base, tree)]


def _size(tree: Tree) -> int:
    return sum(1 if isinstance(node, str) else _size(node) for node in tree)


def _paths(base: int, tree: Tree) -> list[tuple[list[Json], str]]:
    size = _size(tree)
    found: list[tuple[list[Json], str]] = []
    for node in tree:
        index = len(found)
        if isinstance(node, str):
            found.append(([entry(base, size, index)], node))
            continue
        for offset, (path, name) in enumerate(_paths(base + index, node)):
            found.append(([entry(base, size, index + offset), *path], name))
    return found
