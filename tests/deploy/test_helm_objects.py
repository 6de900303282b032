"""Every object of every set of values is one that Kubernetes takes, and that keeps to the chart's own rules."""

from __future__ import annotations

import functools
import json
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import pytest
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from dw_core.topology.placement import resolve
from dw_runtime.settings import load
from dw_runtime.settings.audit import known_names
from dw_runtime.settings.model import IGNORED, PARTS
from dw_standalone.cli import _parser
from tests.deploy.chart import CHART, CI, ci_values, pod_specs, render, server_containers, variables

KUBERNETES = ("1.27", "1.31", "1.37")
FOREIGN = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}
"""Kinds of other projects, whose schemas Kubernetes does not have."""
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


@functools.cache
def validator(kind: str, api_version: str, kubernetes: str) -> jsonschema.Draft202012Validator:
    """What judges objects of a kind strictly; the schemas are those of ``kubernetes_validate``, read once."""
    group, _, version = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.split(".")[0], version) if part) + ".json"
    newest = next(it for it in kubernetes_validate.utils.all_versions() if it.startswith(f"{kubernetes}."))
    folder = f"kubernetes-json-schema/v{newest}-local-strict"
    schema, definitions = schema_contents(f"{folder}/{name}", kubernetes), _definitions(folder, kubernetes)
    registry: Registry[Any] = Resource.from_contents(schema) @ Registry()
    return jsonschema.Draft202012Validator(schema, registry=definitions @ registry)


@functools.cache
def _definitions(folder: str, kubernetes: str) -> Resource[Any]:
    return Resource.from_contents(schema_contents(f"{folder}/_definitions.json", kubernetes))


@pytest.mark.parametrize("name", CI)
def test_helm_lints_the_chart_strictly(name: str) -> None:
    report = helm_python.lint(CHART, json.loads(ci_values(name)), strict=True, kube_version="v1.31.0")
    assert report["errors"] == []
    assert [it for it in report["messages"] if it["severity"] > 1] == []


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("name", CI)
def test_kubernetes_takes_every_object(name: str, kubernetes: str) -> None:
    for it in render(name).objects:
        if it["kind"] in FOREIGN:
            continue
        problems = list(validator(it["kind"], it["apiVersion"], kubernetes).iter_errors(it))
        assert problems == [], (it["metadata"]["name"], [problem.message for problem in problems])


def test_the_validator_finds_what_is_wrong() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"prots": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.31", strict=True)
    assert list(validator("Service", "v1", "1.31").iter_errors(service))


@pytest.mark.parametrize("name", CI)
def test_names_are_short_and_unique_and_labels_say_whose_an_object_is(name: str) -> None:
    objects = render(name).objects
    named = [(it["kind"], it["metadata"]["name"]) for it in objects]
    assert len(named) == len(set(named))
    for it in objects:
        assert len(it["metadata"]["name"]) <= 63
        assert it["metadata"]["namespace"] == "prod"
        assert it["metadata"]["labels"]["app.kubernetes.io/instance"] == "dw"
        assert it["metadata"]["labels"]["helm.sh/chart"] == "durable-workflow-0.1.0"


def test_names_stay_short_for_the_longest_release() -> None:
    values = json.loads(ci_values("split-argo"))
    texts = helm_python.Chart.load(CHART).render(values, name="r" * 53, namespace="prod", revision=9999)
    names = [line.split()[-1] for text in texts.values() for line in text.splitlines() if line.startswith("  name: ")]
    assert names and max(map(len, names)) <= 63


@pytest.mark.parametrize("name", CI)
def test_every_pod_is_restricted_and_has_no_token_of_its_account(name: str) -> None:
    for owner, spec in pod_specs(render(name)):
        assert spec["automountServiceAccountToken"] is False, owner
        assert spec["enableServiceLinks"] is False, "links would bring variables that begin with DW_"
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            if container["name"] != "logs":
                assert container["securityContext"] == RESTRICTED, owner
                assert container["resources"]["requests"], owner


@pytest.mark.parametrize("name", CI)
def test_every_pod_runs_under_an_account_of_the_release_which_has_no_token(name: str) -> None:
    accounts = {it["metadata"]["name"]: it for it in render(name).of_kind("ServiceAccount")}
    assert not [it for it in accounts.values() if it["automountServiceAccountToken"]]
    assert {spec["serviceAccountName"] for _, spec in pod_specs(render(name))} == accounts.keys()
    own = {"serviceAccount": {"create": False, "name": "mine"}}
    renamed = render(name, own | {"migrations": own})
    assert renamed.of_kind("ServiceAccount") == []
    assert {spec["serviceAccountName"] for _, spec in pod_specs(renamed)} == {"mine"}


@pytest.mark.parametrize("name", CI)
def test_every_variable_is_a_setting_of_the_server(name: str) -> None:
    known = known_names() | PARTS.keys() | {"DB_PASSWORD_FILE", "REDIS_PASSWORD_FILE", "AWS_REGION"} - set(IGNORED)
    for owner, container in server_containers(render(name)):
        assert variables(container).keys() <= known, owner


@pytest.mark.parametrize("name", CI)
def test_every_role_may_start_with_its_shape_class_and_settings(name: str) -> None:
    for owner, container in server_containers(render(name)):
        values = {key: it for key, it in variables(container).items() if isinstance(it, str)}
        if "DW_SERVER_PROCESS_CLASS" not in values:
            continue
        (command,) = container["args"]
        placed = resolve(values["DW_SERVER_TOPOLOGY_SHAPE"], values["DW_SERVER_PROCESS_CLASS"], command)
        assert owner.endswith(command.replace("standalone", "server"))
        settings = load({key: it for key, it in values.items() if not key.endswith("_FILE")})
        assert settings.topology.matching_queue_wake is placed.queue_wake_default


@pytest.mark.parametrize("name", CI)
def test_every_command_is_one_of_the_image(name: str) -> None:
    for _, container in server_containers(render(name)):
        assert _parser().parse_args(container["args"]).command == container["args"][0]


@pytest.mark.parametrize("name", CI)
def test_every_file_that_a_variable_names_is_mounted(name: str) -> None:
    rendered = render(name)
    specs = dict(pod_specs(rendered))
    for owner, container in server_containers(rendered):
        volumes = {it["name"]: it for it in specs[owner]["volumes"]}
        mounts = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        assert mounts.keys() <= volumes.keys()
        files = {
            f"{mounts['secrets']}/{item['path']}"
            for source in volumes.get("secrets", {}).get("projected", {}).get("sources", ())
            for item in source["secret"]["items"]
            if "secrets" in mounts
        }
        for key, value in variables(container).items():
            if key.endswith(("_FILE", "_SSLROOTCERT", "_SSLCERT", "_SSLKEY")):
                assert value in files, (owner, key)
        for option, value in zip(container["args"], container["args"][1:], strict=False):
            assert option != "--token-file" or value in files


@pytest.mark.parametrize("name", CI)
def test_every_secret_is_a_file_and_none_is_rendered(name: str) -> None:
    assert render(name).of_kind("Secret") == []
    for _, container in server_containers(render(name)):
        for key, value in variables(container).items():
            assert (
                not isinstance(value, str) or not key.endswith(("TOKEN", "PASSWORD", "_KEY", "_URL")) or "JWKS" in key
            )
