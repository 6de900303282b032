"""Fingerprints of payloads, to compare what was sent without keeping it twice."""

from __future__ import annotations

import hashlib

from dw_core.payloads.references import RuntimeReference, reference_of


def blob_fingerprint(payload: str) -> str:
    """The SHA-256 of a payload's text, in hex; the same whether it is sent inline or through the byte transport."""
    reference = reference_of(payload)
    if isinstance(reference, RuntimeReference):
        return reference.sha256
    return hashlib.sha256(payload.encode()).hexdigest()
