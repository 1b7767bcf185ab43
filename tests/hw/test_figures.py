"""HW-10: figures against the product's peaks and the peers', and values that must compare."""

from __future__ import annotations

import msgspec
import pytest

from conformance.hw.figures import judge_figures, peak_of, peaks, usual_figures
from conformance.policy.model import Hardware
from fixtures.compute.document import Device, Figures, Status, Step, Trouble, WrongValues
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node
from tests.nodeprobe.tables import MACHINES

H100 = "NVIDIA H100 80GB HBM3"
GOOD = Figures(fp32=40e12, memory=2.57e12, to_device=53e9, from_device=52e9, repetitions=300, seconds=5)  # memory: NVIDIA/nccl#1264


def device(index: int = 0, name: str = H100, step: Step | None = None, **figures: float | None) -> Device:
    done = Step(name="copy", status=Status.OK, compared=1)
    return Device(index=index, name=name, steps=[done, *([step] if step else [])], figures=msgspec.structs.replace(GOOD, **figures))


def judged(one: Device, *peers: Device, policy: Hardware | None = None) -> Finding:
    return judge_figures(a_node("gpu-0"), one, usual_figures([one, *peers]), policy or Hardware())


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
    assert all(row.source and row.date.year >= 2026 for row in peaks())
    for table in MACHINES.values():
        assert peak_of(str(table["0.name"])) is not None
    assert peak_of("NVIDIA H100 PCIe") != peak_of(H100)
    assert peak_of("NVIDIA A100-SXM4-80GB") != peak_of("NVIDIA A100 80GB PCIe")
