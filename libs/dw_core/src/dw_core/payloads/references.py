"""References to payloads that are kept outside the database (worker-plane §5.2, §5.3; control-plane §7.4, §23).

A payload that is stored is a text: base64 of a frame, or the compact JSON of a reference, which begins with a brace as
no base64 does. What stands in an event, a task or an answer is made from that text here and in
:mod:`dw_core.payloads.envelope`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from dw_core.payloads.errors import PayloadError

RUNTIME: Final = "external_payload"
STORAGE: Final = "external_storage"
RUNTIME_SCHEMA: Final = "durable-workflow.v2.runtime-external-payload-reference.v1"
STORAGE_SCHEMA: Final = "durable-workflow.v2.external-payload-reference.v1"
REFERENCE_ID: Final = r"ep_[0-9A-HJKMNP-TV-Z]{26}"
IN_EVENTS: Final = f'{{"codec":"avro","{RUNTIME}":{{"schema":"'
"""How the envelope of a runtime reference begins wherever this server has written it."""

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Size = Annotated[int, Meta(ge=0, le=2**53)]


class RuntimeReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes that the server keeps for a namespace; ``sha256`` and ``size_bytes`` are those of the blob's text."""

    schema: Literal["durable-workflow.v2.runtime-external-payload-reference.v1"] = RUNTIME_SCHEMA
    reference_id: Annotated[str, Meta(pattern=rf"^{REFERENCE_ID}\Z")]
    codec: Literal["avro"] = "avro"
    size_bytes: Size
    sha256: Sha256


class StorageReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bytes of a blob's text that a client has put into the storage of its namespace by itself."""

    schema: str
    uri: Annotated[str, Meta(max_length=2048, pattern=r"^(file:///|s3://|gs://|azure://|azure-blob://)[\x21-\x7e]+\Z")]
    sha256: Sha256
    size_bytes: Size
    codec: Literal["avro"]
    expires_at: Annotated[str, Meta(max_length=64, pattern=r"^[0-9T:+.Z -]+\Z")] | None = None

    def __post_init__(self) -> None:
        if self.schema != STORAGE_SCHEMA:
            raise ValueError(f"The schema of the reference must be {STORAGE_SCHEMA}")


Reference = RuntimeReference | StorageReference
_KINDS: Final[dict[str, type[Reference]]] = {RUNTIME: RuntimeReference, STORAGE: StorageReference}


def read_reference(kind: str, value: Any) -> Reference:
    """The reference of an envelope; ``kind`` is ``external_payload`` or ``external_storage``.

    All members must be named, and no others. Raises :class:`PayloadError` ``external_payload_unsupported``.
    """
    expected = _KINDS[kind]
    try:
        if isinstance(value, dict) and {"schema", "codec"} <= value.keys():
            return msgspec.convert(value, expected)
        complaint = "it names no schema and codec"
    except msgspec.ValidationError as wrong:
        complaint = str(wrong)
    raise PayloadError("external_payload_unsupported", f"The {kind} is no valid reference: {complaint}.", kind)


def stored(reference: Reference) -> str:
    """The text that stands for a referenced payload where payloads are stored."""
    kind = RUNTIME if isinstance(reference, RuntimeReference) else STORAGE
    members = msgspec.structs.asdict(reference)
    if members.get("expires_at", "") is None:
        del members["expires_at"]
    return msgspec.json.encode({kind: members}).decode()


def is_external(payload: str) -> bool:
    """Whether a stored payload is a reference."""
    return payload.startswith("{")


def reference_of(payload: str) -> Reference | None:
    """The reference that a stored payload is, or None for a blob."""
    if not is_external(payload):
        return None
    ((kind, members),) = msgspec.json.decode(payload, type=dict[str, dict[str, Any]]).items()
    return msgspec.convert(members, _KINDS[kind])
