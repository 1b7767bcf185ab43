"""DRA-10, and amounts of extended resources that DRA serves in REQ-03, REQ-04, REQ-05, FENCE and GANG-09."""

from typing import Any

import pytest

from conformance.dra.classes import check_extended
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted, check_whole_devices
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_pod, a_scope
from tests.dra import a_claim, a_class, a_slice
from tests.findings import about

GPU = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
OWN = "example.com/accelerator"  # no name of the policy's


def scope_of(*pods: Pod, extended: str = GPU, devices: int = 4, **items: Any) -> Scope:
    """One node with devices in its slice only."""
    known = {
        "resourceslices": [a_slice("gpu-0", devices=devices)],
        "deviceclasses": [a_class(extended=extended)],
        "resourceclaims": [],
        "resourceclaimtemplates": [],
        **items,
    }
    return a_scope(nodes=[a_cpu_node("gpu-0")], pods=list(pods), **known)


def asking(name: str = "train-0", count: int = 1, *, resource: str = GPU, claim: str = "", node: str = "gpu-0") -> Pod:
    status: Json = {"extendedResourceClaimStatus": {"resourceClaimName": claim}} if claim else {}
    return a_pod(name, devices={resource: str(count)}, node=node, status=status)


def outcomes(findings: Any) -> dict[str, Outcome]:
    return {finding.subject.name: finding.outcome for finding in findings}


# -- DRA-10 --------------------------------------------------------------------------------------------


def test_a_claim_of_fewer_devices_or_none_at_all_is_too_little() -> None:
    claims = [a_claim("c", device="gpu-0")]
    assert "is gone" in about(check_extended(scope_of(asking(claim="other"), resourceclaims=claims)), "train-0").message


def test_a_pod_that_was_bound_a_moment_ago_is_undecided() -> None:
    when = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    pod = a_pod(devices={GPU: "1"}, node="gpu-0", status=when)
    scope = scope_of(pod)
    scope.snapshot.taken_at = 1767225600.0 + 30
    assert about(check_extended(scope), pod.name).outcome is Outcome.UNDECIDED
    scope.snapshot.taken_at += 86400
    assert about(check_extended(scope), pod.name).outcome is Outcome.BAD


def test_a_class_without_devices_matters_where_pods_ask_for_it() -> None:
    assert about(check_extended(scope_of(devices=0)), "gpu.nvidia.com").outcome is Outcome.NOT_JUDGED
    assert about(check_extended(scope_of(asking(node=""), devices=0)), "gpu.nvidia.com").outcome is Outcome.BAD


def test_the_class_of_a_network_driver_and_claims_alone_are_nothing_to_judge() -> None:
    classes = [a_class("nics", "dra.net", extended="dra.net/nic"), a_class()]
    with pytest.raises(NotApplicable):
        list(check_extended(scope_of(asking(resource="dra.net/nic"), deviceclasses=classes)))


def test_a_pod_whose_node_offers_the_resource_itself_needs_no_claim() -> None:
    node = a_cpu_node("gpu-0")
    node.status.allocatable[GPU] = "8"
    scope = a_scope(nodes=[node], pods=[asking()], deviceclasses=[a_class(extended=GPU)], resourceslices=[])
    assert outcomes(check_extended(scope)) == {"gpu.nvidia.com": Outcome.OK}


# -- other rows that look at amounts -------------------------------------------------------------------


@pytest.mark.parametrize(("count", "outcome"), [(4, Outcome.OK), (5, Outcome.BAD)])
def test_pods_hold_no_more_than_the_slices_have(count: int, outcome: Outcome) -> None:
    assert about(check_not_overcommitted(scope_of(asking(count=count))), f"gpu-0 {GPU}").outcome is outcome


@pytest.mark.parametrize("resource", [GPU, IMPLICIT, OWN])
@pytest.mark.parametrize(("count", "outcome"), [(4, Outcome.OK), (5, Outcome.BAD)])
def test_a_pending_pod_is_compared_with_the_largest_node_s_slices(resource: str, count: int, outcome: Outcome) -> None:
    extended = resource if resource != IMPLICIT else GPU
    found = outcomes(check_can_be_offered(scope_of(asking(count=count, resource=resource, node=""), extended=extended)))
    assert found == {"train-0": outcome}


def test_a_pending_pod_that_names_a_class_that_does_not_exist_stays_pending() -> None:
    pod = asking(resource="deviceclass.resource.kubernetes.io/gone", node="")
    found = about(check_can_be_offered(scope_of(pod)), "train-0")
    assert found.outcome is not Outcome.OK
    assert "gone" in found.message


def test_whole_devices_are_asked_for_by_any_name_that_a_class_serves() -> None:
    pod = asking(resource=OWN)
    container = pod.spec.containers[0]
    container.resources.limits = {OWN: "2"}
    container.resources.requests = {OWN: "1"}
    assert Outcome.BAD in outcomes(check_whole_devices(scope_of(pod, extended=OWN))).values()


def test_a_class_that_is_asked_for_by_its_implicit_name_must_be_approved() -> None:
    scope = scope_of(asking(resource=IMPLICIT))
    assert outcomes(check_approved_names(scope)) == {"gpu.nvidia.com": Outcome.OK}
