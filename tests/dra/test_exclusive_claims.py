"""DRA-06: what two claims were given, compared."""

import pytest

from conformance.dra.exclusive_claims import Given, judge_pair
from conformance.probes.running import PendingPod, judge_pending
from fixtures.model.dra.slices import SliceDevice
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Subject

DRIVER = "gpu.nvidia.com"
UUIDS = {"gpu-0": "GPU-a", "gpu-1": "GPU-b", "gpu-0-again": "GPU-a", "nameless": ""}
PUBLISHED = {(DRIVER, "gpu-0", name): SliceDevice(name=name, attributes={"uuid": uuid}) for name, uuid in UUIDS.items()}


def given(*devices: str, pool: str = "gpu-0", shares: bool = False, pod: str = "a", trouble: str = "") -> Given:
    return Given(pod=Subject("Pod", pod, "ns"), devices=tuple((DRIVER, pool, name) for name in devices), shares=shares, trouble=trouble)


def judged(*pair: Given) -> tuple[list[Outcome], str]:
    found = list(judge_pair(pair, PUBLISHED))
    return [finding.outcome for finding in found], " | ".join(finding.message for finding in found)


@pytest.mark.parametrize(
    "pair",
    [
        (given("gpu-0"), given("gpu-1")),
        (given("gpu-0"), given("gpu-0", pool="gpu-1")),  # a name is one device in its pool only
        (given("nameless"), given("of a later generation")),
        (given("gpu-0"),),
    ],
)
def test_different_devices_conform(pair: tuple[Given, ...]) -> None:
    assert judged(*pair) == ([Outcome.OK] * len(pair), "" if len(pair) == 1 else " | ")


@pytest.mark.parametrize("second", ["gpu-0", "gpu-0-again"])
def test_one_device_in_two_claims_is_a_fault_by_name_and_by_uuid(second: str) -> None:
    outcomes, words = judged(given("gpu-0"), given(second, pod="b"))
    assert outcomes == [Outcome.BAD, Outcome.BAD]
    assert "the claim of b was given the same device" in words


def test_more_than_was_asked_for_is_a_fault() -> None:
    outcomes, words = judged(given("gpu-0", "nameless"), given("gpu-1"))
    assert outcomes == [Outcome.BAD, Outcome.OK]
    assert "was given 2" in words


def test_a_claim_without_a_device_proves_nothing() -> None:
    outcomes, words = judged(given(trouble="Pending; Unschedulable"), given("gpu-1"))
    assert outcomes == [Outcome.UNDECIDED, Outcome.OK]
    assert "another pod may have taken meanwhile: Pending; Unschedulable" in words


def test_shares_of_one_device_are_no_fault() -> None:
    assert judged(given("gpu-0", shares=True), given("gpu-0", shares=True))[0] == [Outcome.NOT_JUDGED] * 2


@pytest.mark.parametrize(
    ("waited", "control", "outcome"),
    [
        ({"reason": "Unschedulable", "message": "1 cannot allocate all claims"}, "", Outcome.OK),
        ({"reason": "Unschedulable", "message": "1 node(s) had untolerated taint(s)"}, "", Outcome.UNDECIDED),
        ({"reason": "Unschedulable", "message": "1 cannot allocate all claims"}, "no pod ran", Outcome.UNDECIDED),
        ({}, "", Outcome.UNDECIDED),
        ({"gone": True}, "", Outcome.UNDECIDED),
        ({"node": "gpu-0"}, "no pod ran", Outcome.BAD),
        ({"node": "gpu-0"}, "", Outcome.BAD),
        ({"phase": "Failed"}, "", Outcome.BAD),
    ],
)
def test_an_impossible_claim_waits_because_of_its_claim(waited: dict[str, str], control: str, outcome: Outcome) -> None:
    pod = PendingPod(subject=Subject("Pod", "p", "ns"), seconds=1.0, **waited)  # type: ignore[arg-type]
    assert judge_pending(pod, "a device", "none fits", control, words="cannot allocate all claims").outcome is outcome


@pytest.mark.parametrize(("resource", "outcome"), [("nvidia.com/mig-7g.80gb", Outcome.OK), ("nvidia.com/gpu.shared", Outcome.UNDECIDED)])
def test_a_pod_waits_for_the_resource_that_no_node_offers(resource: str, outcome: Outcome) -> None:
    message = "0/3 nodes are available: 1 Insufficient nvidia.com/mig-7g.80gb."
    pod = PendingPod(subject=Subject("Pod", "p", "ns"), seconds=30, reason="Unschedulable", message=message)
    assert judge_pending(pod, resource, "nobody offers it", "").outcome is outcome
