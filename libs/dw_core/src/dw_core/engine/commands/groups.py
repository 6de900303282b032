"""Parallel group metadata: reading, validating and re-basing it (engine §3.5).

Every leaf of a group carries its path, outermost group first. At each level ``W = base + index``. The worker guesses
the outermost base; when the sequence the server assigns differs, every level is shifted by the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dw_core.engine.commands.fields import INTEGER_MAX, Fields
from dw_core.limits import PARALLEL_GROUP_LEAVES_MAX
from dw_core.protocol.nul import NUL_COMPLAINT, holds_nul

Path = list[dict[str, Any]]

_PREFIX = {
    "activity": "parallel-activities",
    "child": "parallel-children",
    "timer": "parallel-timers",
    "condition": "parallel-conditions",
    "mixed": "parallel-calls",
}
_FLAT_KEYS = (
    "parallel_group_id",
    "parallel_group_kind",
    "parallel_group_base_sequence",
    "parallel_group_size",
    "parallel_group_index",
)
_SELECTION_KEYS = (
    "parallel_group_mode",
    "selection_member_key",
    "selection_member_index",
    "selection_member_base_sequence",
    "selection_member_size",
    "selection_member_kind",
)
SELECT = "select"
"""The mode of a group of which the first member to end wins; only an outermost group has it."""
_MEMBER_KINDS = ("activity", "timer", "child", "condition", "group")
MEMBER_KEY_CHARS_MAX = 255


def is_selection(path: Path | None) -> bool:
    """Whether a path's outermost group is a durable selection."""
    return bool(path) and path is not None and path[0].get("parallel_group_mode") == SELECT


def group_id(kind: str, base: int, size: int) -> str:
    """The id a group carries on the wire."""
    return f"{_PREFIX[kind]}:{base}:{size}"


def selection_id(base: int, size: int) -> str:
    """The id a selection carries on the wire."""
    return f"select-calls:{base}:{size}"


def _id_of(entry: dict[str, Any], base: int) -> str:
    size = entry["parallel_group_size"]
    if entry.get("parallel_group_mode") == SELECT:
        return selection_id(base, size)
    return group_id(entry["parallel_group_kind"], base, size)


def read_path(fields: Fields, leaf_kind: str) -> Path | None:
    """The path of a grouped command, or None for a lone call. Errors are noted on ``parallel_group_path``."""
    raw = fields.raw("parallel_group_path")
    if raw is None:
        if any(fields.has(key) for key in _FLAT_KEYS):
            fields.error("parallel_group_path", "is required beside the other parallel group fields")
        return None
    if not isinstance(raw, list) or not raw or not all(isinstance(entry, dict) for entry in raw):
        fields.error("parallel_group_path", "must be a non-empty list of objects")
        return None
    if holds_nul(raw):
        fields.error("parallel_group_path", NUL_COMPLAINT)
        return None
    path: Path = []
    for entry in raw:
        problem = _entry_problem(entry, leaf_kind, is_outermost=not path)
        if problem:
            fields.error("parallel_group_path", problem)
            return None
        path.append(dict(entry))
    if any(fields.raw(key) != path[-1].get(key) for key in (*_FLAT_KEYS, *_SELECTION_KEYS)):
        fields.error("parallel_group_path", "must end with the command's own parallel group fields")
        return None
    if leaf_kind == "condition" and not is_selection(path):
        fields.error("parallel_group_path", "a condition is grouped in a selection only")
        return None
    return path


def _selection_problem(entry: dict[str, Any], sequence: int) -> str | None:
    key, index, base, size, kind = (
        entry.get(f"selection_member_{name}") for name in ("key", "index", "base_sequence", "size", "kind")
    )
    is_text = isinstance(key, str) and 0 < len(key) <= MEMBER_KEY_CHARS_MAX
    if not is_text and not (type(key) is int and 0 <= key <= INTEGER_MAX):
        return "must name its selection member by a non-empty string or an integer of at least 0"
    if type(index) is not int or type(base) is not int or type(size) is not int or kind not in _MEMBER_KINDS:
        return "must carry index, base, size and kind of its selection member"
    if not 0 <= index < PARALLEL_GROUP_LEAVES_MAX or size < 1 or not base <= sequence < base + size:
        return "must lie inside its selection member"
    return None


def _entry_problem(entry: dict[str, Any], leaf_kind: str, *, is_outermost: bool) -> str | None:
    mode = entry.get("parallel_group_mode")
    if mode is not None and not (mode == SELECT and is_outermost):
        return "only an outermost group may have a mode, and it is select"
    kind = entry.get("parallel_group_kind")
    base, size, index = (entry.get(f"parallel_group_{name}") for name in ("base_sequence", "size", "index"))
    if not isinstance(kind, str) or kind not in (leaf_kind, "mixed"):
        return "has a group kind that does not fit the command"
    if type(base) is not int or type(size) is not int or type(index) is not int:
        return "must carry integer base, size and index"
    if not 1 <= base <= INTEGER_MAX or not 1 <= size <= PARALLEL_GROUP_LEAVES_MAX or not 0 <= index < size:
        return f"must keep 0 <= index < size <= {PARALLEL_GROUP_LEAVES_MAX} and base >= 1"
    if mode == SELECT:
        problem = _selection_problem(entry, base + index)
        if problem is not None:
            return problem
    if entry.get("parallel_group_id") != _id_of(entry, base):
        return "has a group id that does not match its kind, base and size"
    return None


def declared_sequence(path: Path) -> int:
    """The workflow sequence that a path claims for its leaf."""
    outer = path[0]
    return int(outer["parallel_group_base_sequence"] + outer["parallel_group_index"])


def validate_groups(paths: Sequence[Path | None], errors: dict[str, list[str]]) -> None:
    """Every group named in a batch must be complete and contiguous in it, at every level of nesting."""
    position = 0
    while position < len(paths):
        path = paths[position]
        if path is None:
            position += 1
            continue
        size = int(path[0]["parallel_group_size"])
        problem = _block_problem(paths[position : position + size], path[0], size)
        if problem:
            errors.setdefault(f"commands.{position}.parallel_group_path", []).append(problem)
            return
        position += size


def _block_problem(block: Sequence[Path | None], outer: dict[str, Any], size: int) -> str | None:
    if len(block) != size:
        return "the group is not complete in this batch"
    seen: dict[tuple[int, str], list[int]] = {}
    sizes: dict[tuple[int, str], int] = {}
    for offset, path in enumerate(block):
        if path is None or path[0]["parallel_group_id"] != outer["parallel_group_id"]:
            return "the group is not contiguous in this batch"
        sequence = outer["parallel_group_base_sequence"] + offset
        for level, entry in enumerate(path):
            if entry["parallel_group_base_sequence"] + entry["parallel_group_index"] != sequence:
                return "base and index of every level must name the same position"
            key = (level, entry["parallel_group_id"])
            seen.setdefault(key, []).append(entry["parallel_group_index"])
            sizes[key] = entry["parallel_group_size"]
    if any(indexes != list(range(sizes[key])) for key, indexes in seen.items()):
        return "a nested group is not complete in this batch"
    return _members_problem([path for path in block if path is not None]) if is_selection(block[0]) else None


def _members_problem(block: Sequence[Path]) -> str | None:
    """The members of a selection follow each other in the order of their index, each as large as it says."""
    position, index = 0, 0
    keys: set[str | int] = set()
    while position < len(block):
        first = block[position][0]
        if first["selection_member_key"] in keys:
            return "the members of the selection must have different keys"
        keys.add(first["selection_member_key"])
        size = first["selection_member_size"]
        for path in block[position : position + size]:
            if any(path[0].get(key) != first.get(key) for key in _SELECTION_KEYS):
                return "the leaves of a selection member must agree on it"
        is_lone = first["selection_member_kind"] != "group"
        if first["selection_member_index"] != index or position + size > len(block) or (is_lone and size != 1):
            return "the members of the selection are not in order"
        position, index = position + size, index + 1
    return None


def rebase(path: Path, sequence: int) -> Path:
    """The path shifted so that its leaf is ``sequence``; the same path when the guess was right."""
    shift = sequence - declared_sequence(path)
    if shift == 0:
        return path
    moved: Path = []
    for entry in path:
        base = entry["parallel_group_base_sequence"] + shift
        shifted = entry | {"parallel_group_base_sequence": base, "parallel_group_id": _id_of(entry, base)}
        if "selection_member_base_sequence" in entry:
            shifted["selection_member_base_sequence"] += shift
        moved.append(shifted)
    return moved


def group_members(path: Path | None) -> dict[str, Any]:
    """The block every event of a grouped operation carries: the flat keys and the whole path (engine §0.1 rule 5)."""
    if path is None:
        return {}
    flat = {key: path[-1][key] for key in (*_FLAT_KEYS, *_SELECTION_KEYS) if key in path[-1]}
    return flat | {"parallel_group_path": path}
