from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from conformance.gang.checks import check_held
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.dra import a_class
from tests.gang.test_adapters import kueue_s
from tests.tables import each_row

NOW = 1_800_000_000.0


def ago(minutes: float) -> str:
    return datetime.fromtimestamp(NOW - minutes * 60, UTC).isoformat()


JOB = ("Job", "uid-job")
GPU = "nvidia.com/gpu"
ADMISSION = "kueue.x-k8s.io/admission"


def a_workload(*conditions: str, minutes: float = 60, owner: tuple[str, str] = JOB, resource: str = GPU, **status: Any) -> Json:
    admission = {
        "clusterQueue": "queue",
        "podSetAssignments": [{"name": "main", "count": 2, "flavors": {resource: "h100"}, "resourceUsage": {resource: "4"}}],
    }
    found = [{"type": kind, "status": "True", "lastTransitionTime": ago(minutes)} for kind in conditions]
    owners = [{"kind": owner[0], "name": "train", "uid": owner[1]}]
    metadata: Json = {"name": "train", "namespace": "team-a", "ownerReferences": owners}
    return {"kind": "Workload", "metadata": metadata, "status": {"admission": admission, "conditions": found, **status}}


def a_queue(total: str, resource: str = GPU) -> Json:
    flavor = {"name": "h100", "resources": [{"name": resource, "total": total, "borrowed": "0"}]}
    return {"kind": "ClusterQueue", "metadata": {"name": "queue"}, "status": {"flavorsReservation": [flavor]}}


def findings(*workloads: Json, pods: tuple[Pod, ...] = (), queues: tuple[Json, ...] = (), **more: Any) -> list[Finding]:
    lists: dict[str, Any] = {"clusterqueues": queues, "pods": pods, "kueue_x-k8s_io__workloads": workloads, **more}
    scope = a_scope(None, **lists)
    return list(check_held(scope, NOW))


def outcome(workload: Json, *pods: Pod) -> str:
    (finding,) = findings(workload, pods=pods)
    return finding.outcome.value


def of_job(**more: Any) -> Pod:
    return a_pod(node="gpu-0", devices=2, owner="Job/job", **more)


def test_an_admitted_workload_with_pods_passes_however_they_are_tied_to_it() -> None:
    admitted = a_workload("QuotaReserved", "Admitted")
    assert outcome(admitted, of_job()) == "ok"
    assert outcome(admitted, a_pod(annotations={"kueue.x-k8s.io/workload": "train"})) == "ok"
    plain = a_workload("QuotaReserved", "Admitted", owner=("Pod", "uid-team-a-train-0"))
    assert outcome(plain, a_pod("train-0")) == "ok"


def test_a_workload_that_is_evicted_and_admitted_at_once_fails_even_with_pods() -> None:
    """kubernetes-sigs/kueue#14811."""
    both = a_workload("QuotaReserved", "Admitted", "Evicted")
    (finding,) = findings(both, pods=(of_job(),))
    assert finding.outcome.value == "bad"
    assert "QuotaReserved, Admitted, Evicted for 1 h" in finding.message
    assert "4 nvidia.com/gpu of ClusterQueue queue" in finding.message
    assert outcome(a_workload("QuotaReserved", "Admitted", "Evicted", minutes=1)) == "undecided"


def test_a_workload_without_pods_fails_after_the_age() -> None:
    """kubernetes-sigs/kueue#10407: admitted again for a pod that is gone."""
    assert outcome(a_workload("QuotaReserved", "Admitted", owner=("Pod", "uid-gone"))) == "bad"
    assert outcome(a_workload("QuotaReserved", "Admitted", minutes=2)) == "undecided"
    assert outcome(a_workload("QuotaReserved", "Admitted"), of_job(phase="Succeeded")) == "bad"
    odd = a_workload("Finished")
    odd["status"]["admission"]["clusterQueue"] = ["no", "name"]
    assert len(findings(odd, a_workload("QuotaReserved", "Admitted"), queues=(a_queue("4"),))) == 2


@each_row
def test_admitted_pods_that_keep_kueue_s_gate_do_not_hold_quota_for_work(minutes: float, pods: list[str], expected: str) -> None:
    """kubernetes-sigs/kueue#7433, #2029."""
    gated = [
        a_pod(f"t-{n}", devices=2, owner="Job/job", node="" if gate else "gpu-0", schedulingGates=[{"name": gate}] if gate else None)
        for n, gate in enumerate(pods)
    ]
    assert outcome(a_workload("QuotaReserved", "Admitted", minutes=minutes), *gated) == expected


def test_a_pod_that_took_the_place_of_another_is_behind_its_gate_for_a_moment() -> None:
    fresh = a_pod(devices=2, owner="Job/job", schedulingGates=[{"name": ADMISSION}])
    fresh = msgspec.structs.replace(fresh, metadata=msgspec.structs.replace(fresh.metadata, creation_timestamp=ago(1)))
    assert outcome(a_workload("QuotaReserved", "Admitted", minutes=600), fresh) == "undecided"


def test_pods_that_cannot_be_tied_to_their_owner_leave_it_undecided() -> None:
    assert outcome(a_workload("QuotaReserved", "Admitted", owner=("RayCluster", "uid-ray"))) == "undecided"


def test_a_check_that_has_not_answered_holds_quota_and_one_that_rejected_does_not() -> None:
    """kubernetes-sigs/kueue#6035."""
    pending = [{"name": "capacity", "state": "Pending"}]
    waiting = a_workload("QuotaReserved", admissionChecks=pending)
    assert outcome(waiting) == "bad"  # there is no such check
    for controller, expected in (("kueue.x-k8s.io/multikueue", "not_judged"), ("acme.example/budget", "bad")):
        check = {"metadata": {"name": "capacity"}, "spec": {"controllerName": controller}}
        (finding,) = findings(waiting, admissionchecks=[check])
        assert finding.outcome.value == expected
    assert outcome(a_workload("QuotaReserved", minutes=5, admissionChecks=pending)) == "undecided"
    assert outcome(a_workload("QuotaReserved", admissionChecks=[{"name": "capacity", "state": "Rejected"}])) == "bad"
    assert outcome(a_workload("QuotaReserved", minutes=1)) == "undecided"


@each_row
def test_pods_on_a_worker_cluster_are_not_missed(conditions: list[str], status: Json, expected: str) -> None:
    assert outcome(a_workload(*conditions, **status)) == expected


def test_what_is_finished_or_holds_no_device_is_no_subject() -> None:
    with pytest.raises(NotApplicable):
        findings(a_workload("QuotaReserved", "Admitted", "Finished"), a_workload("QuotaReserved", "Admitted", resource="cpu"))


def test_a_queue_that_counts_more_than_its_workloads_have_fails_once_its_status_should_have_followed() -> None:
    admitted = a_workload("QuotaReserved", "Admitted")
    good, bad = findings(admitted, pods=(of_job(),), queues=(a_queue("4"),)), findings(admitted, pods=(of_job(),), queues=(a_queue("8"),))
    assert [finding.outcome.value for finding in good] == ["ok", "ok"]
    assert bad[1].outcome.value == "bad"
    assert "h100 nvidia.com/gpu 8, workloads have 4" in bad[1].message
    moving = findings(a_workload("QuotaReserved", "Admitted", minutes=0.2), pods=(of_job(),), queues=(a_queue("8"),))
    assert moving[1].outcome.value == "undecided"


CLAIMED = "whole-gpus"


def claimed(*workloads: Json, classes: str = "[gpu.nvidia.com]", **more: Any) -> list[Finding]:
    """The findings where Kueue counts claims under a name that nothing but its configuration knows."""
    text = f"# kueue\nresources:\n  deviceClassMappings:\n  - name: {CLAIMED}\n    deviceClassNames: {classes}\n"
    return findings(*workloads, **{"deviceclasses": [a_class()], "configmaps": [kueue_s(text)], **more})


def test_quota_that_counts_claims_is_held_by_pods_too() -> None:
    lost = a_workload("QuotaReserved", "Admitted", resource=CLAIMED)
    (finding,) = claimed(lost)
    assert (finding.outcome.value, f"4 {CLAIMED} of ClusterQueue queue" in finding.message) == ("bad", True)
    assert [one.outcome.value for one in claimed(lost, pods=(of_job(),), queues=(a_queue("8", CLAIMED),))] == ["ok", "bad"]
    with pytest.raises(NotApplicable):
        claimed(lost, classes="[other]")


@pytest.mark.parametrize("world", [{"classes": "{["}, {"trouble": {"configmaps": "Forbidden"}}])
def test_a_configuration_that_is_not_read_leaves_open_what_an_unknown_quota_counts_and_no_other(world: Json) -> None:
    def admitted(resource: str) -> Json:
        return a_workload("QuotaReserved", "Admitted", resource=resource)

    with pytest.raises(Inconclusive, match=r"cannot be read|could not be listed"):
        claimed(admitted(CLAIMED), **world)
    with pytest.raises(NotApplicable):
        claimed(admitted("cpu"), **world)
    assert [finding.outcome.value for finding in claimed(admitted(GPU), **world)] == ["bad"]


@each_row
def test_an_admitted_workload_that_no_node_takes_holds_quota_for_nothing(
    free: tuple[int, ...], devices: int, more: dict[str, Any], expected: str
) -> None:
    minutes = more.get("minutes", 360)
    nodes = [a_node(f"gpu-{n}") for n in range(len(free))]
    nodes[0].metadata.creation_timestamp = ago(more.get("joined", 9999))
    selector = {"nodeSelector": more["nodeSelector"]} if "nodeSelector" in more else {}
    holders = [a_pod(f"holder-{n}", node=f"gpu-{n}", devices=8 - count) for n, count in enumerate(free) if count < 8]
    waiting = a_pod("big", devices=devices, owner="Job/job", tolerations=["nvidia.com/gpu:NoSchedule"], **selector)
    waiting.metadata.creation_timestamp = ago(minutes)
    configmaps = [kueue_s("# kueue\nwaitForPodsReady: {enable: true, timeout: 2h}")] if "ready" in more else []
    leaders = (
        [a_pod("a-leader", devices=more["leader"], owner="Job/job", tolerations=["nvidia.com/gpu:NoSchedule"])] if "leader" in more else []
    )
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [a_workload("QuotaReserved", "Admitted", minutes=minutes)]}
    scope = a_scope(a_policy(**more.get("policy", {})), nodes=nodes, pods=[*holders, *leaders, waiting], configmaps=configmaps, **lists)
    (finding,) = check_held(scope, NOW)
    assert finding.outcome.value == expected, finding.message
    if expected == "bad" and free[0] < 8 and not selector:
        assert "no node has more than 6 free, and all together have 17" in finding.message
