"""UPG-03: members of the control plane."""

import pytest

from conformance.upg.checks import check_members
from fixtures.kubernetes.models import Node, Pod
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope
from tests.tables import each_row

PLANE = {"node-role.kubernetes.io/control-plane": ""}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def a_member(part: str, node: str) -> Pod:
    made = a_pod(f"{part}-{node}", "kube-system", node=node, owner=f"Node/{node}", labels={"component": part}, status=READY)
    made.metadata.annotations = {"kubernetes.io/config.mirror": "1"}
    return made


def a_plane(count: int, zone: str = "") -> list[Node]:
    labels = {**PLANE, **({"topology.kubernetes.io/zone": zone} if zone else {})}
    nodes = [a_cpu_node(f"cp-{index}", labels=labels) for index in range(count)]
    for node in nodes:
        node.metadata.uid = f"uid-{node.name}"
    return nodes


@each_row
def test_etcd(nodes: int, etcd: int, outcome: Outcome, cause: str) -> None:
    pods = [a_member("etcd", f"cp-{index}") for index in range(etcd)]
    (finding,) = check_members(a_scope(nodes=a_plane(nodes), pods=pods))
    assert (finding.outcome, finding.cause) == (outcome, cause)


@pytest.mark.parametrize(("count", "outcome"), [(1, Outcome.BAD), (2, Outcome.OK)])
def test_api_servers(count: int, outcome: Outcome) -> None:
    (finding,) = check_members(a_scope(nodes=a_plane(count), pods=[a_member("kube-apiserver", f"cp-{index}") for index in range(count)]))
    assert finding.outcome is outcome


def test_members_in_one_zone_of_several_are_named() -> None:
    nodes = [a_node(f"gpu-{zone}", labels={"topology.kubernetes.io/zone": zone}) for zone in "ab"]
    pods = [a_member("etcd", f"cp-{index}") for index in range(3)]
    (finding,) = check_members(a_scope(nodes=[*nodes, *a_plane(3, "a")], pods=pods))
    assert (finding.outcome, finding.cause) == (Outcome.ADVISED, "ControlPlaneInOneZone")


def test_k3s_labels_its_members() -> None:
    nodes = [a_cpu_node(f"cp-{index}", labels={**PLANE, "node-role.kubernetes.io/etcd": "true"}) for index in range(3)]
    (finding,) = check_members(a_scope(nodes=nodes))
    assert finding.outcome is Outcome.OK


@pytest.mark.parametrize("pods", [[], [a_pod("etcd-0", "team-a", labels={"component": "etcd"}, node="cp-0")]], ids=["none", "a tenant's"])
def test_a_managed_control_plane_is_not_judged(pods: list[Pod]) -> None:
    with pytest.raises(NotApplicable):
        list(check_members(a_scope(nodes=a_plane(3), pods=pods)))
