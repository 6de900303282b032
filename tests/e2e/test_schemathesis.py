"""Requests made up from the OpenAPI document: no route fails, and none answers what its document does not say."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dw_core.openapi.document import openapi
from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane
from tests.contract.test_node_matrix import SERVED
from tests.harness.servers import TOKEN, Server

HEALTH = {"ready", "health", "livez", "system_health"}
"""Their 503 is an answer."""
EXAMPLES = 12

TRIED = [route for route in ROUTES if route.name in SERVED or route.plane is Plane.DISCOVERY]

document = schemathesis.openapi.from_dict(openapi(TRIED, version="1"))


@document.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate]
)
def test_answers_conform(case: schemathesis.Case[Any], server: Server) -> None:
    if (
        case.operation.path.startswith("/api/worker/")
        and isinstance(case.body, dict)
        and "timeout_seconds" in case.body
    ):
        case.body["timeout_seconds"] = 0
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    if case.operation.definition.raw["operationId"] not in HEALTH:
        checks.append(not_a_server_error)
    case.call_and_validate(
        base_url=server.url,
        headers={"Authorization": f"Bearer {TOKEN}"},
        checks=checks,
        timeout=30,
    )


def test_every_route_is_tried() -> None:
    tried = set()
    for operation in document.get_all_operations():
        assert isinstance(operation, Ok)
        tried.add(operation.ok().definition.raw["operationId"])
    assert tried == {route.name for route in TRIED}


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
