"""Query parameters of the reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dw_core.protocol.problems import Invalid

BUCKETS = ("running", "completed", "failed")
_BUCKET_OF = {
    "pending": "running",
    "waiting": "running",
    "cancelled": "failed",
    "canceled": "failed",
    "terminated": "failed",
    "timed_out": "failed",
}


def page_size(query: Mapping[str, str], *, default: int, maximum: int, also: str | None = None) -> int:
    """``page_size`` (or the parameter ``also``) as an integer from 1 to ``maximum``; raises ``Invalid``."""
    name = also if also is not None and "page_size" not in query else "page_size"
    digits = query.get(name)
    if not digits:
        return default
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0
    if not 1 <= value <= maximum:
        raise Invalid({name: [f"must be an integer from 1 to {maximum}"]})
    return value


def status_bucket(query: Mapping[str, str]) -> Literal["running", "completed", "failed"] | None:
    """``status`` as a bucket, None for every run; raises ``Invalid`` naming the bucket that was meant."""
    asked = query.get("status")
    if not asked:
        return None
    match asked:
        case "running" | "completed" | "failed":
            return asked
    meant = _BUCKET_OF.get(asked.lower(), asked.lower())
    hint = f"; use {meant}" if meant in BUCKETS else ""
    raise Invalid({"status": [f"must be one of {', '.join(BUCKETS)}{hint}"]})


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter: true, 1, false or 0; absent is false. Raises ``Invalid`` for anything else."""
    given = query.get(name, "").lower()
    if given in ("true", "1"):
        return True
    if given in ("", "false", "0"):
        return False
    raise Invalid({name: ["must be true or false"]})


def whole_number(query: Mapping[str, str], name: str, *, default: int, maximum: int, minimum: int = 0) -> int:
    """An integer parameter within its bounds; raises ``Invalid`` for anything else."""
    given = query.get(name)
    if not given:
        return default
    value = int(given) if given.isascii() and given.isdigit() and len(given) <= 16 else minimum - 1
    if not minimum <= value <= maximum:
        raise Invalid({name: [f"must be an integer from {minimum} to {maximum}"]})
    return value
