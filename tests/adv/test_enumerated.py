"""ADV-08: devices of the driver and of the node, on four products."""

from __future__ import annotations

import msgspec
import pytest

from conformance.adv.enumerated import check_unknown, enumerated
from conformance.probes.node_documents import NodeDocument, Unread
from conformance.scope.scope import subject
from fixtures.nodeprobe.document import Device, Driver, Host, Partitions, PciFunction, Way
from fixtures.verdict.findings import undecided
from tests.builders import a_node, a_scope
from tests.hw.documents import a_document, of_driver
from tests.nodeprobe.tables import MACHINES, Table
from tests.tables import each_row

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


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        (f"nvidia-container-cli: device error: {UUID}: unknown device: unknown", "AdvertisedDeviceNotThere"),  # HAMi#411
        ("it did not finish within 180 s: Pending", ""),
    ],
)
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
