"""HW-10: figures against the product's peaks and the peers', and values that must compare."""

import msgspec
import pytest

from conformance.health.judging import links_of
from conformance.hw import figures
from conformance.hw.figures import judge_figures, peak_of, probe_figures, usual_figures
from conformance.probes.running import ProbeResult
from fixtures.compute.document import Device, Document, Figures, Library, Status, Step, Trouble, WrongValues, encode
from fixtures.kubernetes.models import Json
from fixtures.model.placement.free_devices import places_of, why_partial
from fixtures.policy.model import Hardware, Policy, Probes
from fixtures.tables.rows import DEVICE_FIGURES
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable, Subject
from tests.builders import a_node, a_scope
from tests.nodeprobe.tables import MACHINES
from tests.tables import each_row

H100 = "NVIDIA H100 80GB HBM3"
GOOD = Figures(fp32=40e12, memory=2.57e12, to_device=53e9, from_device=52e9, repetitions=300, seconds=5)  # memory: NVIDIA/nccl#1264


def device(index: int = 0, name: str = H100, step: Step | None = None, **figures: float | None) -> Device:
    done = Step(name="copy", status=Status.OK, compared=1)
    return Device(index=index, name=name, steps=[done, *([step] if step else [])], figures=msgspec.structs.replace(GOOD, **figures))


def judged(one: Device, *peers: Device, policy: Hardware | None = None) -> Finding:
    return judge_figures(a_node("gpu-0"), one, usual_figures([one, *peers]), policy or Hardware())


MAX = "Intel(R) Data Center GPU Max 1550"
LOST = Step(name="multiply", status=Status.ERROR, trouble=Trouble(call="zeCommandListAppendLaunchKernel", code=0x70000001))
PEERS = [device(index) for index in range(1, 4)]
WRONG = Step(name="multiply", status=Status.WRONG, compared=1 << 26, wrong=WrongValues(count=1, first=4_000_000))
BROKEN = Step(name="copy", status=Status.ERROR, trouble=Trouble(call="cuMemcpyHtoD_v2", code=214))
CASES: dict[str, tuple[Device, list[Device], Outcome, str]] = {
    "as healthy ones": (device(), PEERS, Outcome.OK, ""),
    "alone": (device(), [], Outcome.OK, ""),
    "at its idle clock, as all others": (device(fp32=7e12), [device(i, fp32=7e12) for i in (1, 2, 3)], Outcome.BAD, "DeviceSlow"),
    "at half of its peers": (device(fp32=20e12), PEERS, Outcome.BAD, "DeviceSlow"),
    "at half, and too few peers": (device(fp32=20e12), PEERS[:1], Outcome.OK, ""),
    "slow memory": (device(memory=1.2e12), PEERS, Outcome.BAD, "DeviceSlow"),
    "copies as of half the lanes": (device(from_device=26e9), PEERS, Outcome.BAD, "DeviceSlow"),
    "copies of some hosts, nvbandwidth#24": (device(to_device=35.2e9), PEERS, Outcome.OK, ""),
    "one wrong value": (device(step=WRONG), PEERS, Outcome.BAD, "DeviceComputesWrong"),
    "an error": (device(step=BROKEN), PEERS, Outcome.UNDECIDED, "DeviceDoesNotCompute"),
    "no figure": (device(fp32=None), PEERS, Outcome.UNDECIDED, "NotUnderstood"),
    "no row": (device(name="NVIDIA X1000"), [], Outcome.NOT_JUDGED, ""),
    "its host is no PCIe neighbour": (device(name="NVIDIA GB200", to_device=1e9, memory=6e12), [], Outcome.OK, ""),
    "AMD's": (device(name="AMD Instinct MI300X", memory=4.1e12), [], Outcome.OK, ""),
    "AMD's at half its lanes": (device(name="AMD Instinct MI300X", memory=4.1e12, to_device=26e9), [], Outcome.BAD, "DeviceSlow"),
    "a stack of Intel's": (device(name=MAX, fp32=15e12, memory=1.0e12), [], Outcome.OK, ""),
    "a slow stack of Intel's": (device(name=MAX, fp32=4e12, memory=1.0e12), [], Outcome.BAD, "DeviceSlow"),
    "a stack that was lost": (device(name=MAX, step=LOST), [], Outcome.UNDECIDED, "DeviceDoesNotCompute"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_device_is_held_against_product_and_peers(case: str) -> None:
    one, peers, outcome, cause = CASES[case]
    finding = judged(one, *peers)
    assert (finding.outcome, finding.cause if outcome in (Outcome.BAD, Outcome.UNDECIDED) else "") == (outcome, cause)


def test_the_policy_says_what_is_enough() -> None:
    capped = Hardware(least_fp32=0.05, below_peers=0.9)
    assert judged(device(fp32=7e12), *PEERS, policy=capped).outcome is Outcome.OK
    assert judged(device(), policy=Hardware(least_memory=0.9)).outcome is Outcome.BAD


def test_a_device_that_fails_is_no_peer() -> None:
    failing = [device(index, step=WRONG, fp32=1e12) for index in range(1, 6)]
    assert judged(device(), *failing).outcome is Outcome.OK


def test_every_row_has_a_source_and_products_have_rows() -> None:
    assert all(row.source and row.date.year >= 2026 for row in DEVICE_FIGURES.rows)
    assert all(peak_of(f"AMD Instinct {name}") and links_of(f"AMD Instinct {name}") for name in ("MI300X", "MI325X", "MI250X", "MI210"))
    assert all(links_of(row.product.strip("*").replace("[23]", "2")) for row in DEVICE_FIGURES.rows if row.copies)
    for table in MACHINES.values():
        assert peak_of(str(table["0.name"])) is not None
    assert peak_of("NVIDIA H100 PCIe") != peak_of(H100)
    assert peak_of("NVIDIA A100-SXM4-80GB") != peak_of("NVIDIA A100 80GB PCIe")


@each_row
def test_parts_of_devices_have_no_figures(resource: str, labels: dict[str, str], words: str) -> None:
    [place] = places_of(scope := a_scope(nodes=[a_node(resource=resource, labels=labels)]), scope.snapshot.nodes[0])
    reason = why_partial(place)
    assert words in reason
    assert bool(words) == bool(reason)


@each_row
def test_without_an_image_or_a_whole_device_nothing_is_measured(
    resource: str, labels: dict[str, str], images: dict[str, str], code: str
) -> None:
    scope = a_scope(nodes=[a_node(resource=resource, labels=labels)], policy=Policy(probes=Probes(images=images)))
    with pytest.raises(NotApplicable) as raised:
        list(probe_figures(scope, None))  # type: ignore[arg-type]
    assert raised.value.code == code


@each_row
def test_devices_of_intel_are_measured_in_the_image_for_them(
    monkeypatch: pytest.MonkeyPatch, libraries: list[Library], outcome: Outcome
) -> None:
    node = a_node(resource="gpu.intel.com/xe", labels={"gpu.intel.com/device.count": "8"})
    scope = a_scope(nodes=[node], policy=Policy(probes=Probes(images={"gpu.intel.com/*": "intel:1"})))
    printed = encode(Document(suite="", taken_at="", libraries=libraries), indent=False).decode()

    def run(workspace: object, pods: list[Json], seconds: float) -> dict[str, ProbeResult]:
        [pod] = pods
        [container] = pod["spec"]["containers"]
        assert (container["image"], container["resources"]["limits"]["gpu.intel.com/xe"]) == ("intel:1", "8")
        log = f"## uid\n1000\n## smi\nsh: nvidia-smi: not found\nexit=127\n## dev\ndri\n## compute\n{printed}\n## end\n"
        return {pod["metadata"]["name"]: ProbeResult(subject=Subject("Pod", "p"), node="gpu-0", logs={"probe": log})}

    monkeypatch.setattr(figures, "run_pods", run)
    [finding] = probe_figures(scope, None)  # type: ignore[arg-type]
    assert finding.outcome is outcome, finding
