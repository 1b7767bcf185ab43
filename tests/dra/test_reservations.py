"""DRA-07: who a claim is reserved for."""

from typing import Any

from conformance.dra.claims import check_reserved
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_pod, a_scope
from tests.dra import a_claim, a_slice
from tests.tables import each_row

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
OLD, FRESH = "2026-09-20T00:00:00Z", "2026-09-21T14:13:00Z"
UID = "uid-team-a-train-0"


def reserved(name: str = "train-0", uid: str = UID, created: str = OLD, **meta: Any) -> Json:
    claim = a_claim("c", device="gpu-0")
    claim["metadata"] |= {"creationTimestamp": created, **meta}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid}] if name else []
    return claim


def judged(claim: Json, **items: Any) -> Finding:
    given = {"pods": [a_pod("train-0", node="gpu-0")], "resourceslices": [a_slice("gpu-0")], **items}
    (finding,) = check_reserved(a_scope(resourceclaims=[claim], **given), NOW)
    return finding


@each_row
def test_a_claim_that_holds_for_no_pod_is_bad(claim: Json, word: str) -> None:
    finding = judged(reserved(**claim))
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert judged(reserved(), pods=[a_pod("train-0", node="gpu-0", phase="Succeeded")]).outcome is Outcome.BAD


@each_row
def test_a_claim_that_changed_a_moment_ago_is_undecided(changed: Json) -> None:
    finding = judged(reserved("gone", **changed))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again" in finding.message


def test_a_claim_that_is_reserved_again_and_again_for_a_finished_pod_is_found() -> None:
    over = [{"name": "main", "state": {"terminated": {"finishedAt": OLD}}}]
    pod = a_pod("train-0", node="gpu-0", phase="Succeeded", status={"containerStatuses": over})
    fresh = reserved(managedFields=[{"manager": "kube-controller-manager", "time": FRESH}])
    assert judged(fresh, pods=[pod]).outcome is Outcome.BAD


def test_a_claim_of_an_extended_resource_waits_for_its_reservation() -> None:
    pod = a_pod("train-0", status={"extendedResourceClaimStatus": {"resourceClaimName": "c"}})
    assert judged(reserved(""), pods=[pod]).outcome is Outcome.OK


@each_row
def test_a_pod_group_holds_a_claim_while_it_exists(group: Json, outcome: Outcome) -> None:
    claim = reserved()
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]
    finding = judged(claim, scheduling_k8s_io__podgroups=[{"metadata": group}])
    assert finding.outcome is outcome
    assert (outcome is Outcome.BAD) is ("PodGroup g" in finding.message)


def test_a_pod_group_is_not_taken_for_a_missing_pod() -> None:
    claim = reserved()
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]
    assert judged(claim, trouble={"scheduling.k8s.io/podgroups": "Forbidden"}).outcome is Outcome.UNDECIDED


def test_network_claims_and_claims_without_devices_are_left_out() -> None:
    eth = a_claim("net", "dra.net", device="eth0")
    assert list(check_reserved(a_scope(pods=[], resourceclaims=[eth, a_claim("waits")]), NOW)) == []
