import json
from collections.abc import Sequence

import msgspec
import pytest

from conformance.adv.checks import check_advertised, check_allocatable, check_arithmetic, check_health_of_held, check_one_route
from conformance.adv.enumerated import check_unknown, enumerated
from conformance.adv.labels import check_labels
from conformance.adv.node_configs import check_configs
from conformance.probes.node_documents import NodeDocument, Unread
from conformance.share.checks import check_isolated
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import subject
from fixtures.model.devices.counts import TIMES
from fixtures.nodeprobe.document import Device, Driver, Host, Partitions, PciFunction, Way
from fixtures.verdict.findings import Outcome, undecided
from fixtures.verdict.subjects import NotApplicable
from tests.adv.built import outcomes, verdict
from tests.builders import NFD, a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.hw.documents import a_document, of_driver
from tests.nodeprobe.tables import MACHINES, Table
from tests.tables import each_row

COUNT, REPLICAS = "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
AMD = {"feature.node.kubernetes.io/amd-gpu": "true", "amd.com/gpu.product-name": "Instinct_MI300X"}


def a_slice(node: str, devices: int = 8, driver: str = "gpu.nvidia.com", generation: int = 1, kind: str = "gpu") -> Json:
    listed = [{"name": f"gpu-{index}", "attributes": {"type": {"string": kind}}} for index in range(devices)]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{driver}-{generation}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": listed},
    }


def amd_node(partition: str, units: int, **labels: str) -> object:
    own = {**AMD, "amd.com/gpu.compute-memory-partition": partition, **labels}
    return a_node(
        "mi300x-0", gpus=units, resource="amd.com/gpu", labels={**own, "nvidia.com/gpu.present": "", NFD: "", "nvidia.com/gpu.product": ""}
    )


def arithmetic(node: object, **policy: object) -> list[tuple[Outcome, str]]:
    scope = a_scope(a_policy(advertisement=policy) if policy else None, nodes=[node])
    return [(finding.outcome, finding.observed) for finding in check_arithmetic(scope)]


# -- ADV-01


def test_a_mixed_node_must_offer_every_profile_it_labels() -> None:
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "7", "nvidia.com/mig-1g.10gb.replicas": "1"}
    node = a_node(labels={**labels, COUNT: "1", REPLICAS: "0"}, capacity={"nvidia.com/gpu": "8"})
    (finding,) = check_advertised(a_scope(nodes=[node]))
    assert finding.outcome is Outcome.BAD
    assert "nvidia.com/mig-1g.10gb" in finding.message


def test_nodes_that_offer_nothing_on_purpose_are_not_judged() -> None:
    zero = {"nvidia.com/gpu": "0"}
    nodes = [
        a_node("vm", capacity=zero, labels={"nvidia.com/gpu.workload.config": "vm-passthrough"}),
        a_node("opted-out", capacity=zero, labels={"nvidia.com/gpu.deploy.operands": "false"}),
        a_node("changing", capacity=zero, labels={"nvidia.com/mig.config.state": "pending"}),
    ]
    assert outcomes(check_advertised(a_scope(nodes=nodes))) == {
        "vm": "not_judged",
        "opted-out": "not_judged",
        "changing": "undecided",
    }
    assert verdict(check_advertised(a_scope(nodes=[a_cpu_node()]))) == "not_applicable"


# -- ADV-02


def test_allocatable_below_and_above_capacity_are_both_faults() -> None:
    low = a_node("low", allocatable={"nvidia.com/gpu": "7"})
    high = a_node("high", allocatable={"nvidia.com/gpu": "9"})
    messages = {f.subject.name: f.message for f in check_allocatable(a_scope(nodes=[a_node(), low, high]))}
    assert "1 of 8" in messages["low nvidia.com/gpu"]
    assert "not there" in messages["high nvidia.com/gpu"]
    assert messages["gpu-0 nvidia.com/gpu"] == ""


# -- ADV-03


def test_the_owner_knows_of_a_device_that_nobody_sees() -> None:
    node = a_node(gpus=7, labels={COUNT: "7", REPLICAS: "1"})
    assert [outcome for outcome, _ in arithmetic(node)] == [Outcome.OK]
    assert Outcome.BAD in [outcome for outcome, _ in arithmetic(node, devicesPerNode={"*H100*": 8})]


def test_without_labels_a_cloud_or_the_policy_counts() -> None:
    assert arithmetic(a_node()) == [(Outcome.NOT_JUDGED, "")]
    assert arithmetic(a_node(), devicesPerNode={"NVIDIA-H100*": 8})[0][0] is Outcome.OK
    cloud = {"karpenter.k8s.aws/instance-gpu-count": "8"}
    assert arithmetic(a_node(gpus=7, labels=cloud))[0][0] is Outcome.BAD
    assert arithmetic(a_node(gpus=32, labels=cloud))[0] == (Outcome.OK, f"nvidia.com/gpu 32 = 8 {TIMES} 4")


def test_a_type_of_which_its_cloud_counts_no_device_says_nothing() -> None:
    """EC2's catalogue has 0 GPUs for p5.4xlarge and g6f: before, a healthy node with one contradicted it."""
    for key in ("karpenter.k8s.aws/instance-gpu-count", "eks.amazonaws.com/instance-gpu-count"):
        healthy = a_node(gpus=1, labels={COUNT: "1", REPLICAS: "1", key: "0"})
        assert arithmetic(healthy) == [(Outcome.OK, f"nvidia.com/gpu 1 = 1 {TIMES} 1")]
        lost = a_node(gpus=7, labels={COUNT: "7", REPLICAS: "1", key: "8"})
        assert Outcome.BAD in [outcome for outcome, _ in arithmetic(lost)]
    counted = a_node(gpus=1, labels={COUNT: "1", REPLICAS: "1", "gpu.intel.com/device.count": "0"})
    assert Outcome.BAD in [outcome for outcome, _ in arithmetic(counted)], "an agent looked and found none"


@each_row
def test_gke_cuts_each_product_into_as_many_parts_as_it_has(accelerator: str, size: str, units: int) -> None:
    gke = {
        "cloud.google.com/gke-accelerator": accelerator,
        "cloud.google.com/gke-accelerator-count": "2",
        "cloud.google.com/gke-gpu-partition-size": size,
    }
    assert arithmetic(a_node(gpus=2 * units, labels=gke)) == [(Outcome.OK, f"nvidia.com/gpu {2 * units} = 2 {TIMES} {units}")]
    assert arithmetic(a_node(gpus=2 * units - 1, labels=gke))[0][0] is Outcome.BAD


def test_how_many_parts_an_unknown_product_has_is_not_guessed() -> None:
    gke = {
        "cloud.google.com/gke-accelerator": "nvidia-next",
        "cloud.google.com/gke-accelerator-count": "2",
        "cloud.google.com/gke-gpu-partition-size": "1g.10gb",  # 7 of an H100, 4 of an A100 of 40 GB
    }
    assert {outcome for units in (8, 14) for outcome, _ in arithmetic(a_node(gpus=units, labels=gke))} == {Outcome.OK}
    assert arithmetic(a_node(gpus=7, labels=gke))[0][0] is Outcome.BAD


def test_amd_partitions_multiply_devices() -> None:
    count = {"beta.amd.com/gpu.device-id.74a1": "8"}
    for partition, units in (("spx_nps1", 8), ("dpx_nps1", 16), ("qpx_nps1", 32), ("cpx_nps4", 64)):
        assert arithmetic(amd_node(partition, units, **count))[0][0] is Outcome.OK, partition
        assert arithmetic(amd_node(partition, units - 1, **count))[0][0] is Outcome.BAD, partition
    assert arithmetic(amd_node("spx_nps1", 8)) == [(Outcome.NOT_JUDGED, "")]
    assert arithmetic(amd_node("cpx_nps1", 63))[0][0] is Outcome.BAD
    assert arithmetic(amd_node("dpx_nps1", 8), devicesPerNode={"Instinct_MI300X": 8})[0][0] is Outcome.BAD


def test_a_vgpu_guest_is_not_counted() -> None:
    assert arithmetic(a_node(labels={COUNT: "1", "nvidia.com/vgpu.present": "true"})) == [(Outcome.NOT_JUDGED, "")]


# -- ADV-05


def test_one_device_by_two_routes_is_a_fault_and_a_split_is_not() -> None:
    both = a_scope(nodes=[a_node(labels={COUNT: "8", REPLICAS: "1"})], resourceslices=[a_slice("gpu-0")])
    assert verdict(check_one_route(both)) == "failed"
    split = a_scope(nodes=[a_node(gpus=4, labels={COUNT: "8", REPLICAS: "1"})], resourceslices=[a_slice("gpu-0", 4)])
    assert verdict(check_one_route(split)) == "passed"
    other = a_scope(nodes=[a_node()], resourceslices=[a_slice("gpu-0", driver="gpu.amd.com"), a_slice("gpu-0", kind="channel")])
    assert verdict(check_one_route(other)) == "passed"


def test_devices_split_between_plugin_and_dra_add_up() -> None:
    half = a_node(gpus=4, labels={COUNT: "8", REPLICAS: "1"})
    assert verdict(check_arithmetic(a_scope(nodes=[half], resourceslices=[a_slice("gpu-0", 4)]))) == "passed"
    assert verdict(check_arithmetic(a_scope(nodes=[half], resourceslices=[a_slice("gpu-0", 3)]))) == "failed"


# -- DRA drivers of other things, devices that are cut


def test_a_network_s_dra_driver_neither_excuses_nor_counts_devices() -> None:
    nics = a_slice("gpu-0", 10, driver="dra.net", kind="")
    dead = a_node(capacity={"nvidia.com/gpu": "0"}, labels={COUNT: "8", REPLICAS: "1"})
    assert verdict(check_advertised(a_scope(nodes=[dead], resourceslices=[nics]))) == "failed"
    alive = a_scope(nodes=[a_node(labels={COUNT: "8", REPLICAS: "1"})], resourceslices=[nics])
    assert verdict(check_arithmetic(alive)) == "passed"


def test_devices_for_virtual_machines_are_offered_by_another_name() -> None:
    labels = {"nvidia.com/gpu.present": "", "nvidia.com/gpu.product": ""}
    kubevirt = a_node(resource="nvidia.com/GA102GL_A10", gpus=2, labels=labels)
    assert verdict(check_advertised(a_scope(nodes=[kubevirt]))) == "not_applicable"
    assert verdict(check_arithmetic(a_scope(nodes=[kubevirt]))) == "not_applicable"
    fabric = a_node(resource="nvidia.com/sriovib", gpus=2, labels=labels)
    assert verdict(check_advertised(a_scope(nodes=[fabric]))) == "failed"
    empty = a_node(resource="nvidia.com/GA102GL_A10", capacity={"nvidia.com/GA102GL_A10": "0"}, labels=labels)
    assert verdict(check_advertised(a_scope(nodes=[empty]))) == "failed"


OLD_FORM = "".join(f"GPU-{n},10,15360,100,NVIDIA-Tesla T4,0,true:" for n in range(8))


def registered(counts: Sequence[int], **more: object) -> str:
    return json.dumps([{"id": f"GPU-{n}", "count": count, "health": True, **more} for n, count in enumerate(counts)])


@each_row
def test_hami_s_own_annotation_says_how_its_devices_are_split(text: str, units: int, wanted: str) -> None:
    labels = {COUNT: "8", REPLICAS: "1", "nvidia.com/device-plugin.config": "missing"}
    node = a_node(gpus=units, labels=labels)
    node.metadata.annotations = {"hami.io/node-nvidia-register": text}
    scope = a_scope(nodes=[node])
    assert verdict(check_arithmetic(scope)) == wanted
    assert verdict(check_configs(scope)) == "not_applicable"
    assert all("capacity of" not in finding.message for finding in check_labels(scope, 0.0))
    isolated = a_policy(tenants={"isolated": ["team-a"]}, advertisement={"maxReplicas": 10})
    shares = verdict(check_isolated(a_scope(isolated, nodes=[node], pods=[a_pod(node="gpu-0", devices=1)])))
    assert shares == ("passed" if wanted == "not_applicable" else "failed")


@pytest.mark.parametrize(("units", "wanted"), [("20", "passed"), ("18", "failed")])
def test_volcano_s_shares_are_counted_by_its_annotation_though_labels_promise_whole_devices(units: str, wanted: str) -> None:
    node = a_node(gpus=2, resource="volcano.sh/vgpu-number", capacity={"volcano.sh/vgpu-number": units}, labels={COUNT: "2", REPLICAS: "1"})
    node.metadata.annotations = {
        "volcano.sh/node-vgpu-register": "GPU-1,10,15360,NVIDIA-Tesla T4,true:GPU-2,10,15360,NVIDIA-Tesla T4,true:"
    }
    scope = a_scope(a_policy(accelerators={"resources": ["nvidia.com/gpu", "volcano.sh/vgpu-number"]}), nodes=[node])
    assert (verdict(check_arithmetic(scope)), verdict(check_advertised(scope))) == (wanted, "passed")


def test_a_count_that_only_a_label_gives_is_no_proof_of_devices() -> None:
    (finding,) = check_arithmetic(a_scope(nodes=[a_node(labels={COUNT: "4", REPLICAS: "1"})]))
    assert finding.outcome is Outcome.BAD


def test_what_says_that_a_device_is_lost_is_named() -> None:
    node = a_node(allocatable={"nvidia.com/gpu": "0"}, labels={"nvidia.com/gpu.health": "degraded"})
    ended = {"terminated": {"message": "unable to create cdi spec file: GPU-5 is lost"}}
    status = {"containerStatuses": [{"name": "p", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}]}
    volumes = [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    plugin = a_pod("nvidia-plugin", "gpu-operator", node="gpu-0", volumes=volumes, status=status)
    (finding,) = check_allocatable(a_scope(nodes=[node], pods=[plugin]))
    assert "GPU-5 is lost; the node says label nvidia.com/gpu.health=degraded" in finding.message


# -- ADV-08: devices of the driver and of the node, on four products


UUID = "GPU-00000001-1111-2222-3333-444444444444"


def given(one: NodeDocument, *, more: int = 0, uuids: bool = True, on_bus: int = 0) -> NodeDocument:
    """The document of a pod that was given what the driver has, and ``more`` units; ``on_bus`` devices are in sysfs."""
    leaves = [uuid for _, device in one.devices() for uuid in ([p.uuid for p in device.mig.devices] if device.mig else []) or [device.uuid]]
    places = [msgspec.structs.replace(place, free=len(leaves) + more, capacity=len(leaves) + more) for place in one.places]
    pci = [
        PciFunction(address=f"0000:{n:02x}:00.0", vendor="10de", device="2330", kind="accelerator", driver="nvidia") for n in range(on_bus)
    ]
    document = msgspec.structs.replace(one.document, host=Host(pci=pci))
    return msgspec.structs.replace(one, places=tuple(places), document=document, granted=frozenset(leaves if uuids else ()))


def seen(one: NodeDocument) -> tuple[str, str]:
    [finding] = enumerated(a_scope())(one)
    return str(finding.outcome), finding.cause


@pytest.mark.parametrize("uuids", [True, False])
@pytest.mark.parametrize("machine", MACHINES)
def test_devices_of_driver_and_node_are_compared_by_uuid_or_else_counted(machine: str, uuids: bool) -> None:
    whole, count = a_document(machine), int(MACHINES[machine]["count"])
    assert seen(given(whole, uuids=uuids, on_bus=0 if machine == "a100-mig" else count)) == ("ok", "")
    assert seen(given(whole, uuids=uuids, more=1)) == ("bad", "AdvertisedDeviceNotThere"), "one more was given than the driver has"
    assert seen(given(whole, uuids=uuids, on_bus=count + 1)) == (("ok", "") if machine == "a100-mig" else ("bad", "DeviceNotAdvertised"))


@each_row
def test_another_device_is_none_of_those_given(faults: Table, outcome: str, cause: str) -> None:
    granted = given(a_document()).granted
    assert seen(msgspec.structs.replace(given(a_document("h100", faults)), places=a_document().places, granted=granted)) == (outcome, cause)


@pytest.mark.parametrize(
    ("units", "given_out"), [(1, {"0xa"}), (2, set())]
)  # by a DRA driver that leaves it out, by a plugin that counts it
def test_graphics_of_a_processor_are_no_device_unless_the_node_offers_them(units: int, given_out: set[str]) -> None:
    devices = [Device(index=0, uuid="0xa"), Device(index=1, uuid="0xb", integrated=True)]
    one = of_driver(Driver(vendor="amd", way=Way.SYSFS, devices=devices))
    places = tuple(msgspec.structs.replace(place, free=units, capacity=units) for place in one.places)
    one = msgspec.structs.replace(one, places=places, granted=frozenset(given_out))
    assert (seen(one), len(list(one.devices()))) == (("ok", ""), units)


def test_a_device_that_is_cut_may_be_given_as_a_whole_or_in_parts() -> None:
    one = a_document("a100-mig")
    whole = frozenset(device.uuid for _, device in one.devices())
    places = tuple(msgspec.structs.replace(place, free=8, capacity=8) for place in one.places)
    assert seen(msgspec.structs.replace(one, places=places, granted=whole)) == ("ok", "")
    assert seen(msgspec.structs.replace(one, places=places, granted=whole | {UUID.replace("1", "9")})) == (
        "bad",
        "AdvertisedDeviceNotThere",
    )


def test_devices_on_the_bus_may_be_those_of_another_resource() -> None:
    one = given(a_document(), on_bus=16)
    scope = a_scope(nodes=[a_node("gpu-0", capacity={"nvidia.com/mig-1g.10gb": "56"})])
    both = msgspec.structs.replace(one, places=tuple(msgspec.structs.replace(p, node=scope.snapshot.nodes[0]) for p in one.places))
    assert [str(finding.outcome) for finding in enumerated(scope)(both)] == ["ok"]


def test_a_device_of_another_pod_is_named() -> None:
    one = given(a_document())
    [finding] = enumerated(a_scope())(msgspec.structs.replace(one, granted=one.granted - {UUID}))
    assert (finding.cause, UUID in finding.message) == ("AnotherDeviceThere", True)


@each_row
def test_a_runtime_that_does_not_know_the_device_tells_it(trouble: str, cause: str) -> None:
    places = a_document().places
    found = check_unknown(Unread(places=places, finding=undecided(subject(places[0].node), message="x"), trouble=trouble))
    assert (found.cause if found else "") == cause


@pytest.mark.parametrize(("count", "partition", "outcome"), [(8, "SPX", "ok"), (7, "SPX", "bad"), (8, "CPX", "not_judged")])
def test_devices_of_amd_are_counted_on_the_whole_node(count: int, partition: str, outcome: str) -> None:
    devices = [Device(index=index, partitions=Partitions(compute=partition)) for index in range(count)]
    one = of_driver(Driver(vendor="amd", way=Way.SYSFS, devices=devices))
    places = tuple(msgspec.structs.replace(place, capacity=8, free=2) for place in one.places)
    assert seen(msgspec.structs.replace(one, places=places, whole=True))[0] == outcome


class Held(msgspec.Struct, forbid_unknown_fields=True):
    """What a kubelet reports of the device of a running pod, and what is found of the pod; no outcome where nothing is judged."""

    outcome: str
    resource: str = "nvidia.com/gpu"
    health: str = "Unhealthy"
    state: Json = msgspec.field(default_factory=lambda: {"running": {}})
    leaves: bool = False


@each_row
def test_health_of_a_device_under_a_pod(held: Held) -> None:
    report = {"name": held.resource, "resources": [{"resourceID": "GPU-1", "health": held.health, "message": "xid"}]}
    statuses = [{"name": "main", "state": held.state, "allocatedResourcesStatus": [report]}]
    entries = [{"name": "gpus", "resourceClaimName": "gpus"}, {"name": "nics", "resourceClaimName": "nics"}]
    pod = a_pod(devices=1, node="gpu-0", status={"containerStatuses": statuses}, resourceClaims=entries)
    pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z" if held.leaves else None
    classes = [
        {"metadata": {"name": driver}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}}
        for driver in ("gpu.nvidia.com", "dra.net")
    ]
    claims = [
        {
            "metadata": {"name": name, "namespace": pod.namespace},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": driver}}]}},
        }
        for name, driver in (("gpus", "gpu.nvidia.com"), ("nics", "dra.net"))
    ]
    scope = a_scope(nodes=[a_node()], pods=[pod], deviceclasses=classes, resourceclaims=claims)
    if not held.outcome:
        with pytest.raises(NotApplicable):
            list(check_health_of_held(scope))
        return
    (finding,) = check_health_of_held(scope)
    assert (finding.outcome, finding.subject.node) == (Outcome(held.outcome), "gpu-0")
