"""ADV-01, ADV-02 and DRA-03 where devices are offered through DRA: incomplete, classless, tainted, lost, and what only looks like it."""

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.adv.checks import check_advertised, check_allocatable
from conformance.dra.devices import check_devices
from conformance.inv.judged_nodes import check_agreement
from fixtures.kubernetes.models import Json, Node
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Outcome
from tests.adv.built import outcomes, verdict
from tests.builders import NFD, a_cpu_node, a_node, a_policy, a_scope
from tests.dra import a_class, a_device, a_slice
from tests.tables import each_row

XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
H100 = "NVIDIA-H100-80GB-HBM3"


def a_dra_node(name: str = "gpu-0", **labels: str) -> Node:
    return a_node(name, capacity={"nvidia.com/gpu": "0"}, labels={key.replace("__", "/"): value for key, value in labels.items()})


def judged(slices: list[Json], *, nodes: list[Node] | None = None, policy: Policy | None = None, **items: Any) -> dict[str, str]:
    """Verdicts of ADV-01, ADV-02 and DRA-03 by their last digit."""
    scope = a_scope(policy, **{"nodes": nodes or [a_dra_node()], "resourceslices": slices, "deviceclasses": [a_class()], **items})
    checks = {"1": check_advertised, "2": check_allocatable, "3": check_devices}
    return {number: verdict(check(scope)) for number, check in checks.items()}


@each_row
def test_devices_that_no_claim_can_get_are_not_advertised(slices: list[Json], classes: list[Json]) -> None:
    assert judged([a_slice(**one) for one in slices], deviceclasses=[a_class(**one) for one in classes])["1"] == "failed"


def test_an_incomplete_pool_is_another_requirement_s() -> None:
    assert judged([a_slice("gpu-0", devices=4, slices=2)])["1"] == "not_applicable"
    assert judged([a_slice("gpu-0", devices=4), a_slice("gpu-0", devices=4, generation=2, slices=2)])["1"] == "not_applicable"


@each_row
def test_a_device_that_its_driver_calls_ill_is_not_allocatable(health: Json, word: str) -> None:
    device = a_device("gpu-1")
    assert judged([a_slice("gpu-0", devices=[{**device, "attributes": {**device["attributes"], **health}}])])["2"] == word


def test_devices_that_only_one_node_can_reach_are_its_own() -> None:
    def selecting(**term: object) -> Json:
        found = a_slice("gpu-0", devices=4)
        del found["spec"]["nodeName"]
        return {**found, "spec": {**found["spec"], "nodeSelector": {"nodeSelectorTerms": [term]}}}

    field: Json = {"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}
    assert judged([selecting(matchFields=[field])])["1"] == "passed"
    assert judged([selecting(matchExpressions=[{**field, "key": "kubernetes.io/hostname"}])])["1"] == "passed"
    assert judged([selecting(matchExpressions=[{**field, "key": "rack", "values": ["r1", "r2"]}])])["1"] == "failed"
    each = a_slice("gpu-0", devices=[a_device("gpu-0", nodeName="gpu-0"), a_device("gpu-1", nodeName="gpu-9")])
    del each["spec"]["nodeName"]
    scope = a_scope(nodes=[a_dra_node()], resourceslices=[each])
    assert [len(scope.dra_inventory[name][0].devices) for name in ("gpu-0", "gpu-9")] == [1, 1]


@each_row
def test_a_rule_taints_the_devices_that_it_selects(selector: Mapping[str, str] | None, word: str) -> None:
    rule = {"metadata": {"name": "drain"}, "spec": {"deviceSelector": selector, "taint": XID}}
    assert judged([a_slice("gpu-0", devices=2)], devicetaintrules=[rule])["2"] == word


OLD, YOUNG = "2026-09-19T14:13:20Z", "2026-09-21T14:12:20Z"  # two days and a minute before the snapshot


@each_row
def test_a_rule_of_a_moment_ago_is_a_repair_under_way(times: list[str], word: str) -> None:
    """Whoever takes devices out for a repair writes a rule: before, that failed at once."""
    spec = {"deviceSelector": {"pool": "gpu-0"}, "taint": XID}
    rules = [{"metadata": {"name": f"drain-{n}", "creationTimestamp": time}, "spec": spec} for n, time in enumerate(times)]
    assert judged([a_slice("gpu-0", devices=2)], devicetaintrules=rules)["2"] == word
    stamped = {"metadata": {"name": "drain", "creationTimestamp": YOUNG}, "spec": {**spec, "taint": {**XID, "timeAdded": OLD}}}
    assert judged([a_slice("gpu-0", devices=2)], devicetaintrules=[stamped])["2"] == "failed"


def test_a_young_rule_says_when_to_ask_again_and_hides_no_fault() -> None:
    rule = {"metadata": {"name": "drain", "creationTimestamp": YOUNG}, "spec": {"deviceSelector": {"pool": "gpu-0"}, "taint": XID}}
    (found,) = check_allocatable(
        a_scope(nodes=[a_dra_node()], resourceslices=[a_slice("gpu-0", devices=2)], devicetaintrules=[rule], deviceclasses=[a_class()])
    )
    assert "2 of 2 devices of gpu.nvidia.com are out of service by DeviceTaintRule drain" in found.message
    assert "for 60 s; ask again in 23 h 59 min" in found.message
    ill = a_device("gpu-1", taints=[XID])
    assert judged([a_slice("gpu-0", devices=[a_device("gpu-0"), ill])], devicetaintrules=[rule])["2"] == "failed"


def test_the_owner_knows_how_many_there_are_also_without_labels() -> None:
    bare = a_cpu_node("gpu-0")
    policy = a_policy(advertisement={"devicesPerNode": {H100: 8}})
    assert judged([a_slice("gpu-0", devices=7)], nodes=[bare], policy=policy)["3"] == "failed"
    assert judged([a_slice("gpu-0", devices=8)], nodes=[bare], policy=policy)["3"] == "passed"
    spaced = a_policy(advertisement={"devicesPerNode": {"NVIDIA H100*": 8}})
    assert judged([a_slice("gpu-0", devices=7)], nodes=[bare], policy=spaced)["3"] == "failed"


@each_row
def test_machines_of_one_kind_have_the_same_devices(labels: dict[str, str], expected: dict[str, str]) -> None:
    nodes = [a_dra_node(f"gpu-{index}", **labels) for index in range(3)]
    slices = [a_slice("gpu-0", devices=1), a_slice("gpu-1", devices=1), a_slice("gpu-2", devices=4)]
    scope = a_scope(nodes=nodes, resourceslices=slices, deviceclasses=[a_class()])
    assert {name: one for name, one in outcomes(check_devices(scope)).items() if name in expected} == expected


@pytest.mark.parametrize("count", [("label", "nvidia.com__gpu.count"), ("cloud", "cloud.google.com__gke-accelerator-count")])
def test_machines_of_any_size_are_believed_what_their_labels_count(count: tuple[str, str]) -> None:
    kind = {"node.kubernetes.io__instance-type": "n1-standard-8" if count[0] == "label" else "a2-highgpu"}
    nodes = [a_dra_node("gpu-0", **kind, **{count[1]: "1"}), a_dra_node("gpu-1", **kind, **{count[1]: "4"})]
    assert judged([a_slice("gpu-0", devices=1), a_slice("gpu-1", devices=4)], nodes=nodes)["3"] == "passed"


def test_one_machine_that_nobody_counts_is_not_judged() -> None:
    scope = a_scope(nodes=[a_dra_node()], resourceslices=[a_slice("gpu-0", devices=3)])
    assert outcomes(check_devices(scope)) == {"gpu-0 devices": "not_judged", "gpu-0 gpu.nvidia.com": "ok"}


def test_partitions_of_amd_count_their_parents() -> None:
    parts = [
        {
            "name": f"p{n}",
            "attributes": {"type": {"string": "amdgpu-partition"}, "resource.kubernetes.io/pciBusID": {"string": f"0000:{n // 8}"}},
        }
        for n in range(16)
    ]
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0", "gpu.amd.com", parts)])
    assert scope.dra_inventory["gpu-0"][0].whole == 2


def test_a_driver_that_publishes_nothing_for_its_node_disagrees_with_itself() -> None:
    nodes = [a_cpu_node("gpu-0"), a_cpu_node("gpu-1"), a_cpu_node("cpu-0")]
    scope = a_scope(nodes=nodes, resourceslices=[a_slice("gpu-0", devices=4), a_slice("gpu-1", devices=0)])
    found = {finding.subject.name: str(finding.outcome) for finding in check_agreement(scope)}
    assert found["gpu-1"] == "bad"
    assert "cpu-0" not in found


_LABELLED = {NFD: "true", "nvidia.com/gpu.product": "NVIDIA-H100"}


def test_what_is_reported_of_a_node_with_nothing_but_a_pool_that_several_nodes_reach_is_true() -> None:
    bare = a_node("gpu-0", gpus=0, labels=_LABELLED)
    remote = a_slice("gpu-0", pool="rack")
    del remote["spec"]["nodeName"]
    remote["spec"]["allNodes"] = True
    scope = a_scope(nodes=[bare], deviceclasses=[a_class()], resourceslices=[remote])
    for (finding,) in (check_advertised(scope), check_agreement(scope)):
        assert finding.outcome is Outcome.BAD
        assert "devices of gpu.nvidia.com in pool rack" in finding.message
        assert "no pod that asks" not in finding.message
        assert "cannot be scheduled" not in finding.message
    other = a_scope(nodes=[bare], resourceslices=[{**remote, "spec": {**remote["spec"], "driver": "gpu.intel.com"}}])
    assert "its devices cannot be scheduled" in next(check_agreement(other)).message
