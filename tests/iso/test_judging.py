"""ISO: what pods see of devices, of memory before and after, and of devices that the next pod does not get."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.iso.probes import judge_disjoint, judge_holder, judge_unasked
from conformance.iso.release import MIB, compared, not_freed
from conformance.outputs.captured_text import Unreadable
from conformance.probes.computing import read_visible_devices
from conformance.probes.node_documents import NodeDocument, Unread
from conformance.probes.running import ProbeResult
from fixtures.model.cluster import subject
from fixtures.nodeprobe.document import Device, Driver, Way
from fixtures.verdict.findings import Outcome, undecided
from fixtures.verdict.subjects import Subject
from tests.hw.documents import a_document, of_driver
from tests.nodeprobe.tables import Table
from tests.tables import each_row

GPU = "nvidia.com/gpu"
BLIND = "sh: nvidia-smi: not found\nexit=127"


def uuid(number: int) -> str:
    return f"GPU-8a0cb40d-f2e8-2199-64b0-{number:012x}"


def listing(*numbers: int) -> str:
    return "\n".join(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {uuid(number)})" for index, number in enumerate(numbers))


def output(smi: str, dev: str = "null\nzero", uid: str = "1000") -> str:
    return f"## uid\n{uid}\n## smi\n{smi}\n## dev\n{dev}\n## end\n"


def ran(smi: str = BLIND, *, dev: str = "null\nzero", name: str = "iso-0", sibling: str = "", trouble: str = "") -> ProbeResult:
    return ProbeResult(
        subject=Subject("Pod", name, "ns"), node="gpu-0", logs={"probe": output(smi, dev), "sibling": sibling}, trouble=trouble
    )


# -- what a container printed --


def test_a_listing_is_read_with_its_device_files() -> None:
    sight = read_visible_devices(output(listing(1, 2), "full\nnvidia-uvm\nnvidia0\nnvidia1\nnvidiactl\nnvme0n1\nshm"))
    assert sight.uuids == (uuid(1), uuid(2))
    assert sight.device_files == ("nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl")
    assert not sight.sees_nothing


@pytest.mark.parametrize("smi", [BLIND, "No devices found.\nexit=6", "", "exit=127"])
def test_a_container_without_devices_is_blind(smi: str) -> None:
    sight = read_visible_devices(output(smi))
    assert sight.sees_nothing
    assert "no device" in sight.text


def test_mig_devices_are_counted_in_place_of_their_gpu() -> None:
    text = listing(1) + "\n  MIG 1g.10gb     Device  0: (UUID: MIG-11111111-2222-3333-4444-555555555555)"
    assert read_visible_devices(output(text)).uuids == ("MIG-11111111-2222-3333-4444-555555555555",)


@pytest.mark.parametrize(
    "text", ["", "hello", "## uid\n1\n## smi\n", "## smi\n## uid\n## dev\n## end", output(listing(1)) + output(listing(2))]
)
def test_an_output_that_is_cut_or_doubled_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        read_visible_devices(text)


@given(st.text(max_size=400))
def test_wild_output_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert read_visible_devices(f"## uid\n{text}\n## smi\n{text}\n## dev\n{text}\n## end").text


# -- ISO-01 --


@pytest.mark.parametrize("numbers", [(1,), (1, 2, 3), (1, 1), tuple(range(8))])
def test_more_fewer_or_the_same_twice_does_not(numbers: tuple[int, ...]) -> None:
    finding = judge_holder(ran(listing(*numbers)), 2, GPU)
    assert finding.outcome is Outcome.BAD
    assert f"sees {len(set(numbers))}" in finding.message


def test_a_listing_that_fails_is_undecided() -> None:
    assert judge_holder(ran("Failed to initialize NVML: Insufficient Permissions\nexit=4"), 2, GPU).outcome is Outcome.UNDECIDED
    assert judge_holder(ran(trouble="Pending"), 2, GPU).outcome is Outcome.UNDECIDED


def test_a_blind_sibling_conforms_and_a_seeing_one_does_not() -> None:
    subject = Subject("container", "iso-0/sibling", "ns")
    assert judge_unasked(ran(sibling=output(BLIND)), "sibling", subject, "how", "VariableHonoured").outcome is Outcome.OK
    assert judge_unasked(ran(sibling=output(listing(1))), "sibling", subject, "how", "VariableHonoured").outcome is Outcome.BAD
    assert judge_unasked(ran(sibling=""), "sibling", subject, "how", "VariableHonoured").outcome is Outcome.UNDECIDED


def test_a_device_file_alone_is_seeing() -> None:
    finding = judge_unasked(ran(dev="null\nnvidia3"), "probe", Subject("Pod", "p"), "with the variable", "VariableHonoured")
    assert finding.outcome is Outcome.BAD
    assert "/dev/nvidia3" in finding.message


# -- ISO-03 --


def together(*smi: str) -> list[Outcome]:
    pods = {f"p{index}": ran(text, name=f"p{index}") for index, text in enumerate(smi)}
    return [finding.outcome for finding in judge_disjoint(pods, GPU)]


def test_one_device_in_two_pods_names_both() -> None:
    pods = {name: ran(listing(number), name=name) for name, number in (("a", 1), ("b", 2), ("c", 1))}
    findings = {finding.subject.name: finding for finding in judge_disjoint(pods, GPU)}
    assert {name: finding.outcome for name, finding in findings.items()} == {"a": Outcome.BAD, "b": Outcome.OK, "c": Outcome.BAD}
    assert "also held by c" in findings["a"].message


def test_a_pod_alone_or_without_device_is_undecided() -> None:
    assert together(listing(1)) == [Outcome.UNDECIDED]
    assert together(listing(1), BLIND) == [Outcome.OK, Outcome.UNDECIDED]


@pytest.mark.parametrize("dev", ["", "ls: cannot open directory '/dev': Permission denied", "shm"])
def test_a_listing_of_dev_that_is_none_shows_no_absence(dev: str) -> None:
    with pytest.raises(Unreadable, match="/dev/null"):
        read_visible_devices(output("", dev))


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
