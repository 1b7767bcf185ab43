"""GANG-01: which gang scheduler is there and works, by what proves it and not by an API that is served."""

from typing import Any

import pytest
import yaml

from conformance.gang.checks import check_installed
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.record import Verdict
from tests.builders import a_pod, a_policy
from tests.core.test_gang_jobs import a_job, of_job
from tests.endtoend.runs import Finished, run_suite
from tests.gang.test_adapters import VOLCANO, deployment, installed, scope_of

NATIVE = "scheduling.k8s.io/podgroups"
NEEDED: Any = a_policy(gang={"required": True})


def only(scope: Scope, **more: Any) -> Finding:
    [finding] = check_installed(scope, **more)
    return finding


def a_group(*conditions: str) -> Json:
    found = [{"type": kind, "status": "True"} for kind in conditions]
    return {
        "metadata": {"name": "g", "namespace": "team-a"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": found},
    }


def native(*groups: Json, **more: Any) -> Scope:
    return scope_of((NATIVE,), scheduling_k8s_io__podgroups=list(groups), **more)


# -- the native API --


def test_a_served_api_is_no_scheduler() -> None:
    finding = only(native(policy=NEEDED))
    assert finding.outcome is Outcome.UNDECIDED
    assert "a run that only reads cannot tell" in finding.message
    assert only(native(policy=NEEDED), may_probe=True).outcome is Outcome.NOT_JUDGED


@pytest.mark.parametrize("kind", ["PodGroupScheduled", "PodGroupInitiallyScheduled"])
def test_what_only_the_scheduler_writes_proves_it(kind: str) -> None:
    finding = only(native(a_group(kind)))
    assert (finding.subject.name, finding.outcome) == ("native", Outcome.OK)


def test_pods_that_use_the_api_without_an_answer_of_the_scheduler_are_undecided() -> None:
    member = a_pod(devices=1, node="gpu-0", schedulingGroup={"podGroupName": "g"})
    finding = only(native(a_group(), pods=[member]))
    assert (finding.subject.name, finding.outcome) == ("native", Outcome.UNDECIDED)
    assert "1 pods use it" in finding.message


def test_a_policy_that_names_it_asks_for_proof() -> None:
    assert only(native(policy=a_policy(gang={"adapters": ["native"]}))).outcome is Outcome.UNDECIDED


# -- Kueue and Volcano without their usual objects --


def test_volcano_is_there_without_a_pod_group() -> None:
    both = [deployment("volcano-scheduler"), deployment("volcano-controllers", 0)]
    assert only(scope_of(policy=NEEDED, apps__deployments=both)).outcome is Outcome.BAD


# -- schedulers that are only read --


def of_kai(scheduler: str, available: int = 1, binder: int = 1, namespace: str = "kai-scheduler") -> list[Json]:
    names = {scheduler: available, "binder": binder, "pod-grouper": 1, "queue-controller": 1}
    return [deployment(name, number, namespace) for name, number in names.items()]


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_kai_without_its_scheduler_or_its_binder_places_nothing(numbers: tuple[int, int]) -> None:
    finding = only(scope_of(apps__deployments=of_kai("kai-scheduler-default", *numbers)))
    assert finding.outcome is Outcome.BAD


def placed_by(name: str, **more: Any) -> Pod:
    pod = a_pod(devices=1, node="gpu-0", schedulerName=name, **more)
    pod.metadata.creation_timestamp = "1970-01-02T00:00:00Z"
    return pod


def test_pods_that_it_seems_to_have_placed_prove_no_scheduler() -> None:
    mine = placed_by("kai-scheduler", annotations={"pod-group-name": "pg-train"})  # each mark is a tenant's to write, the node's name too
    finding = only(scope_of(policy=NEEDED, pods=[mine]))
    assert (finding.subject.name, finding.outcome) == ("any", Outcome.UNDECIDED)
    assert "tenants.moreInfrastructure" in finding.source
    assert only(scope_of(policy=NEEDED, pods=[placed_by("kai-scheduler")])).outcome is Outcome.BAD
    named = a_policy(gang={"adapters": ["kai"]})
    assert only(scope_of(policy=named, pods=[mine])).outcome is Outcome.UNDECIDED
    assert only(scope_of(policy=named)).outcome is Outcome.BAD


def test_a_job_that_names_a_scheduler_proves_none() -> None:
    finding = only(scope_of(pods=of_job(8, schedulerName="volcano"), batch__jobs=[a_job()]))
    assert finding.outcome is Outcome.UNDECIDED
    assert "jobs name scheduler volcano, and whether it is there" in finding.message


def test_forged_pods_say_nothing_beside_a_scheduler_that_works() -> None:
    mine = placed_by("kai-scheduler", annotations={"pod-group-name": "pg-train"})
    found = installed(
        scope_of((VOLCANO,), pods=[mine], apps__deployments=[deployment("volcano-scheduler"), deployment("volcano-controllers")])
    )
    assert {name: finding.outcome for name, finding in found.items()} == {"volcano": Outcome.OK}


@pytest.mark.parametrize(("scheduler", "expected"), [("kai-scheduler-default", Outcome.OK), ("scheduler", Outcome.BAD)])
def test_a_scheduler_elsewhere_is_known_by_its_own_name_where_the_policy_names_its_namespace(scheduler: str, expected: Outcome) -> None:
    policy = a_policy(gang={"required": True}, tenants={"moreInfrastructure": ["batch-platform"]})
    assert only(scope_of(policy=policy, apps__deployments=of_kai(scheduler, namespace="batch-platform"))).outcome is expected


def test_a_crd_without_a_scheduler_is_not_called_nothing() -> None:
    definitions: Json = {"apiextensions_k8s_io__customresourcedefinitions": [{"metadata": {"name": "podgroups.scheduling.run.ai"}}]}
    finding = only(scope_of(policy=NEEDED, **definitions))
    assert finding.outcome is Outcome.UNDECIDED
    assert "podgroups.scheduling.run.ai" in finding.message


def test_the_policy_may_name_a_scheduler_that_is_only_read() -> None:
    policy = a_policy(gang={"adapters": ["kai"]})
    assert only(scope_of(policy=policy)).outcome is Outcome.BAD
    assert only(scope_of(policy=policy, apps__deployments=of_kai("scheduler"))).outcome is Outcome.OK


# -- A gang scheduler whose webhook is away: every pod creation fails, which says nothing about gangs or pods
# Facts: docs/facts/local-control-plane.md#absent-webhooks.


CREATES_PODS = ("REQ-01", "PSA-03", "FENCE-05", "FENCE-06", "PSA-04", "ISO-01", "GANG-02", "GANG-03", "GANG-04", "OBS-06")
PACE = {"probes": {"windowSeconds": 0.5, "startSeconds": 10.0}}


def webhook(url: str = "https://127.0.0.1:9/mutate--v1-pod") -> Json:
    """A webhook on all pods that nobody serves."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue-away"},
        "webhooks": [
            {
                "name": "mpod.kb.io",
                "clientConfig": {"url": url},
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 2,
            }
        ],
    }


@pytest.fixture(scope="module")
def without_it(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("away")
    with EmbeddedCluster.start("kueue-inference", folder) as embedded:
        admin = Cluster.from_kubeconfig(embedded.kubeconfig, "admin")
        assert admin.create("admissionregistration.k8s.io/mutatingwebhookconfigurations", webhook()).ok
        policy = folder / "policy.yaml"
        policy.write_text(yaml.safe_dump({**embedded.policy, **PACE}))
        return run_suite(folder, "--kubeconfig", str(embedded.kubeconfig), "--policy", str(policy))


@pytest.mark.parametrize("id_", CREATES_PODS)
def test_what_creates_pods_is_undecided_and_says_why(without_it: Finished, id_: str) -> None:
    result = without_it.result(id_)
    assert result.verdict is Verdict.INCONCLUSIVE, result.message
    assert "failed calling webhook" in " ".join([result.message, *(subject.message for subject in result.subjects)])
