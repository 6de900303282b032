"""Both planes over a folder of this test's own, in which its namespace keeps large payloads."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dw_core.payloads.codec import encode_blob
from tests.contract.shell_client import Answer, call
from tests.contract.worker.client import Client
from tests.harness.worker_plane import ServedPlane, worker_plane

PREFIX = "X-Durable-Workflow-Payload-"
BLOB = encode_blob(["x" * 2000])
"""A payload that is larger than the policy of these tests keeps inline."""


class PayloadClient(Client):
    """A client that also moves bytes."""

    def __init__(self, served: ServedPlane, root: Path) -> None:
        super().__init__(served)
        self.root = root

    async def upload(self, blob: str = BLOB, *, namespace: str | None = None, **replaced: str) -> Answer:
        """Upload the text of a blob; ``replaced`` are headers that say something else."""
        data = blob.encode()
        return await self.move("POST", "", headers_of(data) | replaced, body=data, namespace=namespace)

    async def reference(self, blob: str = BLOB) -> dict[str, Any]:
        """The envelope of an uploaded blob."""
        answer = await self.upload(blob)
        assert answer.status == 201, answer.json
        return {"codec": "avro", "external_payload": answer.json["reference"]}

    async def fetch(self, reference: dict[str, Any], *, namespace: str | None = None, **replaced: str) -> Answer:
        """Ask for the bytes of a reference."""
        sent = {
            f"{PREFIX}Codec": reference["codec"],
            f"{PREFIX}Size": str(reference["size_bytes"]),
            f"{PREFIX}SHA256": reference["sha256"],
        }
        return await self.move("GET", f"/{reference['reference_id']}", sent | replaced, namespace=namespace)

    async def move(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        *,
        body: bytes | None = None,
        namespace: str | None = None,
    ) -> Answer:
        """One request to the byte transport."""
        sent = {"x-namespace": namespace or self.served.namespace, "content-type": "application/octet-stream"}
        lowered = {name.lower(): value for name, value in headers.items()}
        return await call(
            self.served.app, method, f"/api/external-payloads/v1{path}", headers=sent | lowered, body=body
        )

    def object_of(self, sha256: str) -> Path:
        """Where the bytes of a content lie."""
        return self.root / "kept" / "avro" / sha256[:2] / sha256

    async def keep(self, **policy: Any) -> Answer:
        """Set the policy of the namespace."""
        body = {"driver": "local", "threshold_bytes": 1000, "config": {"prefix": "kept"}} | policy
        return await self.control("PUT", f"/namespaces/{self.served.namespace}/external-storage", body)


def headers_of(data: bytes) -> dict[str, str]:
    """The headers that describe bytes."""
    return {
        f"{PREFIX}Codec": "avro",
        f"{PREFIX}Size": str(len(data)),
        f"{PREFIX}SHA256": hashlib.sha256(data).hexdigest(),
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that the driver ``local`` may use."""
    return tmp_path.resolve() / "payloads"


@pytest.fixture
async def served(database_url: str, unique_namespace: str, root: Path) -> AsyncIterator[ServedPlane]:
    """Both planes, with a namespace of this test alone."""
    environ = {"DW_EXTERNAL_PAYLOAD_LOCAL_ROOT": str(root), "DW_EXTERNAL_PAYLOAD_MAX_BYTES": "3000000"}
    async with worker_plane(database_url, unique_namespace, environ) as started:
        yield started


@pytest.fixture
async def bare_client(served: ServedPlane, root: Path) -> PayloadClient:
    """A client of a namespace without a policy."""
    return PayloadClient(served, root)


@pytest.fixture
async def client(bare_client: PayloadClient) -> PayloadClient:
    """A client whose namespace keeps payloads; its worker ``w-1`` is registered."""
    assert (await bare_client.keep()).status == 200
    assert (await bare_client.register()).status == 201
    return bare_client
