"""The OpenAPI document: valid, complete, true to the catalogue, and shown to people without scripts."""

from __future__ import annotations

import re

from dw_core.openapi.document import openapi
from dw_core.openapi.parameters import PARAMETERS
from dw_core.openapi.refusals import REFUSALS
from dw_core.openapi.successes import SUCCESSES
from dw_core.protocol.reasons import REASONS
from dw_core.routes.catalogue import ROUTES
from tests.contract.shell_client import call
from tests.contract.test_node_matrix import Process, process

__all__ = ["process"]


async def test_every_process_serves_the_document_to_everybody(process: Process) -> None:
    answer = await call(process.app, "GET", "/api/openapi.json")
    document = answer.json
    assert (answer.status, document["openapi"]) == (200, "3.1.0")
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.path, route.method) for route in ROUTES}


async def test_the_page_shows_every_route_and_needs_nothing_from_elsewhere(process: Process) -> None:
    answer = await call(process.app, "GET", "/api/docs")
    text = answer.raw.decode() if "content-encoding" not in answer.headers else ""
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html")
    assert all(f"id='{route.name}'" in text for route in ROUTES)
    assert re.findall(r"<script|https?://|src=", text) == []
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_tables_name_routes_and_reasons_that_exist() -> None:
    names = {route.name for route in ROUTES}
    assert REFUSALS.keys() | SUCCESSES.keys() | PARAMETERS.keys() <= names
    assert {reason.partition(":")[0] for reasons in REFUSALS.values() for reason in reasons} <= REASONS.keys()


def test_every_reference_leads_somewhere_and_patterns_are_portable() -> None:
    document = openapi(ROUTES, version="1")
    schemas = document["components"]["schemas"]
    text = repr(document)
    assert set(re.findall(r"#/components/schemas/(\w+)", text)) <= schemas.keys()
    assert r"\\Z" not in text
