"""ISO-04: what is said of memory before and after, and of devices that the next pod does not get."""

import msgspec
import pytest

from conformance.iso.release import MIB, compared, not_freed
from conformance.probes.node_documents import NodeDocument, Unread
from fixtures.model.cluster import subject
from fixtures.nodeprobe.document import Device, Driver, Way
from fixtures.verdict.findings import undecided
from tests.hw.documents import a_document, of_driver
from tests.nodeprobe.tables import Table
from tests.tables import each_row

USED = "1.memory.used"


def shared(one: NodeDocument) -> NodeDocument:
    return msgspec.structs.replace(one, places=tuple(msgspec.structs.replace(place, shared=True) for place in one.places))


@each_row
def test_memory_is_compared_where_it_is_the_devices_alone(machine: str, before: Table, after: Table, outcome: str, words: str) -> None:
    found = list(compared(a_document(machine, before), a_document(machine, after), computed=True))
    assert {str(finding.outcome) for finding in found} == {outcome}
    assert words in f"{found[0].observed} {found[0].message}"


def test_devices_that_are_shared_are_not_judged() -> None:
    [finding] = compared(a_document(), shared(a_document("h100", {USED: 20 << 30})), computed=True)
    assert str(finding.outcome) == "not_judged"


@pytest.mark.parametrize(("count", "after", "outcome"), [(8, 300, "ok"), (8, 20_480, "bad"), (7, 20_480, "not_judged")])
def test_amds_devices_are_judged_where_the_pod_holds_all_that_the_kernel_shows(count: int, after: int, outcome: str) -> None:
    """They have no UUID without the driver's library."""

    def document(used: int) -> NodeDocument:
        devices = [Device(index=at, name="AMD Instinct MI300X", pci_address=f"0000:{at}5:00.0", memory_used=used * MIB) for at in range(8)]
        one = of_driver(Driver(vendor="amd", way=Way.SYSFS, devices=devices))
        places = tuple(msgspec.structs.replace(place, free=count) for place in one.places)
        return msgspec.structs.replace(one, whole=True, places=places)

    assert {str(finding.outcome) for finding in compared(document(283), document(after), computed=False)} == {outcome}


@each_row
def test_a_kubelet_that_keeps_a_device_is_reported_from_a_pod_that_took_it(trouble: str, cause: str) -> None:
    places = a_document().places
    found = not_freed(Unread(places=places, finding=undecided(subject(places[0].node), message="x"), trouble=trouble))
    assert (found.cause if found else "") == cause
