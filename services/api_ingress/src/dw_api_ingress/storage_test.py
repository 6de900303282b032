"""``POST /api/storage/test``: whether the storage of a namespace gives back what it was given (control-plane §16.4)."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from dw_core.payloads.codec import CODEC
from dw_core.payloads.policy import Place
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_storage import StorageTest
from dw_runtime.http.call import Call, Reply
from dw_runtime.payloads.errors import NoDriver, ObjectAltered, ObjectMissing, StorageAway
from dw_runtime.payloads.objects import Objects
from dw_runtime.payloads.service import Payloads


class StorageTestHandlers:
    """Writes two objects of random bytes, reads them back and deletes them."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads

    async def test(self, call: Call) -> Reply:
        """What became of both; raises ``Problem`` when there is no storage or when it failed."""
        body: StorageTest = call.body
        place, objects = await self._opened(call.namespace, body)
        said: dict[str, Any] = {"namespace": call.namespace, "driver": place.driver}
        small = await _round_trip(place, objects, body.small_payload_bytes)
        large = await _round_trip(place, objects, body.large_payload_bytes)
        outcome = said | {"small_payload": small, "large_payload": large}
        if "failed" in (small["status"], large["status"]):
            message = "The storage did not give back what it was given."
            raise Problem("storage_roundtrip_failed", message, status="failed", **outcome)
        return Reply({"status": "passed"} | outcome)

    async def _opened(self, namespace: str, body: StorageTest) -> tuple[Place, Objects]:
        policy = await self._payloads.policy(namespace)
        fields: dict[str, Any] = {
            "status": "failed",
            "namespace": namespace,
            "driver": body.driver if policy is None else policy.driver,
            "supported_diagnostic_drivers": self._payloads.disks.drivers(),
        }
        if policy is None:
            raise Problem("external_storage_not_configured", "The namespace has no external storage.", **fields)
        if not policy.enabled:
            raise Problem("external_storage_disabled", "The external storage of the namespace is off.", **fields)
        try:
            if body.driver not in (None, policy.driver):
                raise NoDriver(f"The namespace uses the driver {policy.driver}.")
            place = self._payloads.disks.place(policy)
            return place, self._payloads.disks.objects(place)
        except NoDriver as error:
            raise Problem("storage_driver_unavailable", str(error), **fields) from error


async def _round_trip(place: Place, objects: Objects, size_bytes: int) -> dict[str, Any]:
    """Random bytes, so that no payload lies under the same address."""
    data = os.urandom(size_bytes)
    sha256 = hashlib.sha256(data).hexdigest()
    key = place.key(CODEC, sha256)
    said = {"bytes": size_bytes, "sha256": sha256, "reference_uri": place.uri(key)}
    try:
        await objects.put(key, data)
        await objects.get(key, size_bytes=size_bytes, sha256=sha256)
        await objects.delete(key)
    except (ObjectAltered, ObjectMissing, StorageAway) as error:
        return {"status": "failed", "message": str(error)} | said
    return {"status": "passed"} | said
