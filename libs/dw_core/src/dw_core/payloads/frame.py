"""Checking a frame without building its value: complete, iterative, bounded in depth.

This runs on every payload that enters the server, so it allocates nothing per element, and it is the guard that lets
the Avro reader trust its input: no recursion deeper than the limit, no count larger than the bytes that follow.
"""

from __future__ import annotations

import binascii
from struct import Struct

from dw_core.limits import PAYLOAD_DEPTH_MAX
from dw_core.payloads.errors import PayloadError

MAGIC = b"\xc3\x01"
FINGERPRINT = bytes.fromhex("e2a33dff55802237")
HEADER = MAGIC + FINGERPRINT
"""The first ten bytes of every frame (engine §7)."""

_NULL, _BOOLEAN, _LONG, _DOUBLE, _BYTES, _STRING, _ARRAY, _MAP = range(8)
_EXPONENT = Struct("<6xH").unpack_from
_EXPONENT_MASK = 0x7FF0  # all ones: infinity or not a number


def check_frame(blob: str) -> None:
    """Verify that ``blob`` is base64 of exactly one well-formed frame of the Value schema.

    Raises :class:`PayloadError` with ``invalid_payload_framing``, or ``unsupported_payload_schema`` for a frame of
    another schema (engine §7).
    """
    unwrap(blob)


def unwrap(blob: str) -> bytes:
    """The bytes of a checked frame; raises like :func:`check_frame`."""
    try:
        frame = binascii.a2b_base64(blob, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _framing("The blob is not valid base64.") from error
    check_bytes(frame)
    return frame


def check_bytes(frame: bytes) -> None:
    """Verify a frame that has already been read from base64; raises like :func:`check_frame`."""
    if not frame.startswith(HEADER):
        _refuse_header(frame)
    try:
        end = _skip_value(frame, len(HEADER))
    except (IndexError, UnicodeDecodeError) as error:
        raise _framing("The payload ends early or holds text that is not UTF-8.") from error
    if end != len(frame):
        raise _framing("Bytes follow the payload.")


def _framing(message: str) -> PayloadError:
    return PayloadError("invalid_payload_framing", message, "blob")


def _refuse_header(frame: bytes) -> None:
    if not frame.startswith(MAGIC) or len(frame) < len(HEADER):
        raise _framing("The payload does not start with a single-object Avro header.")
    raise PayloadError("unsupported_payload_schema", "The payload was written with another schema.", "blob")


def _skip_value(frame: bytes, position: int) -> int:
    """The position after the value at ``position``; raises ``IndexError`` where bytes are missing."""
    open_blocks: list[list[int]] = []  # [is it a map, items left in the current block]
    while True:
        branch = frame[position]
        position += 1
        if branch == _NULL:
            pass
        elif branch & 0x81 or branch > 2 * _MAP:
            raise _framing("The payload names a type that the schema does not have.")
        elif branch >= 2 * _ARRAY:
            if len(open_blocks) == PAYLOAD_DEPTH_MAX:
                raise _framing(f"The payload is nested deeper than {PAYLOAD_DEPTH_MAX} levels.")
            open_blocks.append([branch == 2 * _MAP, 0])
        else:
            position = _skip_scalar(frame, position, branch >> 1)
        while open_blocks:
            block = open_blocks[-1]
            if not block[1]:
                block[1], position = _block_count(frame, position)
                if not block[1]:
                    open_blocks.pop()
                    continue
            block[1] -= 1
            if block[0]:
                position = _skip_text(frame, position)
            break
        else:
            return position


def _skip_scalar(frame: bytes, position: int, branch: int) -> int:
    if branch == _BOOLEAN:
        if frame[position] > 1:
            raise _framing("A boolean is neither 0 nor 1.")
        return position + 1
    if branch == _LONG:
        return _long(frame, position)[1]
    if branch == _DOUBLE:
        end = position + 8
        if end > len(frame):
            raise IndexError(end)
        if _EXPONENT(frame, position)[0] & _EXPONENT_MASK == _EXPONENT_MASK:
            raise _framing("A double is infinite or not a number.")
        return end
    if branch == _STRING:
        return _skip_text(frame, position)
    return _length(frame, position)[1]


def _skip_text(frame: bytes, position: int) -> int:
    start, end = _length(frame, position)
    frame[start:end].decode("utf-8")
    return end


def _length(frame: bytes, position: int) -> tuple[int, int]:
    """Where the bytes of a length-prefixed item start and end."""
    length, start = _long(frame, position)
    end = start + length
    if length < 0 or end > len(frame):
        raise IndexError(end)
    return start, end


def _block_count(frame: bytes, position: int) -> tuple[int, int]:
    """How many items the next block has; a negative count carries its size in bytes, which is skipped."""
    count, position = _long(frame, position)
    if count < 0:
        count = -count
        size, position = _long(frame, position)
        if size < 0 or position + size > len(frame):
            raise IndexError(size)
    if count > len(frame) - position:
        raise IndexError(count)
    return count, position


def _long(frame: bytes, position: int) -> tuple[int, int]:
    """A zig-zag variable-length integer of at most 64 bits, and the position after it."""
    byte = frame[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63 and (byte > 1 or shift > 70):
            raise _framing("An integer does not fit 64 bits.")
    return (value >> 1) ^ -(value & 1), position
