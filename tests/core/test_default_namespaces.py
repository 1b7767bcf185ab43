"""A run names the namespaces that it takes for the platform's by a default name alone."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.catalogue import Catalogue
from conformance.coverage.default_namespaces import notes
from conformance.coverage.run import coverage_of_run
from conformance.policy.model import Policy, Tenants
from fixtures.kubernetes.models import Pod
from fixtures.verdict.floor import Floor
from fixtures.verdict.record import Access, Level, Result, Verdict
from tests.builders import a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.hostile.test_platform_namespaces import cluster_policy

WEB = {"node": "gpu-0"}
NODES = [a_node(), a_cpu_node()]


def noted(*pods: Pod, policy: Policy | None = None, **more: Any) -> list[str]:
    return list(notes(a_scope(policy, **{"nodes": NODES, "pods": pods, **more})))


def test_a_namespace_that_only_a_default_name_exempts_is_named() -> None:
    (note,) = noted(a_pod("web", "kubeflow", node="gpu-0"), a_pod("train", "monitoring", devices=1), a_pod("web", "team-a", node="gpu-0"))
    assert note.startswith("no rule for tenants was applied in namespaces that are the platform's by a default name")
    assert note.endswith(": kubeflow, monitoring")
    assert "\n" not in note


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("dns", "kube-system", node="gpu-0"),
        a_pod("web", "kubeflow", node="cpu-0"),
        a_pod("web", "kubeflow", node="gpu-0", phase="Succeeded"),
        a_pod("web", "kubeflow-2", node="gpu-0"),
    ],
    ids=["Kubernetes' own", "nothing that rules judge", "finished", "another name"],
)
def test_other_namespaces_are_not(pod: Pod) -> None:
    assert noted(pod) == []


@pytest.mark.parametrize(
    "tenants", [{"moreInfrastructure": ["gpu-op*"]}, {"infrastructure": ["kube-system", "gpu-operator"]}], ids=["added", "written"]
)
def test_an_owner_who_names_it_has_said_so(tenants: dict[str, Any]) -> None:
    pod = a_pod("web", "gpu-operator", node="gpu-0")
    assert len(noted(pod)) == 1
    assert noted(pod, policy=a_policy(tenants=tenants)) == []
    extended = (*Tenants().infrastructure, "mine")
    assert len(noted(pod, policy=a_policy(tenants={"infrastructure": extended}))) == 1  # it adds to the default names


def test_an_operators_own_object_proves_its_namespace() -> None:
    assert noted(a_pod("web", "gpu-operator", node="gpu-0"), clusterpolicies=[cluster_policy("gpu-operator")]) == []


def test_what_was_not_read_is_not_guessed() -> None:
    assert noted(trouble={"pods": "Forbidden"}) == []


def test_the_runs_notes_have_it() -> None:
    scope = a_scope(nodes=NODES, pods=[a_pod("web", "kubeflow", node="gpu-0")])
    result = Result(id="FENCE-02", title="t", area="FENCE", level=Level.MUST, access=Access.READ, verdict=Verdict.PASSED)
    found = coverage_of_run(Catalogue(areas=[]), [result], {}, access=Access.READ, floor=Floor(), scope=scope)
    assert [note for note in found.notes if "kubeflow" in note]
