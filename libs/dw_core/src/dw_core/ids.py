"""Identifiers: generated ULIDs for runs and commands, derived ids for everything that belongs to a run.

A task, activity execution, attempt or event is named by its run and its number inside the run
(``<run>.t3``, ``<run>.a1``, ``<run>.a1.2``, ``<run>.e7``). Clients treat every id as opaque; the server reads the
run out of it, so no request needs a look-up before the run's row can be locked.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from datetime import datetime

ULID_LENGTH = 26
_RFC4648_TO_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")

NewId = Callable[[], str]
"""Draws the next ULID; handed to the engine so that decisions stay reproducible."""


def ulid(milliseconds: int, randomness: bytes) -> str:
    """A 26-character ULID from a millisecond timestamp and 10 random bytes."""
    raw = (b"\0\0" + milliseconds.to_bytes(8, "big"))[-10:]
    stamp = base64.b32encode(raw).translate(_RFC4648_TO_CROCKFORD)[-10:]
    return (stamp + base64.b32encode(randomness).translate(_RFC4648_TO_CROCKFORD)).decode()


_STEPS = 1 << 32
_AHEAD_MS_MAX = 60_000


class Ulids:
    """Draws ULIDs that ascend in this process, also within one millisecond and when its clock is set back a little.

    Lists are in the order of these ids, so what was asked for later must have the greater one. A clock that is set back
    by more than a minute was wrong before: then its new time counts, because ids are also read as times.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._last = 0

    def __call__(self) -> str:
        """The next ULID."""
        drawn = ((self._clock() // 1_000_000) << 80) | secrets.randbits(80)
        following = self._last + 1 + secrets.randbelow(_STEPS)
        is_far_ahead = (self._last >> 80) - (drawn >> 80) > _AHEAD_MS_MAX
        self._last = drawn if is_far_ahead else max(drawn, following)
        return ulid(self._last >> 80, (self._last & ((1 << 80) - 1)).to_bytes(10, "big"))


def derived_ulid(now: datetime, *parts: str) -> str:
    """The ULID of something that a decision creates: of its time, and else determined by what it is made from."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=10).digest()
    return ulid(int(now.timestamp() * 1000), digest)


def task_id(run_id: str, task_number: int) -> str:
    """The public id of a workflow or activity task."""
    return f"{run_id}.t{task_number}"


def execution_id(run_id: str, sequence: int) -> str:
    """The public id of an activity execution: its run and workflow sequence. Also the idempotency key."""
    return f"{run_id}.a{sequence}"


def attempt_id(run_id: str, sequence: int, attempt: int) -> str:
    """The public id of one attempt of an activity execution."""
    return f"{run_id}.a{sequence}.{attempt}"


def timer_id(run_id: str, sequence: int) -> str:
    """The public id of a timer: its run and workflow sequence; a timeout timer shares that of its wait."""
    return f"{run_id}.m{sequence}"


def wait_id(run_id: str, sequence: int) -> str:
    """The public id of one opening of a condition wait."""
    return f"{run_id}.c{sequence}"


def child_call_id(run_id: str, sequence: int) -> str:
    """The public id of a call of a child workflow."""
    return f"{run_id}.h{sequence}"


def service_call_id(run_id: str, sequence: int) -> str:
    """The public id of a service call that a workflow has made."""
    return f"{run_id}.v{sequence}"


def link_id(run_id: str, sequence: int, child_run_number: int) -> str:
    """The public id of the link between a call and one of the runs that answer it."""
    return f"{run_id}.h{sequence}.{child_run_number}"


def signal_id(command_id: str) -> str:
    """The public id of a signal; it came with one command."""
    return f"{command_id}.s"


def update_id(command_id: str) -> str:
    """The public id of an update; it came with one command."""
    return f"{command_id}.u"


def event_id(run_id: str, history_sequence: int) -> str:
    """The public id of a history event."""
    return f"{run_id}.e{history_sequence}"


_TASK = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.t([1-9][0-9]{0,8})")
_EXECUTION = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.a([1-9][0-9]{0,8})")
_ATTEMPT = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.a([1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")


def run_of(identifier: str) -> str | None:
    """The run that a derived id belongs to, for log lines; None for an id that names no run."""
    run_id, _, own = identifier.partition(".")
    return run_id if own else None


def parse_task_id(value: str) -> tuple[str, int] | None:
    """``(run_id, task_number)``, or None when the text names no task."""
    found = _TASK.fullmatch(value)
    return (found[1], int(found[2])) if found else None


def parse_execution_id(value: str) -> tuple[str, int] | None:
    """``(run_id, sequence)``, or None when the text names no activity execution."""
    found = _EXECUTION.fullmatch(value)
    return (found[1], int(found[2])) if found else None


def parse_attempt_id(value: str) -> tuple[str, int, int] | None:
    """``(run_id, sequence, attempt)``, or None when the text names no attempt."""
    found = _ATTEMPT.fullmatch(value)
    return (found[1], int(found[2]), int(found[3])) if found else None
