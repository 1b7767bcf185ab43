"""DRA-03: devices that are published twice, or without what their peers have."""

from typing import Any

import pytest

from conformance.dra.devices import check_devices
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from tests.builders import a_cpu_node, a_policy, a_scope
from tests.dra import DRIVER, a_device, a_slice
from tests.findings import by_name
from tests.tables import each_row

NODE = "gpu-0 gpu.nvidia.com"
PCI = "resource.kubernetes.io/pciBusID"


def device(name: str, *without: str, **attributes: str) -> Json:
    found = a_device(name)
    found["attributes"] |= {PCI if key == "pci" else key: {"string": value} for key, value in attributes.items()}
    for key in without:
        found["attributes"].pop(key, None)
        found["capacity"].pop(key, None)
    return found


def judged(*devices: Json, others: list[Json] | None = None) -> dict[str, Outcome]:
    scope = a_scope(
        nodes=[a_cpu_node("gpu-0"), a_cpu_node("gpu-1")], resourceslices=[a_slice("gpu-0", devices=list(devices)), *(others or [])]
    )
    return by_name(check_devices(scope))


@pytest.mark.parametrize(("second", "outcome"), [
    (device("gpu-1"), Outcome.OK),
    (device("gpu-1", uuid="GPU-gpu-0"), Outcome.BAD),
    (device("gpu-1", pci="0000:1b:00.0"), Outcome.BAD),
    (device("gpu-1", pci="0000:2a:00.0"), Outcome.OK),
    ({**device("gpu-1", uuid="GPU-gpu-0"), "consumesCounters": [{"counterSet": "gpu-0"}]}, Outcome.OK),  # partitions share theirs
    (device("vfio-0", type="vfio", uuid="GPU-gpu-0", pci="0000:1b:00.0"), Outcome.OK),  # another shape of the device
    (device("mig-0", type="mig", uuid="MIG-1", pci="0000:1b:00.0"), Outcome.OK),
])  # fmt: skip
def test_a_device_is_published_once(second: Json, outcome: Outcome) -> None:
    assert judged(device("gpu-0", pci="0000:1b:00.0"), second)[NODE] is outcome


@pytest.mark.parametrize("twice", [{"pci": "0000:1b:00.0"}, {"renderIndex": "128"}])
def test_an_address_is_a_node_s_own_whatever_its_pool_is_called(twice: dict[str, str]) -> None:
    pool = a_slice("gpu-0", devices=[device("a", **twice), device("b", **twice)], pool="rack-7")
    assert by_name(check_devices(a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[pool])))[NODE] is Outcome.BAD


COUNTERS = {"consumesCounters": [{"counterSet": "gpu-0"}]}


@each_row
def test_a_whole_device_is_not_offered_beside_its_parts(whole: Json, part: Json, outcome: Outcome) -> None:
    mig: Json = {"name": "mig-0", "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": "GPU-gpu-0"}}, **part}
    assert judged({**device("gpu-0"), **whole}, mig)[NODE] is outcome


def test_a_render_node_is_one_device() -> None:
    first, second = device("gpu-17-144", uuid="a", renderIndex="144"), device("gpu-0-128", uuid="b", renderIndex="144")
    assert judged(first, second)[NODE] is Outcome.BAD
    assert judged(first, others=[a_slice("gpu-1", devices=[second])])[NODE] is Outcome.OK


def test_a_uuid_is_one_device_of_the_cluster_and_an_address_one_of_its_node() -> None:
    same = judged(device("gpu-0"), others=[a_slice("gpu-1", devices=[device("gpu-0")])])
    assert same == {**same, NODE: Outcome.BAD, "gpu-1 gpu.nvidia.com": Outcome.BAD}
    address = [device("gpu-0", uuid="GPU-a", pci="0000:1b:00.0"), device("gpu-0", uuid="GPU-b", pci="0000:1b:00.0")]
    assert judged(address[0], others=[a_slice("gpu-1", devices=[address[1]])])[NODE] is Outcome.OK


def test_shapes_for_machines_have_the_uuids_of_their_addresses_on_every_node() -> None:
    shape, same = (device("vfio-0", type="vfio", uuid="e7af2681", pci="0000:1b:00.0") for _ in range(2))
    others = [a_slice("gpu-1", devices=[device("gpu-0", uuid="GPU-b", pci="0000:1b:00.0"), same])]
    here = device("gpu-0", uuid="GPU-a", pci="0000:1b:00.0")
    assert judged(here, shape, others=others) == {
        **judged(here, shape, others=others),
        NODE: Outcome.OK,
        "gpu-1 gpu.nvidia.com": Outcome.OK,
    }
    assert judged(here, shape, {**shape, "name": "vfio-1"})[NODE] is Outcome.BAD


@pytest.mark.parametrize(("lacking", "outcome"), [
    ("productName", Outcome.BAD), ("memory", Outcome.BAD), ("uuid", Outcome.BAD), ("brand", Outcome.ADVISED),
])  # fmt: skip
def test_a_device_has_what_its_peers_have(lacking: str, outcome: Outcome) -> None:
    peers = [device(f"gpu-{index}", brand="x") for index in range(3)]
    assert judged(*peers, device("gpu-3", lacking, **({} if lacking == "brand" else {"brand": "x"})))[NODE] is outcome


@each_row
def test_a_device_without_type_or_version_has_the_peers_of_its_pool(lacking: list[str], outcome: Outcome) -> None:
    whole = [device(f"gpu-{index}", driverVersion="580.95.5") for index in range(4)]
    for name in lacking:
        whole[3]["attributes"].pop(name, None)
        whole[3]["capacity"].pop(name, None)
    assert judged(*whole)[NODE] is outcome


@pytest.mark.parametrize(("lacking", "outcome"), [
    ("partitionProfile", Outcome.OK), ("multiprocessors", Outcome.OK), ("memory", Outcome.BAD), ("uuid", Outcome.BAD),
])  # fmt: skip
def test_devices_of_another_product_need_only_what_claims_choose_them_by(lacking: str, outcome: Outcome) -> None:
    """GPUs that can be cut are described by how; others of the same driver are not."""
    more = {"partitionProfile": "spx_nps1"}
    peers = [device(f"gpu-{index}", **more) for index in range(5)]
    others = [device(f"gpu-{index}", **more, productName="L4") for index in (8, 9)]
    for one in (*peers, *others):
        one["capacity"]["multiprocessors"] = {"value": "132"}
    for one in others:
        one["attributes"].pop(lacking, None)
        one["capacity"].pop(lacking, None)
    assert judged(*peers, *others)[NODE] is outcome
    peers[0]["attributes"].pop("partitionProfile")
    assert judged(*peers)[NODE] is Outcome.ADVISED


# -- values: dra-driver-nvidia-gpu's slices beside GPU Feature Discovery's labels --

LABELS = {"nvidia.com/gpu.memory": "81559", "nvidia.com/cuda.driver-version.full": "580.95.05"}


def like(node: str, *, memory: str = "81559Mi", version: str = "580.95.5", count: int = 2, **attributes: str) -> Json:
    devices = []
    for index in range(count):
        found = device(f"{node}-{index}", **{"driverVersion": version, "architecture": "Hopper", **attributes})
        devices.append({**found, "capacity": {"memory": {"value": memory}}})
    return a_slice(node, devices=devices)


def compared(*slices: Json, labels: dict[str, str] | None = None, policy: Any = None, joined: str = "2020-01-01T00:00:00Z") -> Outcome:
    nodes = [a_cpu_node(f"gpu-{index}", labels=LABELS if labels is None else labels) for index in range(3)]
    nodes[0].metadata.creation_timestamp = joined
    found = by_name(check_devices(a_scope(policy, nodes=nodes, resourceslices=list(slices))))
    assert {outcome for name, outcome in found.items() if name.endswith(DRIVER) and name != NODE} <= {Outcome.OK}
    return found[NODE]


UPGRADED = {**LABELS, "nvidia.com/cuda.driver-version.full": "590.44.01"}


DIFFERING_DRIVERS = a_policy(accelerators={"allowedDifferences": ["driver"]})


@each_row
def test_devices_are_published_as_their_peers_and_labels_have_them(odd: Json, more: dict[str, Any], expected: Outcome) -> None:
    assert compared(odd, like("gpu-1"), like("gpu-2"), **more) is expected


def test_an_upgraded_node_whose_label_says_so_only_warns() -> None:
    nodes = [a_cpu_node("gpu-0", labels=UPGRADED), a_cpu_node("gpu-1", labels=LABELS), a_cpu_node("gpu-2", labels=LABELS)]
    slices = [like("gpu-0", version="590.44.1"), like("gpu-1"), like("gpu-2")]
    assert by_name(check_devices(a_scope(nodes=nodes, resourceslices=slices)))[NODE] is Outcome.ADVISED


def test_a_node_without_peers_is_held_against_its_labels() -> None:
    for odd, expected, labels in (
        (like("gpu-0"), Outcome.OK, {}),
        (like("gpu-0", memory="40Gi"), Outcome.BAD, {}),
        (like("gpu-0", memory="1e400"), Outcome.BAD, {}),
        (like("gpu-0", version="570.1"), Outcome.BAD, {}),
        (like("gpu-0", version="570.169.0"), Outcome.OK, {"nvidia.com/cuda.driver-version.full": "570.169"}),
        (like("gpu-0", productName="NVIDIA H200"), Outcome.OK, {"nvidia.com/gpu.product": "NVIDIA-H200-SHARED"}),
        (like("gpu-0", productName="NVIDIA H200"), Outcome.BAD, {"nvidia.com/gpu.product": "NVIDIA-H200-NVL"}),
        (like("gpu-0", productName="Quadro RTX 6000/8000"), Outcome.OK, {"nvidia.com/gpu.product": "Quadro-RTX-60008000"}),
    ):
        nodes = [a_cpu_node("gpu-0", labels={**LABELS, **labels})]
        assert by_name(check_devices(a_scope(nodes=nodes, resourceslices=[odd])))[NODE] is expected, odd


def test_devices_without_a_product_are_compared_in_their_pool_alone() -> None:
    def nameless(node: str, *memory: str) -> Json:
        devices = [
            device(f"{node}-{index}", "productName") | {"capacity": {"memory": {"value": value}}} for index, value in enumerate(memory)
        ]
        return a_slice(node, devices=devices)

    assert compared(nameless("gpu-0", "16Gi", "16Gi"), nameless("gpu-1", "32Gi", "32Gi"), labels={}) is Outcome.OK
    assert compared(nameless("gpu-0", "16Gi", "32Gi"), nameless("gpu-1", "32Gi", "32Gi"), labels={}) is Outcome.BAD
