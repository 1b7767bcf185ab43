"""GANG-11: queues with device work can admit it, by reports of queues that did not."""

from typing import Any

import pytest

from conformance.gang.checks import check_queues_admit
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_scope, a_spec
from tests.findings import only
from tests.gang.test_kueue_reservations import NOW, ago
from tests.tables import each_row

ACTIVE = {"type": "Active", "status": "True", "reason": "Ready"}


def work(*held: str, minutes: float = 60, devices: int = 2, name: str = "train", queue: str = "gpu", **status: Any) -> Json:
    spec = {"queueName": queue, "active": True, "podSets": [{"name": "main", "count": 2, "template": {"spec": a_spec(devices=devices)}}]}
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": ago(minutes)} for kind in held]
    meta = {"name": name, "namespace": "team-a", "creationTimestamp": ago(minutes)}
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions, **status}}


def local(cluster_queue: str = "queue", **spec: Any) -> Json:
    return {"metadata": {"name": "gpu", "namespace": "team-a"}, "spec": {"clusterQueue": cluster_queue, **spec}}


def queue(*, active: Json = ACTIVE, **spec: Any) -> Json:
    groups = [{"flavors": [{"name": "h100"}]}]
    return {"metadata": {"name": "queue"}, "spec": {"resourceGroups": groups, **spec}, "status": {"conditions": [active]}}


def inactive(reason: str, message: str = "", minutes: float = 60) -> Json:
    return {"type": "Active", "status": "False", "reason": reason, "message": message, "lastTransitionTime": ago(minutes)}


FLAVOR: Json = {"metadata": {"name": "h100"}}


def judged(*workloads: Json, **items: Any) -> list[Finding]:
    lists: dict[str, Any] = {"localqueues": [local()], "clusterqueues": [queue()], "resourceflavors": [FLAVOR], **items}
    return list(check_queues_admit(a_scope(None, **lists, **{"kueue_x-k8s_io__workloads": workloads}), NOW))


# -- Kueue --


def test_every_queue_drained_fails_even_while_its_work_is_still_called_admitted() -> None:
    finding = only(judged(work("QuotaReserved", "Admitted"), clusterqueues=[queue(stopPolicy="HoldAndDrain")]))
    assert finding.outcome is Outcome.BAD
    assert "stopPolicy is HoldAndDrain" in finding.message
    assert "team-a/train" in finding.message


def test_a_held_queue_fails_by_what_waits_and_not_by_what_runs() -> None:
    held = [queue(stopPolicy="Hold", active=inactive("Stopped"))]
    assert only(judged(work("QuotaReserved", "Admitted"), clusterqueues=held)).outcome is Outcome.NOT_JUDGED
    assert only(judged(work(), clusterqueues=held)).outcome is Outcome.BAD
    stopped_now = [queue(stopPolicy="Hold", active=inactive("Stopped", minutes=3))]
    young = only(judged(work(), clusterqueues=stopped_now))
    assert young.outcome is Outcome.UNDECIDED
    assert "ask again in 12 min" in young.message
    assert only(judged(work(minutes=3), clusterqueues=held)).outcome is Outcome.UNDECIDED


def test_a_local_queue_can_be_stopped_too() -> None:
    finding = only(judged(work(), localqueues=[local(stopPolicy="Hold")]))
    assert (str(finding.subject), finding.outcome) == ("LocalQueue team-a/gpu", Outcome.BAD)


def test_a_queue_that_is_not_there_admits_nothing() -> None:
    no_local, no_queue = only(judged(work(queue="gpus"))), only(judged(work(), localqueues=[local("other")]))
    assert (no_local.outcome, no_queue.outcome) == (Outcome.BAD, Outcome.BAD)
    assert "LocalQueue gpus" in no_local.message
    assert "ClusterQueue other" in no_queue.message


@pytest.mark.parametrize("form", [{"admissionChecksStrategy": {"admissionChecks": [{"name": "prov"}]}}, {"admissionChecks": ["prov"]}])
def test_an_admission_check_that_is_down_is_named_before_its_effect(form: Json) -> None:
    down = queue(active=inactive("AdmissionCheckInactive", "references inactive AdmissionCheck(s): prov"), **form)
    check: Json = {"metadata": {"name": "prov"}, "status": {"conditions": [inactive("BadParametersRef", "no config")]}}
    finding = only(judged(work(), clusterqueues=[down], admissionchecks=[check]))
    assert finding.outcome is Outcome.BAD
    assert "AdmissionCheck prov is not Active: BadParametersRef: no config" in finding.message
    missing = only(judged(work(), clusterqueues=[down]))
    assert "AdmissionCheck prov, and there is none" in missing.message


def test_a_queue_that_says_nothing_is_undecided() -> None:
    assert only(judged(work(), clusterqueues=[queue(active={})])).outcome is Outcome.UNDECIDED


def test_a_worker_cluster_that_is_lost_fails_although_the_check_stays_active() -> None:
    """kubernetes-sigs/kueue#1673: one of several clusters is enough for the check."""
    check: Json = {
        "metadata": {"name": "mk"},
        "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
        "status": {"conditions": [ACTIVE]},
    }
    lost: Json = {"metadata": {"name": "west"}, "status": {"conditions": [inactive("ClientConnectionFailed", "dial tcp: i/o timeout")]}}
    there: Json = {"metadata": {"name": "east"}, "status": {"conditions": [ACTIVE]}}
    asks = [queue(admissionChecksStrategy={"admissionChecks": [{"name": "mk"}]})]
    found = judged(work(), clusterqueues=asks, admissionchecks=[check], multikueueclusters=[lost, there])
    assert {str(finding.subject): finding.outcome for finding in found} == {
        "ClusterQueue queue": Outcome.OK,
        "MultiKueueCluster west": Outcome.BAD,
        "MultiKueueCluster east": Outcome.OK,
    }
    lost["status"]["conditions"][0]["lastTransitionTime"] = ago(2)
    assert judged(work(), clusterqueues=asks, admissionchecks=[check], multikueueclusters=[lost])[1].outcome is Outcome.UNDECIDED
    assert len(judged(work(), admissionchecks=[check], multikueueclusters=[lost])) == 1  # the queue asks no worker cluster
    there_now = [{"name": "mk", "state": "Ready", "message": 'The workload got reservation on "west"'}]
    runs = judged(work("QuotaReserved", "Admitted", admissionChecks=there_now), admissionchecks=[check], multikueueclusters=[lost, there])
    assert [str(found.subject) for found in runs if found.subject.kind == "MultiKueueCluster"] == ["MultiKueueCluster west"]


def evictions(reason: str, count: int) -> Json:
    return {"evictions": [{"reason": reason, "underlyingCause": "", "count": count}]}


def test_a_workload_that_goes_round_fails() -> None:
    """kubernetes-sigs/kueue#12656: admitted, not ready in time, evicted, admitted again."""
    rounds = judged(work("Evicted", schedulingStats=evictions("PodsReadyTimeout", 6)))
    assert [finding.outcome for finding in rounds] == [Outcome.OK, Outcome.BAD]
    assert "evicted 6 times" in rounds[1].observed
    assert judged(work("Evicted", requeueState={"count": 5}))[1].outcome is Outcome.BAD
    assert judged(work("QuotaReserved", "Admitted", schedulingStats=evictions("AdmissionCheck", 4)))[1].outcome is Outcome.BAD


def test_a_round_that_ended_or_made_room_for_others_is_no_trouble() -> None:
    ready = judged(work("QuotaReserved", "Admitted", "PodsReady", requeueState={"count": 5}))
    assert [finding.outcome for finding in ready] == [Outcome.OK, Outcome.OK]
    assert len(judged(work("Evicted", schedulingStats=evictions("Preempted", 30)))) == 1
    assert len(judged(work("Evicted", schedulingStats=evictions("PodsReadyTimeout", 2)))) == 1


def test_work_that_ended_was_given_up_or_asks_for_no_device_is_no_subject() -> None:
    given_up = work("Evicted", requeueState={"count": 9})
    given_up["spec"]["active"] = False
    with pytest.raises(NotApplicable):
        judged(work("Finished"), given_up, work(devices=0), clusterqueues=[queue(stopPolicy="Hold")])


# -- Volcano --


def group(phase: str, minutes: float = 60, **spec: Any) -> Json:
    meta = {"name": "g", "namespace": "team-a", "creationTimestamp": ago(minutes)}
    return {"metadata": meta, "spec": {"minMember": 2, "minResources": {"nvidia.com/gpu": "16"}, **spec}, "status": {"phase": phase}}


def volcano(state: str | None, *groups: Json, **more: Any) -> Finding:
    queues = [] if state is None else [{"metadata": {"name": "default"}, "status": {"state": state}}]
    lists: Json = {"scheduling_volcano_sh__podgroups": groups, "scheduling_volcano_sh__queues": queues, **more}
    return only(list(check_queues_admit(a_scope(None, **lists), NOW)))


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_of_volcano_that_is_not_open_lets_nothing_in(state: str) -> None:
    """volcano-sh/volcano#1737: a queue that was closed over a pending job ends as Unknown."""
    finding = volcano(state, group("Pending"))
    assert finding.outcome is Outcome.BAD
    assert f"it is {state}" in finding.message
    assert volcano(state, group("Pending", minutes=5)).outcome is Outcome.UNDECIDED
    assert volcano(state, group("Running")).outcome is Outcome.NOT_JUDGED


def test_a_state_that_was_never_set_is_undecided() -> None:
    """volcano-sh/volcano#3173."""
    assert volcano("", group("Pending")).outcome is Outcome.UNDECIDED


def test_the_pods_of_a_group_say_that_it_asks_for_devices() -> None:
    pods = [a_pod("g-0", devices=8, annotations={"scheduling.k8s.io/group-name": "g"})]
    assert volcano("Closed", group("Pending", minResources={}), pods=pods).outcome is Outcome.BAD
    with pytest.raises(NotApplicable):
        volcano("Closed", group("Pending", minResources={"cpu": "4"}))
    with pytest.raises(NotApplicable):
        volcano("Closed", group("Completed"))


def test_a_group_above_its_queue_is_never_placed() -> None:
    def least(capability: Json, minutes: float = 60) -> Outcome:
        queues = [{"metadata": {"name": "default"}, "spec": {"capability": capability}, "status": {"state": "Open"}}]
        lists: Json = {"scheduling_volcano_sh__podgroups": [group("Inqueue", minutes)], "scheduling_volcano_sh__queues": queues}
        return only(list(check_queues_admit(a_scope(None, **lists), NOW))).outcome

    assert least({"nvidia.com/gpu": "15"}) is Outcome.BAD
    assert least({"nvidia.com/gpu": "15"}, minutes=5) is Outcome.UNDECIDED
    assert least({"nvidia.com/gpu": "16"}) is Outcome.OK
    assert least({"cpu": "1"}) is Outcome.OK


# -- strict order: kubernetes-sigs/kueue#8309, #8393, #4809 --

FLAVORS: list[Json] = [{"metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}}} for name in ("a", "b")]


def queued(
    name: str, *, pool: str = "", devices: int = 8, minutes: float = 480, priority: int = 0, held: str = "", cpu: str = "", parts: int = 1
) -> Json:
    found = work(*(["QuotaReserved", "Admitted"] if held else []), minutes=minutes, name=name)
    amounts = {"nvidia.com/gpu": str(devices)} if devices else {}
    spec = a_spec(devices={**amounts, **({"cpu": cpu} if cpu else {})}, nodeSelector={"pool": pool} if pool else {})
    found["spec"] |= {
        "priority": priority,
        "podSets": [{"name": f"part-{n}", "count": 1, "template": {"spec": spec}} for n in range(parts)],
    }
    if held:
        assignment = {"name": "main", "flavors": {"nvidia.com/gpu": held}, "resourceUsage": {"nvidia.com/gpu": str(devices)}}
        found["status"]["admission"] = {"clusterQueue": "queue", "podSetAssignments": [assignment]}
    return found


def strict(*workloads: Json, strategy: str = "StrictFIFO", busy: int = 0, cohort: str = "", **quota: str) -> Finding:
    nominal = {"a": "8", "b": "8", **quota}
    of_flavors = [{"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": nominal[name]}]} for name in ("a", "b")]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": of_flavors}]
    if "cpu" in quota:
        flavor = {"name": "a", "resources": [{"name": "cpu", "nominalQuota": quota["cpu"]}]}
        groups.append({"coveredResources": ["cpu"], "flavors": [flavor]})
    nodes = [a_node(f"gpu-{name}", labels={"pool": name}) for name in ("a", "b")]
    pods = [a_pod("holder-a", node="gpu-a", devices=8), *([a_pod("holder-b", node="gpu-b", devices=busy)] if busy else [])]
    lists: dict[str, Any] = {
        "clusterqueues": [queue(queueingStrategy=strategy, cohort=cohort, resourceGroups=groups)],
        "resourceflavors": FLAVORS,
    }
    return only(judged(*workloads, **lists, nodes=nodes, pods=pods))


RUNS = queued("runs", held="a")


@each_row
def test_a_strict_queue_lets_its_head_block_no_other_flavor(workloads: list[Json], more: dict[str, Any], expected: Outcome) -> None:
    finding = strict(RUNS, *[queued(**one) for one in workloads], **more)
    assert finding.outcome is expected, finding.message
    if expected is Outcome.BAD:
        assert "8 nvidia.com/gpu of flavor b" in finding.message
