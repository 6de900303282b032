"""Roles: the chart owns shape and class, one block of values renders every role, and `global` adds to it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.deploy.chart import Object, refusal, render

SPLIT, FULL, STANDALONE = "split-minimal", "split-full", "standalone-minimal"
CLASSES = {
    SPLIT: {"-api-ingress": "control_plane_node", "-matching": "matching_node", "-scheduler": "scheduler_node"},
    STANDALONE: {"-server": "server_http_node", "-scheduler": "scheduler_node"},
}


def pod(name: str, suffix: str, overrides: dict[str, Any] | None = None) -> Object:
    """The pod template of a Deployment."""
    found: Object = render(name, overrides).one("Deployment", suffix)["spec"]["template"]
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_a_shape_has_its_roles_and_no_others(name: str) -> None:
    rendered = render(name)
    assert len(rendered.of_kind("Deployment")) == len(CLASSES[name])
    for suffix, process_class in CLASSES[name].items():
        env = rendered.env(suffix)
        assert env["DW_SERVER_PROCESS_CLASS"] == process_class
        assert env["DW_SERVER_TOPOLOGY_SHAPE"] == (
            "standalone_server" if name == STANDALONE else "split_control_execution"
        )
        assert env["DW_MODE"] == "service"
        assert env["DW_SERVER_ID"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_processes_of_one_release_agree_on_who_wakes_queues() -> None:
    split = {render(SPLIT).env(suffix)["DW_V2_MATCHING_ROLE_QUEUE_WAKE"] for suffix in CLASSES[SPLIT]}
    standalone = {render(STANDALONE).env(suffix)["DW_V2_MATCHING_ROLE_QUEUE_WAKE"] for suffix in CLASSES[STANDALONE]}
    assert (split, standalone) == ({"false"}, {"true"})


def test_all_roles_are_rendered_from_the_same_text() -> None:
    """But for name, command, class and resources the Deployments of one release are equal."""
    texts = set()
    for suffix, process_class in CLASSES[SPLIT].items():
        deployment = copy.deepcopy(render(SPLIT).one("Deployment", suffix))
        deployment["spec"]["template"]["spec"]["containers"][0].pop("resources")
        texts.add(json.dumps(deployment).replace(process_class, "CLASS").replace(suffix[1:], "ROLE"))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "variable",
    [
        "DW_SERVER_TOPOLOGY_SHAPE",
        "WORKFLOW_SERVER_PROCESS_CLASS",
        "DW_DB_POOL_SIZE",
        "DATABASE_URL",
        "DW_ADMIN_TOKEN_FILE",
    ],
)
@pytest.mark.parametrize("place", ["global", "matching"])
def test_extra_variables_cannot_change_what_the_chart_owns(variable: str, place: str) -> None:
    said = refusal(SPLIT, {place: {"extraEnv": [{"name": variable, "value": "x"}]}})
    assert f"{place}.extraEnv: {variable} belongs to the chart: use " in said


def test_settings_reach_every_role_as_text_and_refuse_owned_names_and_secrets() -> None:
    settings = {"DW_MAX_PAYLOAD_BYTES": 33554432, "DW_COMPRESSION_ENABLED": False, "DW_LOG_LEVEL": "debug"}
    rendered = render(SPLIT, {"settings": settings})
    for suffix in CLASSES[SPLIT]:
        env = rendered.env(suffix)
        assert [env[name] for name in settings] == ["33554432", "false", "debug"]
    assert "settings.DW_HTTP_PORT belongs to the chart" in refusal(SPLIT, {"settings": {"DW_HTTP_PORT": 9000}})
    said = refusal(SPLIT, {"settings": {"DW_WORKER_TOKEN": "x"}})
    assert "settings.DW_WORKER_TOKEN belongs to the chart: use auth.existingSecret" in said


def test_a_role_wins_over_global_and_global_over_settings() -> None:
    overrides = {
        "settings": {"DW_LOG_LEVEL": "warning"},
        "global": {"extraEnv": [{"name": "DW_LOG_LEVEL", "value": "info"}]},
        "matching": {"extraEnv": [{"name": "DW_LOG_LEVEL", "value": "debug"}]},
    }
    rendered = render(SPLIT, overrides)
    assert rendered.env("-matching")["DW_LOG_LEVEL"] == "debug"
    assert rendered.env("-scheduler")["DW_LOG_LEVEL"] == "info"


def test_global_adds_to_what_a_role_has() -> None:
    ingress, matching = pod(FULL, "-api-ingress"), pod(FULL, "-matching")
    assert [it["key"] for it in ingress["spec"]["tolerations"]] == ["dedicated", "burst"]
    assert [it["key"] for it in matching["spec"]["tolerations"]] == ["dedicated"]
    for template in (ingress, matching):
        assert template["metadata"]["labels"]["mesh"] == "off"
        assert template["metadata"]["labels"]["team"] == "platform"
        assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert template["spec"]["priorityClassName"] == "platform"
    assert render(FULL).env("-api-ingress")["AWS_REGION"] == "eu-west-1"
    assert render(FULL).env("-scheduler")["AWS_REGION"] == "eu-central-1"


def test_pod_labels_cannot_break_the_selector() -> None:
    overrides = {"matching": {"podLabels": {"app.kubernetes.io/component": "other", "x": "y"}}}
    template = pod(SPLIT, "-matching", overrides)
    selector = render(SPLIT, overrides).one("Deployment", "-matching")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"]["x"] == "y"


def test_volumes_mounts_and_sidecars_stand_beside_those_of_the_chart() -> None:
    spec = pod(FULL, "-matching")["spec"]
    assert [it["name"] for it in spec["containers"]] == ["server", "logs"]
    assert [it["name"] for it in spec["volumes"]] == ["tmp", "secrets", "ca"]
    assert {"name": "ca", "mountPath": "/etc/company-ca", "readOnly": True} in spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("suffix", CLASSES[SPLIT])
def test_probes_ask_the_right_paths(suffix: str) -> None:
    container = render(SPLIT).container(suffix)
    for probe, path in {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/api/ready"}.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] == 60


def test_a_rollout_never_goes_below_the_wanted_pods_and_keeps_zones_apart() -> None:
    spec = render(SPLIT).one("Deployment", "-matching")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    constraints = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [it["topologyKey"] for it in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    for constraint in constraints:
        assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "matching"


def test_a_stopping_pod_first_serves_on_and_then_has_time_to_drain() -> None:
    spec = pod(SPLIT, "-matching")["spec"]
    command = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["python", "-c", "import time; time.sleep(5)"]
    assert spec["terminationGracePeriodSeconds"] == 60
    assert render(SPLIT).env("-matching")["DW_DRAIN_SECONDS"] == "15"
    said = refusal(SPLIT, {"matching": {"terminationGracePeriodSeconds": 44}})
    assert "matching.terminationGracePeriodSeconds is 44 and must be at least 45" in said
    assert render(SPLIT, {"matching": {"terminationGracePeriodSeconds": 45}})


def test_an_autoscaler_looks_at_cpu_and_at_a_metric_and_owns_the_number_of_pods() -> None:
    rendered = render(FULL)
    (scaler,) = rendered.of_kind("HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "dw-durable-workflow-api-ingress"
    cpu, metric = scaler["spec"]["metrics"]
    assert (cpu["type"], metric["type"]) == ("Resource", "Pods")
    assert cpu["resource"]["target"] == {"type": "Utilization", "averageUtilization": 75}
    assert metric["pods"] == {
        "metric": {"name": "dw_http_requests_in_flight"},
        "target": {"type": "AverageValue", "averageValue": "300"},
    }
    assert scaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300
    assert "replicas" not in rendered.one("Deployment", "-api-ingress")["spec"]
    assert "replicas" not in rendered.one("Deployment", "-matching")["spec"]
    assert rendered.one("Deployment", "-scheduler")["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"scheduler": {"autoscaling": {"enabled": True}}}, "scheduler cannot be scaled automatically"),
        (
            {"matching": {"autoscaling": {"enabled": True}, "externalScaler": True}},
            "matching.autoscaling.enabled and matching.externalScaler contradict each other",
        ),
        (
            {"matching": {"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": None}}},
            "matching.autoscaling needs targetCPUUtilizationPercentage or metric.name",
        ),
        (
            {"apiIngress": {"autoscaling": {"minReplicas": 9}}},
            "apiIngress.autoscaling.minReplicas must not exceed maxReplicas",
        ),
    ],
)
def test_scaling_that_cannot_work_is_refused(overrides: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(SPLIT, overrides)


def test_a_disruption_budget_lets_nodes_be_drained() -> None:
    (budget,) = [
        it for it in render(SPLIT).of_kind("PodDisruptionBudget") if it["metadata"]["name"].endswith("scheduler")
    ]
    assert (budget["apiVersion"], budget["spec"]["maxUnavailable"]) == ("policy/v1", 1)
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert render(FULL).one("PodDisruptionBudget", "-matching")["spec"]["minAvailable"] == 1
    blocked = {"podDisruptionBudget": {"minAvailable": 2, "maxUnavailable": None}}
    assert "minAvailable 2 of 2 pods would keep every node from being drained" in refusal(SPLIT, {"matching": blocked})
    both = {"podDisruptionBudget": {"minAvailable": 1}}
    assert "set maxUnavailable to null when minAvailable is given" in refusal(SPLIT, {"matching": both})
    assert len(render(SPLIT, {"matching": {"podDisruptionBudget": {"enabled": False}}}).of_kind(budget["kind"])) == 2


def test_every_role_has_a_service_that_selects_its_pods() -> None:
    rendered = render(SPLIT)
    for suffix in CLASSES[SPLIT]:
        service = rendered.one("Service", suffix)["spec"]
        labels = rendered.one("Deployment", suffix)["spec"]["template"]["metadata"]["labels"]
        assert service["selector"].items() <= labels.items()
        assert service["ports"][0]["targetPort"] == "http" and service["ports"][0]["port"] == 8080


def test_the_image_is_named_by_digest_when_there_is_one() -> None:
    assert render(SPLIT).container("-matching")["image"] == "durable-workflow-server:0.1.0"
    image = render(FULL).container("-matching")["image"]
    assert image.startswith("registry.example.com/team/durable-workflow-server@sha256:0123")
    assert pod(FULL, "-matching")["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_security_contexts_may_be_widened_knowingly() -> None:
    overrides = {
        "matching": {"securityContext": {"readOnlyRootFilesystem": False}, "podSecurityContext": {"fsGroup": 7}}
    }
    spec = pod(SPLIT, "-matching", overrides)["spec"]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is False
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert (spec["securityContext"]["fsGroup"], spec["securityContext"]["runAsNonRoot"]) == (7, True)


def test_without_workloads_nothing_runs_but_jobs() -> None:
    kinds = {it["kind"] for it in render("migrations-only").objects}
    assert kinds == {"Job", "ServiceAccount"}
