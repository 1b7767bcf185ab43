import json
from typing import Any

import pytest

from conformance.net.advertising import check_advertised, check_attachments, fabric_nodes
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_node, a_scope

NFD = "feature.node.kubernetes.io/pci-15b3.present"


def a_nic_policy(*resources: str, affinity: Json | None = None, config: str = "") -> Json:
    entries = [{"resourceName": name.partition("/")[2], "resourcePrefix": name.partition("/")[0]} for name in resources]
    spec: Json = {"rdmaSharedDevicePlugin": {"config": config or json.dumps({"configList": entries})}}
    if affinity:
        spec["nodeAffinity"] = affinity
    return {"metadata": {"name": "nic-cluster-policy"}, "spec": spec, "status": {"state": "ready"}}


def an_rdma_node(name: str = "gpu-0", **resources: str) -> Node:
    found = {f"rdma/{key}": value for key, value in resources.items()}
    return a_node(name, labels={NFD: "true"}, capacity=found)


def judged(*nodes: Node, policy: Json | None = None, **more: Any) -> dict[str, Finding]:
    policies = [policy] if policy else []
    return {finding.subject.name: finding for finding in check_advertised(a_scope(nodes=nodes, nicclusterpolicies=policies, **more))}


def test_a_configuration_that_cannot_be_read_does_not_conform() -> None:
    found = judged(a_node(), policy=a_nic_policy(config="{"))
    assert found["nic-cluster-policy"].outcome is Outcome.BAD


@pytest.mark.parametrize(("made", "outcome"), [("2026-09-21T14:10:00Z", Outcome.UNDECIDED), ("2026-09-20T14:10:00Z", Outcome.BAD)])
def test_a_configuration_that_was_just_made_need_not_be_advertised_yet(made: str, outcome: Outcome) -> None:
    policy = a_nic_policy("rdma/a")
    policy["metadata"]["creationTimestamp"] = made
    assert judged(a_node(), policy=policy)["rdma/a"].outcome is outcome


def test_machines_of_another_kind_may_offer_another_entry_of_the_configuration() -> None:
    a = a_node("a-0", labels={NFD: "true"}, capacity={"rdma/a": "8"}, product="A")
    b = a_node("b-0", labels={NFD: "true"}, capacity={"rdma/b": "8"}, product="B")
    b_without = a_node("b-1", labels={NFD: "true"}, product="B")
    found = judged(a, b, b_without, policy=a_nic_policy("rdma/a", "rdma/b"))
    assert [found[name].outcome for name in ("a-0", "b-0", "b-1")] == [Outcome.OK, Outcome.OK, Outcome.BAD]


def test_without_a_policy_machines_of_one_kind_are_compared_and_none_passes() -> None:
    found = judged(an_rdma_node("gpu-0", a="8"), an_rdma_node("gpu-1"))
    assert found["gpu-0"].outcome is Outcome.NOT_JUDGED
    assert "no NicClusterPolicy says" in found["gpu-0"].message
    assert found["gpu-1"].outcome is Outcome.BAD


def test_nics_without_any_configuration_are_not_judged() -> None:
    assert judged(an_rdma_node())["gpu-0"].outcome is Outcome.NOT_JUDGED


def test_nodes_without_accelerator_that_advertise_nothing_are_not_judged() -> None:
    plain = a_cpu_node("cpu-0", labels={NFD: "true"})
    found = judged(an_rdma_node(a="8"), plain, policy=a_nic_policy("rdma/a"))
    assert found["cpu-0"].outcome is Outcome.NOT_JUDGED


def test_nodes_that_are_not_ready_or_left_out_are_not_judged() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    }
    down = a_node("gpu-1", labels={NFD: "true", "zone": "a"}, ready=False)
    other = a_node("gpu-2", labels={NFD: "true"})
    chosen = a_node("gpu-3", labels={"zone": "a"}, capacity={"rdma/a": "8"})
    bare = a_node("gpu-4", labels={"zone": "a"})
    found = judged(down, other, chosen, bare, policy=a_nic_policy("rdma/a", affinity=affinity))
    assert [found[f"gpu-{index}"].outcome for index in range(1, 5)] == [Outcome.NOT_JUDGED, Outcome.NOT_JUDGED, Outcome.OK, Outcome.BAD]


def test_affinity_that_only_excludes_chooses_no_node() -> None:
    expression = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    scope = a_scope(nodes=[a_cpu_node(), an_rdma_node(a="8")], nicclusterpolicies=[a_nic_policy("rdma/a", affinity=affinity)])
    assert [entry.node.name for entry in fabric_nodes(scope)] == ["gpu-0"]


# -- attachments --


def an_attachment(resource: object = None, name: str = "rdma-net") -> Json:
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource} if resource is not None else None
    return {"metadata": {"name": name, "namespace": "team-a", "annotations": annotations}}


def attachments(scope: Scope) -> list[Outcome]:
    return [finding.outcome for finding in check_attachments(scope)]


def scope_with(*items: Json, **resources: str) -> Scope:
    return a_scope(nodes=[an_rdma_node(**resources), a_cpu_node()], network_attachment_definitions=items)


def test_a_resource_of_zero_units_is_not_advertised() -> None:
    assert attachments(scope_with(an_attachment("rdma/a"), a="0")) == [Outcome.BAD]


@pytest.mark.parametrize("resource", [None, "", 7, ["rdma/a"]])
def test_an_attachment_that_names_no_resource_is_not_judged(resource: object) -> None:
    assert attachments(scope_with(an_attachment(resource))) == [Outcome.NOT_JUDGED]
