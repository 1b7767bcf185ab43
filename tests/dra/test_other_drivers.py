"""Slices as drivers of AMD, Intel and networks publish them: a claim is for a device only by its driver's devices.

Facts: docs/facts/dra.md#other-drivers.
"""

from typing import Any

import pytest

from conformance.adv.checks import check_untainted
from conformance.dra.claims import check_allocations
from conformance.dra.pools import check_taints
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import DriverKind
from fixtures.model.placement.free_devices import places_of
from fixtures.verdict.findings import Outcome
from tests.builders import a_cpu_node, a_pod, a_scope
from tests.dra import a_claim, a_class, a_slice

NOW = 1_700_000_000.0
CONFLICT = {"key": "gpu.amd.com/memory-partition-conflict", "effect": "NoExecute", "timeAdded": "2023-11-01T00:00:00Z"}


def text(**attributes: str) -> Json:
    return {name.replace("__", "/").replace("_io", ".io"): {"string": value} for name, value in attributes.items()}


def amd(index: int = 0, kind: str = "amdgpu", **more: Any) -> Json:
    attributes = {**text(type=kind, deviceID="0x74a1", productName="AMD_Instinct_MI300X_OAM", partitionProfile="spx_nps1")}
    attributes["resource.kubernetes.io/pciBusID"] = {"string": f"0000:{index:02x}:00.0"}
    return {"name": f"gpu-{index}-{128 + index}", "attributes": attributes, "capacity": {"memory": {"value": "192Gi"}}, **more}


def intel(**more: Any) -> Json:
    attributes = text(model="Flex 170", family="Flex", driver="i915", pciAddress="0000:03:00.0", health="Healthy")
    attributes |= {"sriov": {"bool": True}, "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"}}
    capacity = {"memory": {"value": "14248Mi"}, "millicores": {"value": "1k"}}
    return {"name": "0000-03-00-0-0x56c0", "attributes": attributes, "capacity": capacity, **more}


def dranet() -> Json:
    names = {"ifName": "eth1", "pciAddress": "0000:41:00.0", "mac": "02:42:ac:11:00:02", "pciVendor": "Mellanox", "type": "device"}
    attributes: Json = {f"dra.net/{name}": {"string": value} for name, value in names.items()}
    return {"name": "pci-0000-41-00-0", "attributes": {**attributes, "dra.net/rdma": {"bool": True}}}


CNI = {"name": "eth0", "attributes": text(name="eth0")}
SRIOV = {"name": "0000-41-00-1", "attributes": text(deviceID="101e", vendor="15b3", pfName="eth1", pciAddress="0000:41:00.1")}
CPU = {"name": "cpudev000", "attributes": {"dra.cpu/cpuID": {"int": 0}, "dra.cpu/numaNode": {"int": 0}}}
DRIVERS = [
    ("gpu.amd.com", amd(), DriverKind.ACCELERATOR),
    ("gpu.amd.com", amd(kind="amdgpu-partition"), DriverKind.ACCELERATOR),
    ("gpu.intel.com", intel(), DriverKind.ACCELERATOR),
    ("dra.net", dranet(), DriverKind.OTHER),
    ("cni.dra.networking.x-k8s.io", CNI, DriverKind.OTHER),
    ("sriovnetwork.k8snetworkplumbingwg.io", SRIOV, DriverKind.OTHER),
    ("dra.cpu", CPU, DriverKind.OTHER),
    ("compute-domain.nvidia.com", {"name": "channel-0", "attributes": text(type="channel")}, DriverKind.OTHER),
]


def scope_of(driver: str, *devices: Json, **items: Any) -> Scope:
    slices = [a_slice("gpu-0", driver, devices)]
    return a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=slices, deviceclasses=[a_class(driver, driver)], **items)


@pytest.mark.parametrize(("driver", "device", "kind"), DRIVERS)
def test_a_driver_serves_what_it_publishes(driver: str, device: Json, kind: DriverKind) -> None:
    scope = scope_of(driver, device)
    assert scope.kind_of(driver) is kind
    assert bool(scope.accelerator_nodes) is (kind is DriverKind.ACCELERATOR)


@pytest.mark.parametrize(("driver", "device", "kind"), DRIVERS)
@pytest.mark.parametrize("allocated", [True, False])
def test_a_claim_makes_a_device_pod_only_by_its_driver(driver: str, device: Json, kind: DriverKind, allocated: bool) -> None:
    claim = a_claim("c", driver, device=device["name"] if allocated else "", device_class=driver)
    pod = a_pod("p", node="gpu-0", resourceClaims=[{"name": "own", "resourceClaimName": "c"}])
    asked = scope_of(driver, device, resourceclaims=[claim], pods=[pod]).device_demand_of(pod)
    assert (asked.devices, asked.unknown) == (kind is DriverKind.ACCELERATOR, "")


@pytest.mark.parametrize(
    ("driver", "device"), [(driver, device) for driver, device, kind in DRIVERS if kind is DriverKind.ACCELERATOR], ids=str
)
def test_probes_claim_accelerators_of_every_driver(driver: str, device: Json) -> None:
    scope = scope_of(driver, device)
    assert [(place.driver, place.free) for place in places_of(scope, scope.accelerator_nodes[0])] == [(driver, 1)]


def function(index: int, number: int, kind: str = "vfio") -> Json:
    """A virtual function of the GPU ``index``; number 0 is its physical function, offered to machines too."""
    attributes = text(type=kind, productName="AMD_Instinct_MI300X_OAM", pciAddr=f"0000:{index:02x}:{'02' if number else '00'}.{number}")
    attributes |= {"isVF": {"bool": bool(number)}} if kind == "vfio" else {}
    return {"name": f"gpu-{kind}-{8 * index + number}", "attributes": attributes, **drawing(index, 1 if number else 4)}


def drawing(index: int, slots: int) -> Json:
    return {"consumesCounters": [{"counterSet": f"pf-0000-{index:02x}-00-0-counter-set", "counters": {"vf-slots": {"value": str(slots)}}}]}


@pytest.mark.parametrize("kind", ["vfio", "amdgpu"])
@pytest.mark.parametrize("published", [True, False])
def test_virtual_functions_of_one_gpu_are_one_device(kind: str, published: bool) -> None:
    """Two GPUs with four functions each: before, they counted as ten devices."""
    functions = [function(index, number, kind) for index in (26, 27) for number in range(1, 5)]
    whole = [one for index in (26, 27) for one in (amd(index, **drawing(index, 4)), function(index, 0))] if published else []
    scope = scope_of("gpu.amd.com", *functions, *whole)
    (item,) = scope.dra_inventory["gpu-0"]
    assert (item.whole, item.allocatable) == (2, 2)
    assert all(device.is_part is (":02." in device.body.pci_address) for device in item.devices)
    held = [a_claim(f"c{number}", "gpu.amd.com", device=function(26, number, kind)["name"]) for number in (1, 2)]
    double = list(check_allocations(scope_of("gpu.amd.com", *functions, *whole, resourceclaims=held), NOW))
    assert {one.outcome for one in double} == {Outcome.OK}, "two machines may have a function each"


def test_a_function_whose_gpu_a_claim_holds_is_given_twice() -> None:
    held = [a_claim("c1", "gpu.amd.com", device="gpu-26-154"), a_claim("c2", "gpu.amd.com", device="gpu-vfio-209")]
    scope = scope_of("gpu.amd.com", amd(26, **drawing(26, 4)), function(26, 1), resourceclaims=held)
    assert Outcome.BAD in {one.outcome for one in check_allocations(scope, NOW)}


def untainted(scope: Scope) -> Outcome:
    (item,) = scope.dra_inventory["gpu-0"]
    return check_untainted(scope, scope.accelerator_nodes[0], item).outcome


def test_ways_to_cut_a_gpu_that_exclude_each_other_are_no_fault() -> None:
    scope = scope_of("gpu.amd.com", amd(0), amd(1, taints=[CONFLICT]))
    assert untainted(scope) is Outcome.OK
    assert [finding.outcome for finding in check_taints(scope, NOW)] == [Outcome.OK]


def test_a_conflict_still_keeps_a_device_from_probes() -> None:
    scope = scope_of("gpu.amd.com", amd(0), amd(1, taints=[CONFLICT]))
    assert [place.capacity for place in places_of(scope, scope.accelerator_nodes[0])] == [1]
