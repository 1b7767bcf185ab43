"""Amounts that only a scheduler counts: what shows that scheduler, and that none of them is a device."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from conformance.fence.checks import check_intruders
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.policy.model import Requests
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.dra import a_claim
from tests.findings import about
from tests.tables import each_row

SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


def marked(*marks: str) -> Node:
    """A node with annotations of a device plugin that tells its scheduler what it has."""
    node = a_node()
    node.metadata.annotations = dict.fromkeys(marks, "[]")
    return node


CHECKS: dict[str, Callable[[Scope], Iterable[Finding]]] = {
    "amounts": lambda scope: (
        one for one in (*check_not_overcommitted(scope), *check_approved_names(scope)) if "gpumem" in one.subject.name
    ),
    "intruders": check_intruders,
    "offered": check_can_be_offered,
    "approved": check_approved_names,
}


@each_row
def test_what_is_found_of_pods_that_ask_for_amounts(
    node: dict[str, Any], pods: dict[str, dict[str, Any]], snapshot: dict[str, Any], expected: dict[str, dict[str, Outcome]]
) -> None:
    """Only a scheduler counts them; anybody binds a pod by spec.nodeName, and no kubelet counts what its node lacks."""
    requests = snapshot.get("requests") or {}
    if "more" in snapshot:  # beside the usual ones
        requests = {"schedulerAmounts": [*Requests().scheduler_amounts, *snapshot["more"]]}
    template = a_workload("Deployment", "chat", {"template": {"spec": a_spec(devices=SHARE)}})
    place = marked(*node.get("marks", ()))
    place.status.capacity |= node.get("capacity", {})
    place.status.allocatable |= node.get("capacity", {})
    scope = a_scope(
        a_policy(requests=requests),
        nodes=[place],
        pods=[a_pod(name, **pod) for name, pod in pods.items()],
        trouble=snapshot.get("trouble", {}),
        deployments=[template] if "template" in snapshot else [],
    )
    assert {check: {one.subject.name: one.outcome for one in CHECKS[check](scope)} for check in expected} == expected


AMOUNTS = ("nvidia.com/priority", "nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")


@pytest.mark.parametrize("marks", [(), ("hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register")])
@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_amount_alone_is_no_device(amount: str, marks: tuple[str, ...]) -> None:
    claims: list[Json] = [{"name": "nic", "resourceClaimName": "nic"}]
    pods = [
        a_pod("alone", node="gpu-0", devices={amount: "1"}),
        a_pod("claims", node="gpu-0", devices={amount: "1"}, resourceClaims=claims),
        a_pod("elsewhere", node="gpu-0", devices={amount: "1", "volcano.sh/vgpu-number": "1"}),
        a_pod("beside", node="gpu-0", devices={amount: "1", "nvidia.com/gpu": "1"}),
        a_pod("agent", "kube-system", node="gpu-0", devices={amount: "1"}),
    ]
    nic = a_claim("nic", results=[{"request": "nic", "driver": "dra.net", "pool": "gpu-0", "device": "nic-0"}])
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[marked(*marks)], pods=pods, resourceclaims=[nic]))}
    alone = Outcome.UNDECIDED if marks and amount == "volcano.sh/vgpu-memory" else Outcome.BAD
    undecided = {"claims": Outcome.UNDECIDED, "elsewhere": Outcome.UNDECIDED}
    assert found == {"alone": alone, **undecided, "beside": Outcome.OK, "agent": Outcome.OK}


@each_row
def test_a_pod_that_asks_for_what_its_node_never_had_was_bound_by_hand(made: str | None, expected: Outcome) -> None:
    node, pod = a_node(), a_pod(node="gpu-0", devices={"amd.com/gpu": "1"})
    node.metadata.creation_timestamp, pod.metadata.creation_timestamp = "2026-01-01T00:00:00Z", made
    assert about(check_intruders(a_scope(nodes=[node], pods=[pod])), "train-0").outcome is expected


def test_a_share_that_its_node_has_lost_is_undecided() -> None:
    other = a_node("gpu-1")
    other.status.capacity["koordinator.sh/gpu"] = "800"
    pods = [
        a_pod("share", node="gpu-0", devices={"koordinator.sh/gpu": "100"}),
        a_pod("core", node="gpu-0", devices={"koordinator.sh/gpu-core": "100"}),
    ]
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[a_node(), other], pods=pods))}
    assert found == {"share": Outcome.UNDECIDED, "core": Outcome.UNDECIDED}


def test_records_that_give_more_than_a_node_has_leave_open_who_has_a_share() -> None:
    node, name = a_node(), "koordinator.sh/gpu-core"
    node.status.capacity[name] = node.status.allocatable[name] = "100"
    record = {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":60}}]}'}
    one = a_pod("one", node="gpu-0", devices={name: "60"}, annotations=record)
    other = a_pod("other", node="gpu-0", devices={name: "60"}, annotations=record)
    assert about(check_intruders(a_scope(nodes=[node], pods=[one])), "one").outcome is Outcome.OK
    found = {item.subject.name: item.outcome for item in check_intruders(a_scope(nodes=[node], pods=[one, other]))}
    assert found == {"one": Outcome.UNDECIDED, "other": Outcome.UNDECIDED}
