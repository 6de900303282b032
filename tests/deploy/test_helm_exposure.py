"""How the server is reached: one rule, patience for held polls, aligned bodies, and nothing but named flows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.deploy.chart import ROOT, Object, refusal, render

SPLIT, FULL, ARGO, STANDALONE = "split-minimal", "split-full", "split-argo", "standalone-minimal"
NGINX = "nginx.ingress.kubernetes.io"
COMPONENT = "app.kubernetes.io/component"


def paths(name: str, overrides: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Path and Service of every rule of the Ingress."""
    rule = render(name, overrides).one("Ingress")["spec"]["rules"][0]
    return [(it["path"], it["backend"]["service"]["name"]) for it in rule["http"]["paths"]]


def directives(text: str) -> dict[str, set[str]]:
    """The directives in each location of a gateway's configuration, without addresses and comments."""
    found = {}
    for location, body in re.findall(r"location (\S+) \{(.*?)\n *\}", re.sub(r"#.*", "", text), re.DOTALL):
        lines = {line.strip() for line in body.splitlines() if line.strip()}
        found[location] = {line for line in lines if not line.startswith(("proxy_pass", "set "))}
    return found


def gateway_config(overrides: dict[str, Any] | None = None) -> str:
    """The configuration of the built-in gateway."""
    text: str = render(FULL, overrides).one("ConfigMap", "-gateway")["data"]["default.conf"]
    return text


def test_an_ingress_has_the_one_rule() -> None:
    prefix = "dw-durable-workflow"
    assert sorted(paths(FULL)) == [("/", f"{prefix}-api-ingress"), ("/api/worker/", f"{prefix}-matching")]
    alone = paths(STANDALONE, {"ingress": {"enabled": True}})
    assert {service for _, service in alone} == {f"{prefix}-server"}
    rule = render(STANDALONE, {"ingress": {"enabled": True}}).one("Ingress")["spec"]["rules"][0]
    assert "host" not in rule and {it["pathType"] for it in rule["http"]["paths"]} == {"Prefix"}


def test_an_ingress_of_nginx_waits_for_polls_and_lets_large_payloads_through() -> None:
    ingress = render(FULL).one("Ingress")
    annotations = ingress["metadata"]["annotations"]
    assert annotations[f"{NGINX}/proxy-read-timeout"] == annotations[f"{NGINX}/proxy-send-timeout"] == "90"
    largest = int(render(FULL).env("-matching")["DW_EXTERNAL_PAYLOAD_MAX_BYTES"])
    assert int(annotations[f"{NGINX}/proxy-body-size"]) == largest + 1_048_576
    assert annotations[f"{NGINX}/proxy-buffering"] == "off"
    repeated = {it.removeprefix("proxy_").rstrip(";") for it in directives(gateway_config())["/"] if "_next_" in it}
    assert repeated == {
        f"next_upstream {annotations[f'{NGINX}/proxy-next-upstream']}",
        f"next_upstream_timeout {annotations[f'{NGINX}/proxy-next-upstream-timeout']}s",
    }
    assert "non_idempotent" not in annotations[f"{NGINX}/proxy-next-upstream"], "a POST may have taken effect"
    assert annotations["owner"] == "platform@example.com"
    assert ingress["spec"]["tls"] == [{"secretName": "workflows-tls", "hosts": ["workflows.example.com"]}]
    assert ingress["spec"]["rules"][0]["host"] == "workflows.example.com"


def test_own_annotations_win_and_other_controllers_get_none() -> None:
    own = {"ingress": {"annotations": {f"{NGINX}/proxy-body-size": "1m"}}}
    assert render(FULL, own).one("Ingress")["metadata"]["annotations"][f"{NGINX}/proxy-body-size"] == "1m"
    other = render(FULL, {"ingress": {"controller": "other"}}).one("Ingress")["metadata"]["annotations"]
    assert not [it for it in other if it.startswith(NGINX)]


def test_a_route_of_the_gateway_api_has_the_same_rule_and_patience() -> None:
    spec = render(ARGO).one("HTTPRoute")["spec"]
    rules = {it["matches"][0]["path"]["value"]: it for it in spec["rules"]}
    assert rules["/api/worker/"]["backendRefs"] == [{"name": "dw-durable-workflow-matching", "port": 8080}]
    assert rules["/"]["backendRefs"] == [{"name": "dw-durable-workflow-api-ingress", "port": 8080}]
    assert all(rule["timeouts"] == {"request": "90s", "backendRequest": "90s"} for rule in rules.values())
    assert spec["parentRefs"] == [{"name": "public", "namespace": "gateways"}]
    assert "httpRoute.parentRefs is needed" in refusal(SPLIT, {"httpRoute": {"enabled": True}})


def test_the_gateway_says_what_that_of_compose_says() -> None:
    ours = directives(gateway_config())
    theirs = directives((ROOT / "deploy" / "compose" / "gateway.conf").read_text())
    assert ours == theirs and ours.keys() == {"/", "/api/worker/"}


def test_the_gateway_sends_each_plane_to_its_service() -> None:
    config = gateway_config()
    passed = dict(re.findall(r"location (\S+) \{\s+proxy_pass http://(\w+);", config))
    assert passed == {"/api/worker/": "worker", "/": "control"}
    for plane, role in (("worker", "matching"), ("control", "api-ingress")):
        (servers,) = re.findall(rf"upstream {plane} \{{(.*?)\}}", config, re.DOTALL)
        assert servers.split(";")[:-1] == [f"\n    server dw-durable-workflow-{role}:8080 max_fails=0"] * 2
    assert f"client_max_body_size {67_108_864 + 1_048_576};" in config


def test_a_changed_gateway_is_rolled_out_and_ends_after_its_polls() -> None:
    before = render(FULL).one("Deployment", "-gateway")["spec"]["template"]
    after = render(FULL, {"http": {"timeoutSeconds": 120}}).one("Deployment", "-gateway")["spec"]["template"]
    assert before["metadata"]["annotations"] != after["metadata"]["annotations"]
    assert "proxy_read_timeout 120s;" in gateway_config({"http": {"timeoutSeconds": 120}})
    assert (before["spec"]["terminationGracePeriodSeconds"], after["spec"]["terminationGracePeriodSeconds"]) == (
        100,
        130,
    )


def test_a_gateway_makes_no_sense_for_one_url() -> None:
    assert "has one URL already" in refusal(STANDALONE, {"gateway": {"enabled": True}})


def test_nobody_may_wait_less_than_a_poll_takes() -> None:
    assert "timeoutSeconds" in refusal(SPLIT, {"http": {"timeoutSeconds": 74}})
    assert render(SPLIT, {"http": {"timeoutSeconds": 75}})


def policies(overrides: dict[str, Any] | None = None) -> dict[str, Object]:
    """Specifications of the network policies by flow."""
    found = render(FULL, overrides).of_kind("NetworkPolicy")
    return {it["metadata"]["name"].removeprefix("dw-durable-workflow-"): it["spec"] for it in found}


def members(policy: Object) -> set[str]:
    """The components that a policy is about; empty for all."""
    selected = policy["podSelector"].get("matchExpressions", ())
    return {value for it in selected if it["key"] == COMPONENT for value in it["values"]}


def test_everything_is_denied_but_named_flows() -> None:
    found = policies()
    assert found["default-deny"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & found["default-deny"].keys() and members(found["default-deny"]) == set()
    assert found.keys() == {
        *("default-deny", "dns", "postgres", "redis", "clients", "inside", "served", "metrics", "outside")
    }
    for name, policy in found.items():
        assert name == "default-deny" or len(policy["policyTypes"]) == 1, name


def test_whoever_needs_postgres_may_reach_it_the_pooler_and_the_server_alike() -> None:
    policy = policies()["postgres"]
    assert {"api-ingress", "matching", "scheduler", "migrate-expand", "migrate-contract", "test"} == members(policy)
    assert [it["port"] for it in policy["egress"][0]["ports"]] == [6432, 5432]
    assert policy["egress"][0]["to"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "db"}
    labels = render(FULL).one("Job", "-expand")["spec"]["template"]["metadata"]["labels"]
    assert labels[COMPONENT] == "migrate-expand"


def test_clients_reach_what_serves_and_not_the_scheduler() -> None:
    found = policies()
    assert members(found["clients"]) == members(found["served"]) == {"api-ingress", "matching", "gateway"}
    assert found["clients"]["ingress"][0]["from"] == [{"podSelector": {}}]
    assert members(found["metrics"]) == {"api-ingress", "matching", "scheduler"}
    assert members(found["inside"]) == {"gateway", "test"}


def test_flows_that_nobody_needs_are_not_there() -> None:
    off = {"networkPolicy": {"metrics": [], "extraEgress": []}, "redis": {"host": "", "secretKeys": {"password": ""}}}
    assert not {"metrics", "outside", "redis"} & policies(off).keys()
    assert render(SPLIT).of_kind("NetworkPolicy") == []


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_a_service_may_be_of_another_type(kind: str) -> None:
    overrides = {"apiIngress": {"service": {"type": kind, "port": 80, "annotations": {"a": "b"}}}}
    service = render(SPLIT, overrides).one("Service", "-api-ingress")
    assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == (kind, 80)
    assert service["metadata"]["annotations"] == {"a": "b"}
    (pod,) = render(SPLIT, overrides).of_kind("Pod")
    assert "http://dw-durable-workflow-api-ingress:80" in pod["spec"]["containers"][0]["args"]
