"""Values: a schema without loopholes, old names with their fix, a README from the comments, and what docs show."""

from __future__ import annotations

import json
import re
import runpy
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CHART, CI, ROOT, Rendered, chart, ci_values, refusal, render

SPLIT = "split-minimal"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
GUIDES = [ROOT / "docs" / "how-to" / name for name in ("install-with-helm.md", "scale-per-role.md")]
README = runpy.run_path(str(ROOT / "deploy" / "helm" / "readme.py"))
ROLES = ("server", "apiIngress", "matching", "scheduler")
GONE = (
    "externalDatabase",
    "externalRedis",
    "bootstrap",
    "worker",
    "config",
    "argocd",
    "flux",
    "replicaCount",
    "extraEnv",
)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema itself instead of a reference to it."""
    name = schema.get("$ref", "").removeprefix("#/definitions/")
    found: dict[str, Any] = SCHEMA["definitions"][name] if name else schema
    return found


def described(schema: dict[str, Any], values: Any, path: str = "") -> list[str]:
    """Keys where the schema and the defaults do not have the same names."""
    schema = resolved(schema)
    if "properties" not in schema or not isinstance(values, dict):
        return []
    if schema.get("additionalProperties") is not False:
        return [f"{path} is open"]
    ours = {key for key, it in schema["properties"].items() if "Not a value" not in it.get("description", "")}
    optional = {"limits", "requests", "claims", "initialDelaySeconds", "successThreshold"}
    wrong = [f"{path}.{key}" for key in ours ^ values.keys() if key not in optional]
    for key in ours & values.keys():
        wrong += described(schema["properties"][key], values[key], f"{path}.{key}")
    return wrong


def test_schema_and_defaults_name_the_same_keys_and_no_block_is_open() -> None:
    assert described(SCHEMA, VALUES) == []


def test_all_roles_have_the_same_keys() -> None:
    assert {frozenset(VALUES[role]) for role in ROLES} == {frozenset(VALUES["server"])}
    assert {SCHEMA["properties"][role]["$ref"] for role in ROLES} == {"#/definitions/role"}


@pytest.mark.parametrize(
    "overrides",
    [
        {"matchng": {}},
        {"matching": {"replicas": 3}},
        {"matching": {"replicaCount": "3"}},
        {"matching": {"probes": {"liveness": {"httpGet": {}}}}},
        {"postgres": {"password": "hunter2"}},
        {"postgres": {"tls": {"mode": "verify"}}},
        {"shape": "embedded"},
        {"settings": {"PATH": "/bin"}},
        {"image": {"digest": "latest"}},
        {"migrations": {"contract": {"enabled": "yes"}}},
    ],
)
def test_a_mistake_in_values_is_refused_by_the_schema(overrides: dict[str, Any]) -> None:
    assert "values don't meet the specifications of the schema" in refusal(SPLIT, overrides)


@pytest.mark.parametrize("key", GONE)
def test_a_key_of_another_chart_is_refused_with_what_to_write(key: str) -> None:
    said = refusal(SPLIT, {key: {}})
    assert re.search(rf"- {key} is not a value of this chart: \w+", said), said


def test_every_old_key_of_the_schema_has_its_fix() -> None:
    gone = {key for key, it in SCHEMA["properties"].items() if "Not a value" in it.get("description", "")}
    for key in gone:
        assert f"- {key} is not a value of this chart" in refusal(SPLIT, {key: 1})
    said = refusal(SPLIT, {"auth": {"adminToken": "x"}})
    assert "auth.adminToken is not a value of this chart: secrets are never values" in said


def test_the_readme_is_generated_from_the_comments() -> None:
    assert (CHART / "README.md").read_text() == README["render"](), "run python deploy/helm/readme.py"


def test_every_default_is_described() -> None:
    documented = dict(README["documented"]((CHART / "values.yaml").read_text()))

    def leaves(values: dict[str, Any], path: str = "") -> list[str]:
        found = []
        for key, value in values.items():
            name = f"{path}{key}"
            if path == "" and key in ROLES[1:]:
                continue  # the same keys as server
            if any(name == known or name.startswith(f"{known}.") for known in covering):
                continue
            found += leaves(value, f"{name}.") if isinstance(value, dict) and value else [name]
        return found

    parents = {known.rpartition(".")[0] for known in documented}
    covering = documented.keys() - parents
    assert leaves(VALUES) == []


def test_notes_say_where_to_call_and_what_is_open() -> None:
    notes = render(SPLIT).notes
    assert "Applications call  http://dw-durable-workflow-api-ingress.prod:8080" in notes
    assert "Workers call       http://dw-durable-workflow-matching.prod:8080" in notes
    assert "Postgres: up to 82 of 100 connections" in notes
    assert "WARNING" not in notes
    open_to_all = {"auth": {"driver": "none", "existingSecret": ""}}
    assert "WARNING: auth.driver is none" in render(SPLIT, open_to_all).notes
    assert "no timer, schedule or timeout advances" in render(SPLIT, {"scheduler": {"replicaCount": 0}}).notes


def test_common_labels_and_annotations_are_on_everything() -> None:
    for it in render("split-full").objects:
        assert it["metadata"]["labels"]["team"] == "platform", it["metadata"]["name"]
        assert it["metadata"]["annotations"]["owner"] == "platform@example.com", it["metadata"]["name"]


@pytest.mark.parametrize("name", CI)
def test_a_rendering_is_the_same_every_time(name: str) -> None:
    values = json.loads(ci_values(name))
    first, second = (chart().render(values, name="dw", namespace="prod") for _ in range(2))
    assert first == second and Rendered(first).objects


def test_the_sets_of_values_that_the_how_to_shows_can_be_rendered() -> None:
    guides = "".join(guide.read_text() for guide in GUIDES)
    blocks = re.findall(r"```yaml\n# values\n(.*?)```", guides, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        assert render(SPLIT, yaml.safe_load(block)).objects


def test_one_command_renders_every_set_of_values(tmp_path: Any) -> None:
    assert runpy.run_path(str(ROOT / "deploy" / "helm" / "render.py"))["main"]([str(tmp_path)]) == 0
    for name in CI:
        written = [it for it in yaml.safe_load_all((tmp_path / f"{name}.yaml").read_text()) if it]
        assert len(written) == len(render(name).objects)
