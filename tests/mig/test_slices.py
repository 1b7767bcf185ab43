from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from conformance.mig.checks import check_applied, check_geometry, check_mixed, check_off, check_single
from conformance.mig.probes import absent_profile, chosen, is_made_on_demand, profile_selector, slices
from fixtures.kubernetes.models import ConfigMap, Json, Meta, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.mig_layouts import PartedError, parse, requested
from fixtures.model.devices.mig_nodes import mig_nodes
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.adv.built import outcomes, verdict
from tests.builders import a_cpu_node, a_node, a_policy, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.tables import each_row

A100 = "NVIDIA-A100-SXM4-40GB"
H100 = "NVIDIA-H100-80GB-HBM3"
PARTED = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  all-1g: [{device-filter: ["0x20B010DE"], devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}},
           {device-filter: ["0x233010DE"], devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  half:
    - {devices: [0, 1, 2, 3], mig-enabled: false}
    - {devices: [4, 5, 6, 7], mig-enabled: true, mig-devices: {3g.20gb: 2}}
"""


def single(count: int = 56, units: int = 56, config: str = "all-1g", product: str = f"{H100}-MIG-1g.10gb", **labels: str) -> Node:
    own = {
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/mig.config": config,
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.replicas": "1",
        **{f"nvidia.com/{key.replace('__', '.')}": value for key, value in labels.items()},
    }
    return a_node(labels=own, capacity={"nvidia.com/gpu": str(units)}, product=product)


def mixed(
    layout: Mapping[str, int], config: str = "all-1g", units: Mapping[str, int] | None = None, whole: int = 0, replicas: str = "0"
) -> Node:
    own = {
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig.config": config,
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.replicas": replicas,
    }
    for profile, count in layout.items():
        prefix = f"nvidia.com/mig-{profile}"
        own |= {f"{prefix}.count": str(count), f"{prefix}.replicas": "1", f"{prefix}.product": f"{A100}-MIG-{profile}"}
    offered = {f"nvidia.com/mig-{profile}": str(count) for profile, count in (layout if units is None else units).items()}
    return a_node(labels=own, capacity={"nvidia.com/gpu": str(whole), **offered}, product=A100)


def parted(text: str = PARTED, name: str = "default-mig-parted-config", namespace: str = "gpu-operator") -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=namespace), data={"config.yaml": text})


# -- MIG-02


@each_row
def test_strategy_single(node: Node, wanted: str) -> None:
    assert verdict(check_single(a_scope(nodes=[node]))) == wanted


def test_strategy_single_offers_no_profile_by_name() -> None:
    node = single()
    node.status.capacity["nvidia.com/mig-1g.10gb"] = "7"
    (finding,) = check_single(a_scope(nodes=[node]))
    assert finding.outcome is Outcome.BAD
    assert "does not offer" in finding.message


# -- MIG-03


def test_strategy_mixed_counts_devices_times_config() -> None:
    assert verdict(check_mixed(a_scope(nodes=[mixed({"1g.5gb": 56})], configmaps=[parted()]))) == "passed"
    assert verdict(check_mixed(a_scope(nodes=[mixed({"1g.5gb": 55})], configmaps=[parted()]))) == "failed"
    assert verdict(check_mixed(a_scope(nodes=[mixed({"1g.5gb": 56}, units={"1g.5gb": 50})], configmaps=[parted()]))) == "failed"
    assert verdict(check_mixed(a_scope(nodes=[mixed({"3g.40gb": 16})]))) == "failed"
    assert verdict(check_mixed(a_scope(nodes=[mixed({}, units={"1g.wild": 3})]))) == "failed"


def test_whole_devices_are_counted_once() -> None:
    cut = mixed({"3g.20gb": 8}, config="half", whole=4, replicas="1")
    assert verdict(check_mixed(a_scope(nodes=[cut], configmaps=[parted()]))) == "passed"
    twice = mixed({"3g.20gb": 8}, config="half", whole=8, replicas="1")
    assert outcomes(check_mixed(a_scope(nodes=[twice], configmaps=[parted()])))["gpu-0 nvidia.com/gpu"] == "bad"
    assert outcomes(check_mixed(a_scope(nodes=[mixed({"1g.5gb": 56}, whole=8)])))["gpu-0 nvidia.com/gpu"] == "bad"


# -- MIG-04


def test_geometry_must_fit_the_devices() -> None:
    assert verdict(check_geometry(a_scope(nodes=[mixed({"3g.20gb": 16})]))) == "passed"
    assert verdict(check_geometry(a_scope(nodes=[mixed({"3g.20gb": 16, "1g.5gb": 1})]))) == "failed"
    assert verdict(check_geometry(a_scope(nodes=[mixed({"1g.5gb": 64})]))) == "failed"
    assert verdict(check_geometry(a_scope(nodes=[mixed({"3g.40gb": 16})]))) == "not_applicable"


def test_strategy_single_needs_somebody_who_counts_devices() -> None:
    assert verdict(check_geometry(a_scope(nodes=[single()]))) == "not_applicable"
    known = a_policy(advertisement={"devicesPerNode": {H100: 8}})
    assert verdict(check_geometry(a_scope(known, nodes=[single()]))) == "passed"
    assert verdict(check_geometry(a_scope(known, nodes=[single(count=57, units=57)]))) == "failed"


# -- MIG-05


@each_row
def test_the_layout_is_the_requested_one(node: Node, wanted: str) -> None:
    assert verdict(check_applied(a_scope(nodes=[node], configmaps=[parted()]))) == wanted


def test_a_node_of_its_own_comes_first_and_tenants_maps_do_not_count() -> None:
    own = parted("mig-configs: {all-1g: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2}}]}", "gpu-0-mig-config")
    node = mixed({"1g.5gb": 16})
    assert verdict(check_applied(a_scope(nodes=[node], configmaps=[parted(), own]))) == "passed"
    tenant = parted(own.data["config.yaml"] if own.data else "", "gpu-0-mig-config", "team-a")
    assert verdict(check_applied(a_scope(nodes=[node], configmaps=[parted(), tenant]))) == "failed"


def test_without_a_config_map_standard_names_are_known_and_pass_nothing() -> None:
    (finding,) = check_applied(a_scope(nodes=[mixed({"1g.5gb": 56}, config="all-1g.5gb")]))
    assert finding.outcome is Outcome.NOT_JUDGED
    assert "the ConfigMap that the node's manager reads was not found" in finding.message
    assert verdict(check_applied(a_scope(nodes=[mixed({"1g.5gb": 28}, config="all-1g.5gb")]))) == "failed"
    assert verdict(check_applied(a_scope(nodes=[mixed({"1g.5gb": 56}, config="my-own")]))) == "inconclusive"
    assert verdict(check_applied(a_scope(nodes=[single()], configmaps=[parted("mig-configs: [")]))) == "inconclusive"


# -- MIG-06


def test_nothing_of_mig_is_left_where_it_is_off() -> None:
    assert verdict(check_off(a_scope(nodes=[a_node()]))) == "passed"
    assert verdict(check_off(a_scope(nodes=[a_node(capacity={"nvidia.com/mig-1g.10gb": "0"})]))) == "passed"
    assert verdict(check_off(a_scope(nodes=[a_node(capacity={"nvidia.com/mig-1g.10gb": "7"})]))) == "failed"
    assert verdict(check_off(a_scope(nodes=[a_node(labels={"nvidia.com/mig-1g.10gb.count": "7"})]))) == "failed"
    assert verdict(check_off(a_scope(nodes=[single(config="all-disabled")]))) == "failed"
    assert verdict(check_off(a_scope(nodes=[single(), mixed({"1g.5gb": 56})]))) == "not_applicable"
    assert verdict(check_off(a_scope(nodes=[a_node(resource="amd.com/gpu", labels={"nvidia.com/gpu.product": ""})]))) == "not_applicable"


# -- the file of mig-parted


def test_entries_are_chosen_by_product() -> None:
    configs = parse(PARTED)
    found = requested(configs, "all-1g", H100)
    assert found is not None
    assert found.total(8) == {"1g.10gb": 56}
    assert requested(configs, "all-1g", "NVIDIA-A30") is None
    half = requested(configs, "half", A100)
    assert half is not None
    assert half.total(8) == {"3g.20gb": 8}
    unknown = parse('mig-configs: {x: [{device-filter: "0xFFFF10DE", devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]}')
    assert requested(unknown, "x", A100) is not None
    assert requested(unknown, "x", H100) is None


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "mig-configs: 3",
        "mig-configs: {a: 1}",
        "mig-configs: {a: [1]}",
        "mig-configs: {a: [{devices: some}]}",
        "x" * 2_000_000,
        "a: [",
    ],
)
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PartedError):
        parse(text)


# -- clusters without discovery, or without a device plugin


def test_slices_without_any_label_are_no_leftover() -> None:
    bare = a_node(gpus=0, capacity={"nvidia.com/mig-1g.10gb": "7"})
    assert verdict(check_off(a_scope(nodes=[bare]))) == "not_applicable"


@pytest.mark.parametrize("check", [check_single, check_mixed])
@pytest.mark.parametrize("node", [single(units=0), mixed({"1g.5gb": 56}, units={})])
def test_slices_that_dra_offers_are_not_the_plugin_s(check: Callable[[Scope], Iterator[Finding]], node: Node) -> None:
    devices = [{"name": f"mig-{index}", "attributes": {"type": {"string": "mig"}}} for index in range(56)]
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-0", "pool": pool, "devices": devices}}]
    assert verdict(check(a_scope(nodes=[node], resourceslices=slices))) == "not_applicable"


# -- MIG devices that are offered to claims: which slots a probe asks for


_GPU = a_class(expression="device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'")
_CLASS = a_class("mig.nvidia.com", expression="device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'")


def part(name: str, profile: str, **more: Any) -> Json:
    device = a_device(name, kind="mig", **more)
    device["attributes"] |= {"profile": {"string": profile}, "parentUUID": {"string": "GPU-0"}}
    return device


def scope_of(*devices: Json, claims: list[Json] | None = None) -> Scope:
    nodes = [a_cpu_node("gpu-0"), a_cpu_node("gpu-1")]
    slices = [a_slice("gpu-0", devices=devices), a_slice("gpu-1", devices=[a_device("gpu-0")])]
    return a_scope(nodes=nodes, resourceslices=slices, deviceclasses=[_CLASS, _GPU], resourceclaims=claims or [])


CUT = (part("a", "1g.10gb"), part("b", "1g.10gb"), part("c", "3g.40gb"))


def test_a_slice_that_a_claim_holds_is_not_free() -> None:
    found = slices(scope_of(*CUT, claims=[a_claim("x", device="a")]))
    assert [(slot.product, slot.free) for slot in found] == [("1g.10gb", 1), ("3g.40gb", 1)]


@pytest.mark.parametrize("lacks", ["", "productName"])
def test_whole_devices_are_no_slices(lacks: str) -> None:
    device = a_device("gpu-0")
    device["attributes"].pop(lacks, None)
    pool = a_slice("gpu-0", devices=[device])
    with pytest.raises(NotApplicable):
        chosen(a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[pool], deviceclasses=[_CLASS, _GPU], resourceclaims=[]))


def test_a_slice_without_a_profile_is_not_asked_for() -> None:
    with pytest.raises(NotApplicable):
        chosen(scope_of(a_device("a", kind="mig")))


def test_the_absent_profile_is_not_published() -> None:
    scope = scope_of(*(part(f"p{index}", profile) for index, profile in enumerate(("1g.5gb", "1g.10gb", "1g.12gb"))))
    assert absent_profile(scope, list(mig_nodes(scope)), scope.accelerator_nodes[0]) == "1g.18gb"


def test_a_profile_is_asked_for_by_a_selector() -> None:
    assert profile_selector("1g.10gb") == 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'


def test_partitions_that_share_counters_are_made_on_demand() -> None:
    counters = [{"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": "10Gi"}}}]
    dynamic = (part("a", "1g.10gb", consumesCounters=counters), part("b", "3g.40gb", consumesCounters=counters))
    assert [is_made_on_demand(slot) for slot in slices(scope_of(*dynamic))] == [True, True]
    assert [is_made_on_demand(slot) for slot in slices(scope_of(*CUT))] == [False, False]
