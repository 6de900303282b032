"""The byte transport over HTTP; every node that takes work from clients serves it (control-plane §23)."""

from __future__ import annotations

import re
from typing import Final

from dw_core.payloads.codec import CODEC
from dw_core.payloads.references import REFERENCE_ID
from dw_core.payloads.transport import CODEC_HEADER, SHA256_HEADER, SIZE_HEADER, payload_headers, uploaded
from dw_core.protocol.problems import Problem
from dw_runtime.http.call import Call, Handler, Reply
from dw_runtime.payloads.service import Payloads

_ID: Final = re.compile(REFERENCE_ID, re.ASCII)
_SIZE: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BYTES: Final = "application/octet-stream"


def transport_handlers(payloads: Payloads) -> dict[str, Handler]:
    """The handlers by route name."""

    async def upload(call: Call) -> Reply:
        """201 with a reference to the bytes, which a repeated upload gets again."""
        _require_namespace(call)
        if call.headers.get("content-type", "").partition(";")[0].strip().lower() != _BYTES:
            raise Problem("external_payload_unsupported", f"Send the bytes as {_BYTES}.", as_status=415)
        size_bytes, sha256 = _described(call)
        if size_bytes > payloads.limits.payload_bytes_max:
            limit = payloads.limits.payload_bytes_max
            raise Problem("external_payload_oversized", f"A payload has at most {limit} bytes.", limit=limit)
        reference = await payloads.upload(call.namespace, call.body, size_bytes=size_bytes, sha256=sha256)
        return Reply(uploaded(reference), status=201, headers=(("cache-control", "no-store, private"),))

    async def fetch(call: Call) -> Reply:
        """The bytes of a payload, which are what the headers of the request promise."""
        _require_namespace(call)
        size_bytes, sha256 = _described(call)
        reference_id = call.params["reference_id"]
        if not _ID.fullmatch(reference_id):
            raise Problem("external_payload_not_found", "There is no such payload.")
        kept, data = await payloads.fetch(call.namespace, reference_id, expected=(size_bytes, sha256))
        return Reply(data, headers=payload_headers(kept.reference))

    return {"external_payload_upload": upload, "external_payload_fetch": fetch}


def _require_namespace(call: Call) -> None:
    if not call.headers.get("x-namespace", "").strip():
        raise Problem("external_payload_unsupported", "The header X-Namespace is required.", as_status=422)


def _described(call: Call) -> tuple[int, str]:
    """Size and SHA-256 as the headers of a request have them."""
    if call.headers.get(CODEC_HEADER) != CODEC:
        raise Problem("external_payload_unsupported", f"{CODEC_HEADER} must be {CODEC}.", as_status=415)
    size, sha256 = call.headers.get(SIZE_HEADER, ""), call.headers.get(SHA256_HEADER, "")
    if not _SIZE.fullmatch(size):
        raise Problem("external_payload_integrity_mismatch", f"{SIZE_HEADER} must be a number of bytes.")
    if not _SHA256.fullmatch(sha256):
        raise Problem("external_payload_integrity_mismatch", f"{SHA256_HEADER} must be 64 lower-case hex digits.")
    return int(size), sha256
