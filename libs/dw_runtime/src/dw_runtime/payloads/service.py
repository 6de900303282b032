"""Keeping payloads and giving them out again, for one process."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dw_core.payloads.errors import PayloadError
from dw_core.payloads.frame import HEADER, check_frame
from dw_core.payloads.policy import Place, StoragePolicy
from dw_core.payloads.references import Reference, RuntimeReference, StorageReference, reference_of
from dw_core.payloads.transport import TransportLimits, manifest
from dw_core.protocol.problems import Problem
from dw_runtime.payloads.disks import Disks
from dw_runtime.payloads.errors import NoDriver, ObjectAltered, ObjectMissing, StorageAway
from dw_runtime.payloads.objects import is_intact
from dw_runtime.store.payloads import KeptPayload, ObjectBusy, PayloadRows
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.telemetry.metrics import Metrics

READS_AT_ONCE: Final = 8
_decode_policy = msgspec.json.Decoder(StoragePolicy | None).decode


class Payloads:
    """Keeps the payloads of namespaces where their policies say. ``new_id`` draws ULIDs."""

    def __init__(
        self,
        rows: PayloadRows,
        namespaces: NamespaceReads,
        disks: Disks,
        metrics: Metrics,
        *,
        limits: TransportLimits,
        new_id: Callable[[], str],
    ) -> None:
        self.rows = rows
        self.disks = disks
        self.limits = limits
        self._namespaces = namespaces
        self._metrics = metrics
        self._new_id = new_id

    async def policy(self, namespace: str) -> StoragePolicy | None:
        """The policy of a namespace, also one that is switched off; None where there is none."""
        found = await self._namespaces.get(namespace)
        return None if found is None else _decode_policy(found.external_payload_storage)

    async def described(self, namespace: str) -> dict[str, Any] | None:
        """What clients are told of the storage of a namespace; None where there is none or it is switched off."""
        policy = await self.policy(namespace)
        if policy is None or not policy.enabled:
            return None
        try:
            self.disks.objects(self.disks.place(policy))
        except NoDriver:
            return manifest(policy, self.limits) | {"status": "unavailable"}
        return manifest(policy, self.limits)

    async def place(self, namespace: str) -> Place:
        """Where a namespace keeps its payloads now.

        Raises ``Problem`` ``external_payload_unsupported`` when it keeps none, and :class:`NoDriver`.
        """
        policy = await self.policy(namespace)
        if policy is None or not policy.enabled:
            message = "External payload storage is not configured for this namespace."
            raise Problem("external_payload_unsupported", message, namespace=namespace)
        return self.disks.place(policy)

    async def upload(self, namespace: str, data: bytes, *, size_bytes: int, sha256: str) -> RuntimeReference:
        """Keep the bytes of a blob's text, which may have been kept before: then the same reference is given.

        Raises ``Problem`` with a reason of the transport (control-plane §23).
        """
        if not await asyncio.to_thread(is_intact, data, size_bytes, sha256):
            message = "The bytes have another size or SHA-256 than the headers say."
            raise Problem("external_payload_integrity_mismatch", message)
        if not await asyncio.to_thread(_is_blob, data):
            message = "The bytes are not the base64 text of an Avro payload."
            raise Problem("external_payload_unsupported", message, as_status=415)
        offered = RuntimeReference(reference_id=f"ep_{self._new_id()}", size_bytes=size_bytes, sha256=sha256)
        try:
            place = await self.place(namespace)
            objects, key = self.disks.objects(place), place.key(offered.codec, sha256)
            reference = await self.rows.keep(namespace, offered, place.uri(key), place.disk)
            # The row comes first: from here on nobody deletes the object, and a payload whose bytes have been lost is
            # whole again once they have been sent anew.
            await objects.put(key, data)
        except (ObjectBusy, StorageAway, NoDriver, ObjectMissing) as error:
            self._metrics.payload_failures["put"].inc()
            raise Problem("external_payload_unavailable", "The payload storage is not available; retry.") from error
        self._metrics.payload_bytes["put"].inc(size_bytes)
        return reference

    async def fetch(self, namespace: str, reference_id: str, *, expected: tuple[int, str]) -> tuple[KeptPayload, bytes]:
        """A payload with its bytes, verified; ``expected`` are the size and SHA-256 that the caller knows.

        Raises ``Problem`` with a reason of the transport.
        """
        kept = await self.rows.find(namespace, reference_id)
        if kept is None:
            raise Problem("external_payload_not_found", "There is no such payload.", reference_id=reference_id)
        if kept.is_expired:
            message = "The payload was not used in time and has expired."
            raise Problem("external_payload_expired", message, reference_id=reference_id)
        if (kept.reference.size_bytes, kept.reference.sha256) != expected:
            message = "The payload has another size or SHA-256 than the headers say."
            raise Problem("external_payload_integrity_mismatch", message, reference_id=reference_id)
        try:
            return kept, await self._read(kept.reference, kept.object_uri, kept.disk)
        except ObjectMissing as error:
            message = "The bytes of the payload are gone."
            raise Problem("external_payload_not_found", message, reference_id=reference_id) from error
        except ObjectAltered as error:
            raise Problem("external_payload_integrity_mismatch", str(error), reference_id=reference_id) from error
        except (StorageAway, NoDriver) as error:
            message = "The payload storage is not available; retry."
            raise Problem("external_payload_unavailable", message, reference_id=reference_id) from error

    async def load(self, namespace: str, payload: str) -> str:
        """The blob of a stored payload, verified where it is kept elsewhere.

        Raises ``Problem`` ``external_payload_not_found``, ``external_payload_integrity_failed`` or
        ``external_payload_storage_unavailable``.
        """
        reference = reference_of(payload)
        if reference is None:
            return payload
        named = _named(reference)
        try:
            blob = (await self._referenced(namespace, reference)).decode("ascii")
            await asyncio.to_thread(check_frame, blob)
            return blob
        except ObjectMissing as error:
            raise Problem("external_payload_not_found", "An external payload is gone.", **named) from error
        except (ObjectAltered, UnicodeDecodeError, PayloadError) as error:
            message = "An external payload is not what its reference promises."
            raise Problem("external_payload_integrity_failed", message, **named) from error
        except (StorageAway, NoDriver) as error:
            message = "The storage of an external payload is not available."
            raise Problem("external_payload_storage_unavailable", message, retryable=True, **named) from error

    async def load_all(self, namespace: str, payloads: Iterable[str]) -> dict[str, str]:
        """The blobs of stored payloads, by their stored form; raises like :meth:`load`."""
        gate = asyncio.Semaphore(READS_AT_ONCE)

        async def load(payload: str) -> str:
            async with gate:
                return await self.load(namespace, payload)

        named = list(payloads)
        return dict(zip(named, await asyncio.gather(*map(load, named)), strict=True))

    async def read_direct(self, place: Place, reference: StorageReference) -> bytes:
        """The verified bytes of an object that a client has written into a place by itself.

        Raises :class:`NoDriver` for an address that lies elsewhere, and what reading raises.
        """
        key = place.key_of(reference.uri)
        if key is None:
            raise NoDriver("The address lies outside the storage of this namespace.")
        return await self.disks.objects(place).get(key, size_bytes=reference.size_bytes, sha256=reference.sha256)

    async def _referenced(self, namespace: str, reference: Reference) -> bytes:
        if isinstance(reference, StorageReference):
            try:
                return await self.read_direct(await self.place(namespace), reference)
            except Problem as unconfigured:
                raise NoDriver("The namespace has no storage any more.") from unconfigured
        kept = await self.rows.find(namespace, reference.reference_id)
        if kept is None:
            raise ObjectMissing("The namespace keeps no such payload.")
        return await self._read(reference, kept.object_uri, kept.disk)

    async def _read(self, reference: RuntimeReference, uri: str, disk: str | None) -> bytes:
        try:
            objects, key = self.disks.locate(uri, disk)
            data = await objects.get(key, size_bytes=reference.size_bytes, sha256=reference.sha256)
        except (NoDriver, ObjectAltered, ObjectMissing, StorageAway):
            self._metrics.payload_failures["get"].inc()
            raise
        self._metrics.payload_bytes["get"].inc(len(data))
        return data


def _is_blob(data: bytes) -> bool:
    """Whether the bytes are base64 of something that begins as a frame does; readers check the rest."""
    try:
        return binascii.a2b_base64(data, strict_mode=True).startswith(HEADER)
    except binascii.Error:
        return False


def _named(reference: Reference) -> dict[str, Any]:
    if isinstance(reference, RuntimeReference):
        return {"reference_id": reference.reference_id}
    return {"reference_uri": reference.uri}
