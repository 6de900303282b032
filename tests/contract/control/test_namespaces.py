"""Reads of namespaces, and the namespace gate on a real store."""

from __future__ import annotations

from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def test_namespaces_are_listed_by_name_and_described(plane: ControlPlane, send: Send) -> None:
    listed = (await send("GET", "/namespaces")).json["namespaces"]
    names = [entry["name"] for entry in listed]
    assert names == sorted(names) and {"default", plane.namespace} <= set(names)
    described = await send("GET", f"/namespaces/{plane.namespace.upper()}")
    body = described.json
    assert (described.status, body["name"], body["retention_days"], body["status"]) == (
        200,
        plane.namespace,
        30,
        "active",
    )
    assert (body["external_payload_storage"], body["created_at"]) == (None, body["updated_at"])
    assert next(entry for entry in listed if entry["name"] == plane.namespace) == body


async def test_an_unknown_namespace_is_not_found(send: Send) -> None:
    for path, headers in (("/namespaces/nowhere", {}), ("/workflows", {"x_namespace": "nowhere"})):
        answer = await send("GET", path, **headers)
        assert (answer.status, answer.json["reason"], answer.json["namespace"]) == (
            404,
            "namespace_not_found",
            "nowhere",
        )
