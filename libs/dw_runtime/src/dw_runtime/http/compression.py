"""gzip for JSON responses, only where it pays."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

COMPRESSION_MIN_BYTES: Final = 1024
"""Smaller bodies are sent as they are (control-plane §1)."""

WORKER_COMPRESSION_MIN_BYTES: Final = 64 * 1024
"""Worker-plane responses are compressed only from here on.

Workers usually sit in the same network, their HTTP clients advertise gzip by default, and compressing a few KiB on
every poll and completion would cost more CPU than the whole gate chain. Large history pages still gain.
"""

_THREAD_MIN_BYTES: Final = 256 * 1024
_LEVEL: Final = 1
_GZIP_WINDOW: Final = 31


def accepts_gzip(accept_encoding: bytes | None) -> bool:
    """Whether an ``Accept-Encoding`` value allows gzip (a quality of zero forbids it)."""
    if accept_encoding is None or b"gzip" not in accept_encoding:
        return False
    for offer in accept_encoding.split(b","):
        coding, _, weight = offer.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


async def gzip(body: bytes) -> bytes:
    """``body`` as one gzip member at the fastest level; a large one is compressed beside the event loop."""
    return _gzip(body) if len(body) < _THREAD_MIN_BYTES else await asyncio.to_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()
