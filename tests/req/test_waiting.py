"""REQ-12: pods and jobs that wait although devices that fit them are free."""

import time
from typing import Any

import msgspec
import pytest

from conformance.req.waiting import MAX_ASKED, check_waiting, recheck
from conformance.req.without_pods import check_jobs_without_pods
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.placement.claimable import ClaimedDevices, claimed_devices_of
from fixtures.model.placement.fitting import FreeCapacity, requests_of
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_node, a_pod, a_pod_spec, a_policy, a_scope, a_spec, a_workload
from tests.dra import a_claim, a_class, a_device, a_slice, a_template
from tests.findings import by_name, messages
from tests.judging import asking
from tests.req.suffering import DAY, HOUR, MINUTE, NOW, ago, an_event, created
from tests.tables import each_row

TOLERATES = "nvidia.com/gpu:NoSchedule"
FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def aged(node: Node, age: float = 30 * DAY) -> Node:
    node.metadata.creation_timestamp = ago(age)
    return node


def a_waiting_pod(name: str = "train-0", *, age: float = 5 * HOUR, reported: str = "", devices: Any = 1, **more: Any) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reported}
    more.setdefault("tolerations", [TOLERATES])
    return created(a_pod(name, devices=devices, status={"conditions": [condition] if reported else []}, **more), age)


def scope(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Scope:
    return a_scope(nodes=[aged(a_node())] if nodes is None else nodes, pods=list(pods), **more)


def judged(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> list[Finding]:
    return list(check_waiting(scope(*pods, nodes=nodes, **more), NOW))


def outcome(*pods: Pod, nodes: list[Node] | None = None, **more: Any) -> Outcome:
    return by_name(judged(*pods, nodes=nodes, **more))["train-0"]


def holders(count: int, node: str = "gpu-0") -> Pod:
    return a_pod(f"holder-{node}", devices=count, node=node)


def test_a_pod_that_waits_beside_free_devices_is_named_with_node_devices_and_reason() -> None:
    denied = 'admission webhook "validate.kyverno.svc" denied the request: requests must equal limits'
    event = an_event("BindingError", f"Failed to bind pod team-a/train-0 to node gpu-0: {denied}", reporter="kai-scheduler")
    findings = judged(a_waiting_pod(schedulerName="kai-scheduler"), holders(6), events=[event])
    assert by_name(findings) == {"train-0": Outcome.BAD}
    assert "it has waited for 5 h although gpu-0 has 2 nvidia.com/gpu free" in messages(findings)


@each_row
def test_a_pod_that_wants_a_part_of_a_device_waits_for_a_whole_one(
    held: int, annotations: dict[str, str], scheduler: str, expected: dict[str, Outcome]
) -> None:
    """kai-scheduler/KAI-Scheduler#39, #65."""
    findings = judged(a_waiting_pod(devices=0, annotations=annotations, schedulerName=scheduler), holders(held))
    assert by_name(findings) == expected


@each_row
def test_a_pod_that_fits_nowhere_waits_rightly(pod: dict[str, Any], node: dict[str, Any]) -> None:
    asks = a_waiting_pod(**pod)
    asks.spec.containers[0].resources.requests = {**(asks.spec.containers[0].resources.requests or {}), "cpu": "1"}
    place = aged(a_node(**node))
    assert outcome(asks, holders(6), nodes=[place]) is Outcome.OK
    [(_, why)] = FreeCapacity(scope(asks, holders(6), nodes=[place]), NOW).refusals([place], asks.spec)
    assert why, "and it is known"


def test_a_node_that_would_take_a_pod_refuses_it_for_no_reason() -> None:
    found = scope(asks := a_waiting_pod(devices=2), holders(6))
    rooms = FreeCapacity(found, NOW)
    assert [why for _, why in rooms.refusals(found.snapshot.nodes, asks.spec)] == [""]
    assert rooms.place(asks.spec) is not None
    assert [why for _, why in rooms.refusals(found.snapshot.nodes, asks.spec)] == ["too little is free of nvidia.com/gpu"]


# what the scheduler says: opendatahub-io/odh-manifests#259 (volume), loft-sh/devpod-provider-kubernetes#63 (another pod's place)
@each_row
def test_what_the_scheduler_says_beyond_the_arithmetic_is_believed(reported: str, expected: Outcome) -> None:
    assert outcome(a_waiting_pod(reported=reported)) is expected


@each_row
def test_a_wish_that_only_a_scheduler_can_weigh_is_not_judged_without_its_word(wish: dict[str, Any]) -> None:
    pod = a_waiting_pod()
    pod.spec = msgspec.convert({**a_spec(devices=1, tolerations=[TOLERATES]), **wish}, type(pod.spec), strict=False)
    assert outcome(pod) is Outcome.NOT_JUDGED
    pod.status.conditions = a_waiting_pod(reported=FULL).status.conditions
    assert outcome(pod) is Outcome.BAD


CANNOT = "0/1 nodes are available: 1 cannot allocate all claims."


def by_dra(pod: Pod, *, devices: Any = 2, extended: str = "", template: Json | None = None, **items: Any) -> list[Finding]:
    """One node with devices in its slice; pods that claim do so by a template named ``one``."""
    known = {
        "resourceslices": [a_slice("gpu-0", devices=devices)],
        "deviceclasses": [a_class(extended=extended)],
        "resourceclaimtemplates": [template or a_template("one")],
        **items,
    }
    return judged(pod, nodes=[aged(a_cpu_node("gpu-0"))], **known)


def claiming(**more: Any) -> Pod:
    return a_waiting_pod(devices=0, resourceClaims=[{"name": "d", "resourceClaimTemplateName": "one"}], **more)


def test_pods_that_do_not_all_fit_leave_what_others_were_given() -> None:
    parts: dict[str, Any] = {"resourceslices": [a_slice("gpu-0", devices=1)], "deviceclasses": [a_class()]}
    pod, plain = claiming(), a_waiting_pod(devices=0)
    found = scope(pod, nodes=[aged(a_cpu_node("gpu-0"))], resourceclaimtemplates=[a_template("one")], **parts)
    rooms, claimed = FreeCapacity(found, NOW), claimed_devices_of(found, pod.spec, pod.namespace, None)
    assert rooms.fit([(pod.spec, claimed)])
    assert rooms.place(pod.spec, claimed) is not None
    assert rooms.place_all([(plain.spec, ClaimedDevices()), (pod.spec, claimed)]) == []
    assert rooms.place(pod.spec, claimed) is None


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"])
def test_a_pod_that_asks_for_an_extended_resource_of_a_class_waits_beside_free_devices(resource: str) -> None:
    findings = by_dra(a_waiting_pod(devices={resource: 1}, reported=CANNOT), extended="nvidia.com/gpu")
    assert by_name(findings) == {"train-0": Outcome.BAD}
    assert f"2 {resource} free" in messages(findings)
    assert by_name(by_dra(a_waiting_pod(devices={resource: 3}, reported=CANNOT), extended="nvidia.com/gpu")) == {"train-0": Outcome.OK}


def test_devices_that_are_held_tainted_or_not_selected_are_not_free_for_a_claim() -> None:
    held = [a_claim(f"c{index}", device=f"gpu-{index}") for index in range(2)]
    assert by_name(by_dra(claiming(reported=CANNOT), resourceclaims=held)) == {"train-0": Outcome.OK}
    lost = [a_device("gpu-0", taints=[{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}])]
    assert by_name(by_dra(claiming(reported=CANNOT), devices=lost)) == {"train-0": Outcome.OK}
    mig = a_class(expression="device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'")
    assert by_name(by_dra(claiming(reported=CANNOT), deviceclasses=[mig])) == {"train-0": Outcome.OK}
    strange = a_class(expression="device.driver == 'gpu.nvidia.com' && has(device.attributes)")
    assert by_name(by_dra(claiming(reported=CANNOT), deviceclasses=[strange])) == {"train-0": Outcome.OK}  # nothing is certain to match


@each_row
def test_claims_that_only_a_scheduler_can_weigh_are_not_judged(spec: Json) -> None:
    template = {"metadata": {"name": "one", "namespace": "team-a"}, "spec": {"spec": spec}}
    findings = by_dra(claiming(reported=CANNOT), template=template)
    assert Outcome.BAD not in by_name(findings).values()
    assert Outcome.OK not in by_name(findings).values()


def test_slices_that_were_written_a_moment_ago_leave_time_to_the_scheduler() -> None:
    item = a_slice("gpu-0", devices=2)
    item["metadata"]["managedFields"] = [{"manager": "gpu-kubelet-plugin", "time": ago(MINUTE)}]
    assert by_name(by_dra(claiming(reported=CANNOT), resourceslices=[item])) == {"train-0": Outcome.UNDECIDED}


def the_pod(row: dict[str, Any]) -> Pod:
    """The pod of a row: one that ``waits``, or ``holds`` devices, or ``ended`` so long ago; else as it is written."""
    if "waits" in row:
        nominated, pod = row.pop("nominated", ""), a_waiting_pod(row.pop("waits"), **{"reported": FULL, **row})
        pod.status.nominated_node_name = nominated
        return pod
    if "holds" in row:
        return created(holders(row["holds"]), DAY, deleted=row.get("deleted"))
    if "ended" in row:
        state = {"name": "m", "state": {"terminated": {"exitCode": 0, "finishedAt": ago(row["ended"])}}}
        return a_pod("over", devices=8, node="gpu-0", phase="Succeeded", status={"containerStatuses": [state]})
    return a_pod(**row)


@each_row
def test_which_pods_wait_rightly(
    pods: list[dict[str, Any]], node: dict[str, Any], policy: dict[str, Any], expected: dict[str, Outcome], says: str
) -> None:
    nodes = [aged(a_node(labels=node.get("labels")), node.get("age", 30 * DAY))]
    found = list(check_waiting(scope(*(the_pod(dict(row)) for row in pods), nodes=nodes, policy=a_policy(requests=policy)), NOW))
    assert by_name(found) == expected
    assert says in messages(found)


# -- gangs


@each_row
def test_a_gang_waits_rightly_until_all_of_it_is_there_and_fits(count: int, devices: int, minimum: int, outcome: Outcome) -> None:
    more: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "llm"}, "schedulerName": "volcano", "devices": devices}
    pods = [a_waiting_pod(f"llm-{index}", reported="pod group is not ready", **more) for index in range(count)]
    group = {"metadata": {"name": "llm", "namespace": "team-a"}, "spec": {"minMember": minimum}, "status": {"phase": "Pending"}}
    nodes = [aged(a_node()), aged(a_node("gpu-1"))]
    assert by_name(judged(*pods, nodes=nodes, scheduling_volcano_sh__podgroups=[group])) == {"llm": outcome}


def test_pods_of_an_unknown_gang_must_fit_together() -> None:
    together: dict[str, Any] = {"annotations": {"pod-group-name": "pg-1"}, "schedulerName": "kai-scheduler", "devices": 6}
    pods = [a_waiting_pod(f"train-{index}", **together) for index in range(2)]
    assert by_name(judged(*pods)) == {"pg-1": Outcome.OK}


# -- asked again


class Now(Cluster):
    """A cluster that has these pods now."""

    def __init__(self, pods: list[Json]) -> None:
        self._pods = pods

    def path(self, key: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return "/api/v1/pods"

    def find(self, key: str, name: str, namespace: str = "", *, labels: str = "") -> Json | None:
        return next((item for item in self._pods if item["metadata"]["name"] == name), None)

    def request(self, method: str, path: str, **more: Any) -> Answer:
        node = more["query"]["fieldSelector"].partition("=")[2]
        items = [item for item in self._pods if item["spec"].get("nodeName") == node]
        return Answer(status=200, body=msgspec.json.encode({"items": items}))


@each_row
def test_a_busy_cluster_is_asked_again_before_it_is_blamed(now: list[Pod], expected: Outcome) -> None:
    before = scope(a_waiting_pod(reported=FULL))
    slept: list[float] = []
    still = recheck(asking(Now([msgspec.to_builtins(pod) for pod in now])), before.snapshot, slept.append)
    assert by_name(check_waiting(before, NOW, still)) == {"train-0": expected}
    assert slept == [max(0.0, NOW + 10 - time.time())] or slept[0] <= NOW + 10


def test_a_busy_cluster_is_asked_again_by_the_clock_of_this_machine() -> None:
    """Pods' ages are by the cluster's clock, which may be hours away."""
    for away in (-2 * HOUR, 2 * HOUR):
        before, slept = scope(a_waiting_pod(reported=FULL)), list[float]()
        before.snapshot.read_at, before.snapshot.taken_at = time.time(), time.time() + away
        still = recheck(asking(Now([])), before.snapshot, slept.append)
        assert by_name(check_waiting(before, NOW, still)) == {"train-0": Outcome.OK}
        assert slept == [pytest.approx(10.0, abs=5.0)]


def test_only_some_are_asked_about() -> None:
    before = scope(*[a_waiting_pod(f"p{index}", reported=FULL) for index in range(MAX_ASKED + 3)], nodes=[aged(a_node(gpus=64))])
    still = recheck(asking(Now([])), before.snapshot, lambda seconds: None)
    found = list(by_name(check_waiting(before, NOW, still)).values())
    assert (found.count(Outcome.OK), found.count(Outcome.BAD)) == (MAX_ASKED, 3)


# -- arithmetic


def test_amounts_are_those_that_the_scheduler_counts() -> None:
    def asks(**amounts: str) -> Json:
        return {"name": "c", "resources": {"requests": amounts}}

    init = [asks(cpu="4"), {**asks(cpu="500m"), "restartPolicy": "Always"}, asks(cpu="1")]
    spec = a_pod_spec(initContainers=init, containers=[asks(cpu="1", memory="1Gi"), asks(memory="1Gi")], overhead={"cpu": "100m"})
    assert {name: float(amount) for name, amount in requests_of(spec).items()} == {"cpu": 4.1, "memory": float(2 << 30)}
    whole = a_pod_spec(containers=[asks(cpu="8")], resources={"requests": {"cpu": "2"}})
    assert requests_of(whole) == {"cpu": 2}
    assert requests_of(a_pod_spec(containers=[asks(cpu="many")])) == {}


# -- jobs without pods


def a_job(age: float = 5 * HOUR, *, status: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    template = {"template": {"spec": a_spec(devices=1, tolerations=[TOLERATES])}}
    job = a_workload("Job", "train", {**template, **spec}, status=status or {})
    job["metadata"] |= {"uid": "uid-train", "creationTimestamp": ago(age), "labels": labels or {}}
    return job


def job_outcome(job: Json, *pods: Pod, **more: Any) -> dict[str, Outcome]:
    return by_name(check_jobs_without_pods(scope(*pods, batch__jobs=[job], **more), NOW))


def a_refusal(message: str) -> Any:
    event = an_event("FailedCreate", message, pod="train", reporter="job-controller")
    event.involved_object.kind = "Job"
    return event


def test_a_job_whose_pods_nobody_can_make_is_named_with_the_reason() -> None:
    event = a_refusal('Error creating: admission webhook "pods.example.com" denied the request')
    findings = list(check_jobs_without_pods(scope(batch__jobs=[a_job()], events=[event]), NOW))
    assert by_name(findings) == {"train": Outcome.BAD}
    assert "has had no pod for 5 h although gpu-0 has devices free" in messages(findings)


@each_row
def test_a_job_that_has_had_pods_or_is_over_does_not_wait_for_its_first(status: Json) -> None:
    assert job_outcome(a_job(status=status)) == {}


def a_job_of(kind: str, spec: Json, status: Json | None = None) -> Json:
    job = a_workload(kind, "tune", spec, status=status or {})
    job["metadata"] |= {"uid": "uid-tune", "creationTimestamp": ago(5 * HOUR)}
    return job


def a_role() -> Json:
    return {"replicas": 2, "template": {"spec": a_spec(devices=1, tolerations=[TOLERATES])}}


KINDS_WITH_PODS: list[tuple[str, str, Json, str]] = [
    ("kubeflow.org/tfjobs", "TFJob", {"tfReplicaSpecs": {"Worker": a_role()}}, "training.kubeflow.org/job-name"),
    ("kubeflow.org/jaxjobs", "JAXJob", {"jaxReplicaSpecs": {"Worker": a_role()}}, "training.kubeflow.org/job-name"),
    ("kubeflow.org/paddlejobs", "PaddleJob", {"paddleReplicaSpecs": {"Worker": a_role()}}, "training.kubeflow.org/job-name"),
    ("kubeflow.org/xgboostjobs", "XGBoostJob", {"xgbReplicaSpecs": {"Worker": a_role()}}, "training.kubeflow.org/job-name"),
    ("grove.io/podcliques", "PodClique", {"replicas": 2, "podSpec": a_spec(devices=1, tolerations=[TOLERATES])}, "grove.io/podclique"),
    ("ray.io/rayjobs", "RayJob", {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "g", **a_role()}]}}, ""),
]


def without_pods(key: str, job: Json, *pods: Pod, **more: Any) -> dict[str, Outcome]:
    named: dict[str, Any] = {key.replace("/", "__").replace(".", "_"): [job], **more}
    return by_name(check_jobs_without_pods(scope(*pods, **named), NOW))


@pytest.mark.parametrize(("key", "kind", "spec", "label"), KINDS_WITH_PODS, ids=[kind for _, kind, _, _ in KINDS_WITH_PODS])
def test_every_kind_that_owns_a_gang_waits_for_its_pods(key: str, kind: str, spec: Json, label: str) -> None:
    job = a_job_of(kind, spec)
    assert without_pods(key, job) == {"tune": Outcome.BAD}
    assert without_pods(key, job, holders(8)) == {"tune": Outcome.OK}
    if label:
        assert without_pods(key, job, a_pod("tune-0", labels={label: "tune"})) == {}


@each_row
def test_a_job_of_such_a_kind_that_is_due_no_pods_is_not_judged(key: str, kind: str, spec: Json, status: Json) -> None:
    made = next(made for other, _, made, _ in KINDS_WITH_PODS if other == key)
    assert without_pods(key, a_job_of(kind, {**made, **spec}, status)) == {}


def a_pod_group(phase: str = "Pending", reported: str = "", *, owner: str = "uid-tune", namespace: str = "team-a") -> Json:
    meta = {"name": "podgroup-tune", "namespace": namespace, "ownerReferences": [{"kind": "TFJob", "name": "tune", "uid": owner}]}
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": reported}
    return {"metadata": meta, "spec": {"queue": "research"}, "status": {"phase": phase, "conditions": [condition] if reported else []}}


def a_word_of_volcano(message: str, age: float = 2 * HOUR) -> Any:
    event = an_event("Unschedulable", message, pod="podgroup-tune", reporter="volcano", age=age)
    event.involved_object.kind = "PodGroup"
    return event


NOT_READY = "0/0 tasks in gang unschedulable: pod group is not ready, 1 minAvailable"


def queued(group: Json, *words: str, age: float = 2 * HOUR) -> list[Finding]:
    job = a_job_of("TFJob", {"tfReplicaSpecs": {"Worker": a_role()}})
    lists: dict[str, Any] = {"kubeflow_org__tfjobs": [job], "scheduling_volcano_sh__podgroups": [group]}
    return list(check_jobs_without_pods(scope(events=[a_word_of_volcano(word, age) for word in words], **lists), NOW))


def test_a_job_that_waits_in_a_full_queue_is_left_alone() -> None:
    """volcano#4479: only the PodGroup's events say it, between others."""
    findings = queued(a_pod_group(reported=NOT_READY), NOT_READY, "queue resource quota insufficient")
    assert by_name(findings) == {"tune": Outcome.NOT_JUDGED}
    assert "queue resource quota insufficient" in messages(findings)


def test_whether_a_queue_without_a_word_of_its_quota_has_room_is_not_guessed() -> None:
    """volcano#3910, volcano#1094: the words are the same whatever keeps the group waiting."""
    findings = queued(a_pod_group(reported=NOT_READY))
    assert by_name(findings) == {"tune": Outcome.UNDECIDED}
    assert f"its PodGroup podgroup-tune waits in queue research, and Volcano says: {NOT_READY}" in messages(findings)


@each_row
def test_a_job_that_its_queue_does_not_hold_back_is_named(group: dict[str, Any], words: tuple[str, ...], stated: str) -> None:
    """trainer#1630: the group was let in, and its controller made no pod. volcano#1863: the scheduler never looked at the group."""
    findings = queued(a_pod_group(**group), *words)
    assert by_name(findings) == {"tune": Outcome.BAD}
    assert stated in messages(findings)


def test_a_job_that_its_queue_held_until_now_waits_since_now() -> None:
    findings = queued(a_pod_group("Inqueue"), "queue resource quota insufficient", age=10)
    assert by_name(findings) == {"tune": Outcome.NOT_JUDGED}
    assert "it has waited for 10 s" in messages(findings)


def resumed(kind: str = "Suspended", *, status: str = "False", age: float = 2) -> Json:
    times = {"lastTransitionTime": ago(age)}
    return {"conditions": [{"type": kind, "status": status, "reason": "JobResumed", "message": "Job resumed", **times}]}


SPECS: dict[str, Json] = {
    **{key: spec for key, _, spec, _ in KINDS_WITH_PODS},
    "batch/jobs": {"template": a_role()["template"]},
    "ray.io/rayclusters": KINDS_WITH_PODS[-1][2]["rayClusterSpec"],
    "kubeflow.org/mpijobs": {"mpiReplicaSpecs": {"Worker": a_role()}},
    "trainer.kubeflow.org/trainjobs": {
        "podTemplateOverrides": [a_role()["template"]],
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    },
    "jobset.x-k8s.io/jobsets": {"replicatedJobs": [{"name": "node", "template": {"spec": a_role()}}]},
}


def the_job(key: str, row: dict[str, Any]) -> Json:
    """The job of a row, with devices in its template; ``resumed`` as the function of that name."""
    status = row.get("status", {}) | (resumed(**row["resumed"]) if "resumed" in row else {})
    job = a_workload(KINDS[key].kind, row.get("name", "tune"), {**SPECS[key], **row.get("spec", {})}, status=status)
    job["metadata"] |= {"uid": f"uid-{key}", "creationTimestamp": ago(row.get("age", 5 * HOUR))}
    return job


@each_row
def test_which_jobs_without_pods_are_named(
    jobs: dict[str, dict[str, Any]], pods: list[dict[str, Any]], events: list[dict[str, Any]], expected: dict[str, Outcome]
) -> None:
    written = []
    for row in events:
        event = a_refusal(row["message"])
        event.involved_object.name, event.type = "tune", row.get("type", event.type)
        event.metadata.namespace = row.get("namespace", "team-a")
        written.append(event)
    lists: dict[str, Any] = {key.replace("/", "__").replace(".", "_"): [the_job(key, row)] for key, row in jobs.items()}
    found = check_jobs_without_pods(scope(*(a_pod(**pod) for pod in pods), events=written, **lists), NOW)
    assert by_name(found) == expected


@pytest.mark.parametrize("left_out", [{"trouble": {"events": "Forbidden"}}, {"offline": True}], ids=["refused", "not saved"])
def test_what_events_may_explain_is_not_blamed_where_they_were_not_read(left_out: dict[str, Any]) -> None:
    """Only events say that a quota refuses a job's pods, or why a scheduler binds none."""
    findings = [
        *check_jobs_without_pods(scope(batch__jobs=[a_job()], **left_out), NOW),
        *check_waiting(scope(a_waiting_pod(), **left_out), NOW),
    ]
    assert by_name(findings) == {"train": Outcome.UNDECIDED, "train-0": Outcome.UNDECIDED}
    assert "events" in messages(findings)
    made = {"conditions": [{"type": "Created", "status": "True", "message": "the job is created"}]}
    assert by_name(check_jobs_without_pods(scope(batch__jobs=[a_job(status=made)], **left_out), NOW)) == {"train": Outcome.UNDECIDED}
    assert by_name(check_waiting(scope(a_waiting_pod(reported=FULL), **left_out), NOW)) == {"train-0": Outcome.BAD}


# -- clusters of others


@pytest.mark.parametrize(("asked", "slices", "wanted"), [(1, 2, Outcome.NOT_JUDGED), (4, 2, Outcome.OK), (1, 0, Outcome.OK)])
def test_no_pod_passes_beside_free_devices_of_a_class_that_serves_its_resource_too(asked: int, slices: int, wanted: Outcome) -> None:
    """Which nodes serve a name by a plugin and which by a DeviceClass is for the scheduler to weigh."""
    more = {"resourceslices": [a_slice("dra-0", devices=slices)], "deviceclasses": [a_class(extended="nvidia.com/gpu")]}
    nodes = [aged(a_node()), aged(a_cpu_node("dra-0"))]
    assert outcome(a_waiting_pod(devices=asked), holders(8), nodes=nodes, **more) is wanted
    elsewhere = a_waiting_pod(devices=asked, nodeSelector={"kubernetes.io/hostname": "gpu-0"})
    assert outcome(elsewhere, holders(8), nodes=nodes, **more) is Outcome.OK
