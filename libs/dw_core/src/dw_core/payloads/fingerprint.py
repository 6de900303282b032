"""Fingerprints of payloads, to compare what was sent without keeping it twice."""

from __future__ import annotations

import hashlib


def blob_fingerprint(blob: str) -> str:
    """The SHA-256 of a blob's text, in hex."""
    return hashlib.sha256(blob.encode()).hexdigest()
