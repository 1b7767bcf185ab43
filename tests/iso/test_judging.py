import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.iso.probes import judge_disjoint, judge_holder, judge_unasked
from conformance.outputs.captured_text import Unreadable
from conformance.probes.computing import read_visible_devices
from conformance.probes.running import ProbeResult
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Subject

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
