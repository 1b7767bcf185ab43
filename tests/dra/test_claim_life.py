"""DRA-05 and what follows: what became of a claim, step by step, its reservations, and claims that others must not share."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.dra.claim_life import ClaimLife, judge_life
from conformance.dra.claims import check_reserved
from conformance.dra.exclusive_claims import Given, judge_pair
from conformance.probes.running import PendingPod, ProbeResult, judge_pending
from fixtures.kubernetes.models import Json
from fixtures.model.dra.held_claims import held_claim, published
from fixtures.model.dra.slices import SliceDevice
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Subject
from tests.builders import a_cpu_node, a_pod, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.tables import each_row

OTHER = "GPU-8a0cb40d-f2e8-2199-64b0-000000000007"
UUID = "GPU-8a0cb40d-f2e8-2199-64b0-000000000001"
POD = "pod-uid"


def log(*uuids: str, smi: str | None = None) -> str:
    listed = smi if smi is not None else "\n".join(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {uuid})" for index, uuid in enumerate(uuids))
    return f"## uid\n1000\n## smi\n{listed}\n## dev\nnull\nnvidia0\n## end\n"


def a_life(text: str = log(UUID), *, trouble: str = "", users: tuple[str, ...] = (POD,), device: str = "gpu-0", **more: Any) -> ClaimLife:
    claim = a_claim("c", device=device)
    claim.setdefault("status", {})["reservedFor"] = [{"resource": "pods", "name": "p", "uid": uid} for uid in users]
    ran = ProbeResult(subject=Subject("Pod", "p", "ns"), node="gpu-0", logs={"probe": text}, trouble=trouble)
    return ClaimLife(**{"ran": ran, "pod_uid": POD, "claim": held_claim(claim), **more})


def judged(life: ClaimLife, device: Json | None = None) -> Finding:
    own = a_device("gpu-0")
    own["attributes"]["uuid"] = {"string": UUID}
    slices = [a_slice("gpu-0", devices=[device or own])]
    return judge_life(life, published(a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=slices, deviceclasses=[a_class()])))


@each_row
def test_each_step_can_fail(life: Json, words: str) -> None:
    finding = judged(a_life(**life))
    assert finding.outcome is Outcome.BAD
    assert words in finding.message


@each_row
def test_what_is_not_visible_is_undecided(life: Json, words: str) -> None:
    finding = judged(a_life(**life))
    assert finding.outcome is Outcome.UNDECIDED
    assert words in finding.message


def test_a_driver_without_uuids_leaves_nothing_to_compare() -> None:
    assert judged(a_life(), {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}).outcome is Outcome.UNDECIDED


_KEYS = ["status", "allocation", "devices", "results", "reservedFor", "uid", "driver"]
_WILD = st.recursive(st.none() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_KEYS), inner))


@pytest.mark.test_all
@given(_WILD, st.text(max_size=40))
def test_a_wild_claim_never_conforms(claim: Any, text: str) -> None:
    life = msgspec.structs.replace(a_life(text), claim=held_claim(claim if isinstance(claim, dict) else {}))
    assert judged(life).outcome in (Outcome.BAD, Outcome.UNDECIDED)


NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
OLD, FRESH = "2026-09-20T00:00:00Z", "2026-09-21T14:13:00Z"
UID = "uid-team-a-train-0"


def reserved(name: str = "train-0", uid: str = UID, created: str = OLD, **meta: Any) -> Json:
    claim = a_claim("c", device="gpu-0")
    claim["metadata"] |= {"creationTimestamp": created, **meta}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid}] if name else []
    return claim


def judged_reservation(claim: Json, **items: Any) -> Finding:
    given = {"pods": [a_pod("train-0", node="gpu-0")], "resourceslices": [a_slice("gpu-0")], **items}
    (finding,) = check_reserved(a_scope(resourceclaims=[claim], **given), NOW)
    return finding


@each_row
def test_a_claim_that_holds_for_no_pod_is_bad(claim: Json, word: str) -> None:
    finding = judged_reservation(reserved(**claim))
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert judged_reservation(reserved(), pods=[a_pod("train-0", node="gpu-0", phase="Succeeded")]).outcome is Outcome.BAD


@each_row
def test_a_claim_that_changed_a_moment_ago_is_undecided(changed: Json) -> None:
    finding = judged_reservation(reserved("gone", **changed))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again" in finding.message


def test_a_claim_that_is_reserved_again_and_again_for_a_finished_pod_is_found() -> None:
    over = [{"name": "main", "state": {"terminated": {"finishedAt": OLD}}}]
    pod = a_pod("train-0", node="gpu-0", phase="Succeeded", status={"containerStatuses": over})
    fresh = reserved(managedFields=[{"manager": "kube-controller-manager", "time": FRESH}])
    assert judged_reservation(fresh, pods=[pod]).outcome is Outcome.BAD


def test_a_claim_of_an_extended_resource_waits_for_its_reservation() -> None:
    pod = a_pod("train-0", status={"extendedResourceClaimStatus": {"resourceClaimName": "c"}})
    assert judged_reservation(reserved(""), pods=[pod]).outcome is Outcome.OK


@each_row
def test_a_pod_group_holds_a_claim_while_it_exists(group: Json, outcome: Outcome) -> None:
    claim = reserved()
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]
    finding = judged_reservation(claim, scheduling_k8s_io__podgroups=[{"metadata": group}])
    assert finding.outcome is outcome
    assert (outcome is Outcome.BAD) is ("PodGroup g" in finding.message)


def test_a_pod_group_is_not_taken_for_a_missing_pod() -> None:
    claim = reserved()
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]
    assert judged_reservation(claim, trouble={"scheduling.k8s.io/podgroups": "Forbidden"}).outcome is Outcome.UNDECIDED


def test_network_claims_and_claims_without_devices_are_left_out() -> None:
    eth = a_claim("net", "dra.net", device="eth0")
    assert list(check_reserved(a_scope(pods=[], resourceclaims=[eth, a_claim("waits")]), NOW)) == []


DRIVER = "gpu.nvidia.com"
UUIDS = {"gpu-0": "GPU-a", "gpu-1": "GPU-b", "gpu-0-again": "GPU-a", "nameless": ""}
PUBLISHED = {(DRIVER, "gpu-0", name): SliceDevice(name=name, attributes={"uuid": uuid}) for name, uuid in UUIDS.items()}


def given_claims(*devices: str, pool: str = "gpu-0", shares: bool = False, pod: str = "a", trouble: str = "") -> Given:
    return Given(pod=Subject("Pod", pod, "ns"), devices=tuple((DRIVER, pool, name) for name in devices), shares=shares, trouble=trouble)


def judged_exclusive(*pair: Given) -> tuple[list[Outcome], str]:
    found = list(judge_pair(pair, PUBLISHED))
    return [finding.outcome for finding in found], " | ".join(finding.message for finding in found)


@pytest.mark.parametrize(
    "pair",
    [
        (given_claims("gpu-0"), given_claims("gpu-1")),
        (given_claims("gpu-0"), given_claims("gpu-0", pool="gpu-1")),  # a name is one device in its pool only
        (given_claims("nameless"), given_claims("of a later generation")),
        (given_claims("gpu-0"),),
    ],
)
def test_different_devices_conform(pair: tuple[Given, ...]) -> None:
    assert judged_exclusive(*pair) == ([Outcome.OK] * len(pair), "" if len(pair) == 1 else " | ")


@pytest.mark.parametrize("second", ["gpu-0", "gpu-0-again"])
def test_one_device_in_two_claims_is_a_fault_by_name_and_by_uuid(second: str) -> None:
    outcomes, words = judged_exclusive(given_claims("gpu-0"), given_claims(second, pod="b"))
    assert outcomes == [Outcome.BAD, Outcome.BAD]
    assert "the claim of b was given the same device" in words


def test_more_than_was_asked_for_is_a_fault() -> None:
    outcomes, words = judged_exclusive(given_claims("gpu-0", "nameless"), given_claims("gpu-1"))
    assert outcomes == [Outcome.BAD, Outcome.OK]
    assert "was given 2" in words


def test_a_claim_without_a_device_proves_nothing() -> None:
    outcomes, words = judged_exclusive(given_claims(trouble="Pending; Unschedulable"), given_claims("gpu-1"))
    assert outcomes == [Outcome.UNDECIDED, Outcome.OK]
    assert "another pod may have taken meanwhile: Pending; Unschedulable" in words


def test_shares_of_one_device_are_no_fault() -> None:
    assert judged_exclusive(given_claims("gpu-0", shares=True), given_claims("gpu-0", shares=True))[0] == [Outcome.NOT_JUDGED] * 2


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
