"""Page tokens: base64 of the decimal sequence of the last event already delivered (worker-plane §8.3)."""

from __future__ import annotations

import binascii

from dw_core.protocol.problems import Problem

_DIGITS_MAX = 18  # keeps every sequence inside 64 bits


def encode_page_token(after_sequence: int) -> str:
    """The token of the page that follows the event ``after_sequence``; ``MA==`` is the first page."""
    assert after_sequence >= 0, "a page cannot start before the first event"
    return binascii.b2a_base64(str(after_sequence).encode("ascii"), newline=False).decode("ascii")


def decode_page_token(token: str) -> int:
    """The sequence in a token; raises ``Problem`` ``invalid_page_token`` for any text we would not have written."""
    try:
        digits = binascii.a2b_base64(token, strict_mode=True)
    except (binascii.Error, ValueError):
        digits = b""
    if digits.isdigit() and len(digits) <= _DIGITS_MAX:
        after_sequence = int(digits)
        if encode_page_token(after_sequence) == token:
            return after_sequence
    raise Problem("invalid_page_token", "The page token was not issued by this server.")
