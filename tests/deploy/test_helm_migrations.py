"""Migrations: a hook or a job that is never changed, contract only when asked for, and pods that only wait."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.chart import Object, pod_specs, refusal, render, variables

SPLIT, FULL, ARGO = "split-minimal", "split-full", "split-argo"
HOOK = "helm.sh/hook"


def jobs(name: str, overrides: dict[str, Any] | None = None, revision: int = 1) -> list[Object]:
    """The jobs of a rendering."""
    return render(name, overrides, revision=revision).of_kind("Job")


def test_expanding_is_a_hook_before_install_and_upgrade() -> None:
    (job,) = jobs(SPLIT)
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["bootstrap"]
    assert job["metadata"]["annotations"][HOOK] == "pre-install,pre-upgrade"
    assert job["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"


def test_a_failed_pod_stays_and_the_job_ends() -> None:
    (job,) = jobs(SPLIT)
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (3, 900)
    assert "ttlSecondsAfterFinished" not in job["spec"]


def test_the_account_of_a_hook_is_there_before_it() -> None:
    account = render(SPLIT).one("ServiceAccount", "-migrate")
    (job,) = jobs(SPLIT)
    assert account["metadata"]["annotations"][HOOK] == "pre-install,pre-upgrade"
    weights = [it["metadata"]["annotations"]["helm.sh/hook-weight"] for it in (account, job)]
    assert int(weights[0]) < int(weights[1])
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "dw-durable-workflow-migrate"
    assert account["automountServiceAccountToken"] is False


def test_a_hook_needs_nothing_that_the_release_brings_later() -> None:
    own = {it["metadata"]["name"] for it in render(FULL).objects if it["kind"] in ("ConfigMap", "Secret")}
    spec = render(FULL).one("Job", "-expand")["spec"]["template"]["spec"]
    assert not own & {
        source["secret"]["name"] for it in spec["volumes"] for source in it.get("projected", {}).get("sources", ())
    }
    assert "envFrom" not in spec["containers"][0]


def test_contracting_is_only_there_when_it_is_asked_for() -> None:
    assert len(jobs(SPLIT)) == 1
    expand, contract = sorted(
        jobs(SPLIT, {"migrations": {"contract": {"enabled": True}}}),
        key=lambda it: it["metadata"]["name"],
        reverse=True,
    )
    assert contract["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate", "contract"]
    assert contract["metadata"]["annotations"][HOOK] == "post-install,post-upgrade"
    assert expand["metadata"]["annotations"][HOOK] == "pre-install,pre-upgrade"


def test_without_hooks_jobs_have_waves_around_that_of_the_pods() -> None:
    waves = {}
    for it in render(ARGO).objects:
        annotations = it["metadata"].get("annotations", {})
        assert HOOK not in annotations or it["kind"] == "Pod"
        waves[it["metadata"]["name"]] = int(annotations.get("argocd.argoproj.io/sync-wave", 0))
    (expand,) = [wave for name, wave in waves.items() if "-expand-" in name]
    (contract,) = [wave for name, wave in waves.items() if "-contract-" in name]
    assert waves["dw-durable-workflow-migrate"] < expand < waves["dw-durable-workflow-matching"] < contract


def test_a_changed_job_gets_another_name_although_the_revision_stays_the_same() -> None:
    """Argo CD renders every change as revision 1, and Kubernetes refuses to change a job."""
    before = jobs("migrations-only")
    again = jobs("migrations-only", {})
    changed = jobs("migrations-only", {"postgres": {"host": "elsewhere"}})
    image = jobs("migrations-only", {"image": {"tag": "9.9.9"}})
    names = [it[0]["metadata"]["name"] for it in (before, again, changed, image)]
    assert names[0] == names[1]
    assert len({names[0], names[2], names[3]}) == 3
    assert before[0]["spec"] == again[0]["spec"]


def test_every_upgrade_by_helm_has_a_job_of_its_own() -> None:
    names = [jobs("migrations-only", revision=revision)[0]["metadata"]["name"] for revision in (1, 2)]
    assert names[0].startswith("dw-durable-workflow-expand-1-") and names[1].startswith("dw-durable-workflow-expand-2-")


def test_pods_never_migrate_and_become_ready_only_by_their_own_word() -> None:
    for name in (SPLIT, ARGO, "workloads-only"):
        rendered = render(name)
        for owner, spec in pod_specs(rendered):
            if owner in {it["metadata"]["name"] for it in rendered.of_kind("Deployment")}:
                assert "initContainers" not in spec
                assert not {"migrate", "bootstrap"} & set(spec["containers"][0].get("args", ()))
                assert spec["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/api/ready"


def test_settings_that_bootstrapping_reads_reach_the_job() -> None:
    overrides = {"settings": {"DW_DEFAULT_NAMESPACE": "main", "DW_WORKER_POLL_TIMEOUT": 30}}
    (job,) = jobs(SPLIT, overrides)
    env = variables(job["spec"]["template"]["spec"]["containers"][0])
    assert env["DW_DEFAULT_NAMESPACE"] == "main" and "DW_WORKER_POLL_TIMEOUT" not in env


def test_two_releases_can_share_the_work() -> None:
    first, second = render("migrations-only"), render("workloads-only")
    assert {it["kind"] for it in first.objects} == {"Job", "ServiceAccount"}
    assert second.of_kind("Job") == [] and len(second.of_kind("Deployment")) == 2
    assert "This release does not migrate" in second.notes
    nothing = {"workloads": {"enabled": False}, "migrations": {"enabled": False}}
    assert "nothing would be installed" in refusal(SPLIT, nothing)


@pytest.mark.parametrize(("is_upgrade", "is_told"), [(False, False), (True, True)])
def test_notes_tell_how_to_finish_an_upgrade(is_upgrade: bool, is_told: bool) -> None:
    notes = render(SPLIT, is_upgrade=is_upgrade, revision=2).notes
    assert ("--set migrations.contract.enabled=true" in notes) is is_told
    assert "helm -n prod test dw --logs" in notes


def test_a_test_asks_the_database_and_runs_a_workflow_through_the_services() -> None:
    (pod,) = render(SPLIT).of_kind("Pod")
    assert pod["metadata"]["annotations"][HOOK] == "test"
    assert pod["spec"]["initContainers"][0]["args"] == ["migrate", "status"]
    (workflow,) = pod["spec"]["containers"]
    assert workflow["args"] == [
        *("smoke", "--url", "http://dw-durable-workflow-api-ingress:8080"),
        *("--worker-url", "http://dw-durable-workflow-matching:8080"),
    ]
    assert {"DW_WORKER_TOKEN_FILE", "DW_OPERATOR_TOKEN_FILE"} <= variables(workflow).keys()
    one_url = render("standalone-minimal").of_kind("Pod")[0]["spec"]["containers"][0]["args"]
    assert one_url.count("http://dw-durable-workflow-server:8080") == 2


def test_a_test_goes_through_the_gateway_when_there_is_one() -> None:
    (pod,) = render(FULL).of_kind("Pod")
    assert pod["spec"]["containers"][0]["args"] == ["smoke", "--url", "http://dw-durable-workflow-gateway:8080"]


def test_a_test_brings_its_own_token_for_other_drivers_or_is_not_there() -> None:
    (pod,) = render(ARGO).of_kind("Pod")
    (workflow,) = pod["spec"]["containers"]
    assert workflow["args"][-2:] == ["--token-file", "/etc/durable-workflow/secrets/test/token"]
    assert variables(workflow) == {"DW_AUTH_DRIVER": "jwt"}
    assert render(ARGO, {"test": {"existingSecret": ""}}).of_kind("Pod") == []
    assert render(SPLIT, {"test": {"enabled": False}}).of_kind("Pod") == []
