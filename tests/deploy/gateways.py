"""Both gateways as they are shipped, with what only their surroundings know put in: addresses."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.chart import render
from tests.harness.nginx import replaced, upstream

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"


def compose_gateway(port: int, api_ingress: list[int], matching: list[int]) -> str:
    """``deploy/compose/gateway.conf`` on this port, before replicas on those. Upstreams go before its resolver."""
    text = replaced((COMPOSE / "gateway.conf").read_text(), "listen 8080;", f"listen 127.0.0.1:{port};")
    upstreams = ""
    for role, ports in (("api-ingress", api_ingress), ("matching", matching)):
        text = replaced(text, f"http://{role}:8080;", f"http://{role};")
        upstreams += upstream(role, ports)
    return upstreams + text


def chart_gateway(port: int, api_ingress: int, matching: int) -> str:
    """The gateway of the chart on this port, before the one address of each Service."""
    text: str = render("split-full").one("ConfigMap", "-gateway")["data"]["default.conf"]
    text = replaced(text, "listen 8080;", f"listen 127.0.0.1:{port};")
    for role, service in (("api-ingress", api_ingress), ("matching", matching)):
        text = replaced(text, f"server dw-durable-workflow-{role}:8080 ", f"server 127.0.0.1:{service} ", times=2)
    return text
