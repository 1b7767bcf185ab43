"""REQ-11: pods with devices that kubelets or runtimes did not take."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from conformance.common_findings import unless_settling
from conformance.req.refusal_faults import Records, read_of
from conformance.req.refused import PILE, check_refused
from fixtures.cluster.answer import Answer
from fixtures.kubernetes.models import Event, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.demand.failing_pods import Fault, fault
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_container, a_node, a_pod, a_policy, a_scope
from tests.findings import by_name, messages
from tests.judging import asking
from tests.req.suffering import DAY, HOUR, NOW, a_refused_pod, ago, an_event, created, written
from tests.tables import each_row


def scope(*pods: Pod, **more: Any) -> Scope:
    return a_scope(nodes=[a_node(), a_node("gpu-1")], pods=list(pods), **more)


def created_node(name: str, age: float) -> Node:
    node = a_node(name)
    node.metadata.creation_timestamp = ago(age)
    return node


class Api:
    """Answers for single pods. ``written``: managedFields of each pod, by name or for all; a scheduler bound the others."""

    def __init__(self, pods: Iterable[Pod], written: Mapping[str, object] | None = None) -> None:
        self.asked = 0
        self._pods = {(pod.namespace, pod.name): pod for pod in pods}
        self._written = written or {}

    def get(self, key: str, name: str, namespace: str) -> Answer:
        self.asked += 1
        pod = self._pods[namespace, name]
        assert key == "pods"
        fields = self._written.get(name, self._written.get("*", written()))
        return Answer(status=200, body=msgspec.json.encode({"metadata": {"uid": pod.metadata.uid, "managedFields": fields}}))


def judged(*pods: Pod, fields: Mapping[str, object] | None = None, **more: Any) -> list[Finding]:
    return judged_in(scope(*pods, **more), fields)


def judged_in(scope: Scope, fields: Mapping[str, object] | None = None) -> list[Finding]:
    api: Any = Api(scope.snapshot.pods, fields)
    return list(check_refused(scope, NOW, Records(scope.snapshot, partial(read_of, asking(api)))))


def a_start_error(message: str, name: str = "train-0", namespace: str = "team-a", **more: Any) -> Pod:
    ended = {"reason": "StartError", "exitCode": 128, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": ago(HOUR), "message": message}
    statuses = [{"name": "main", "state": {"terminated": ended}}]
    return a_refused_pod(name, namespace=namespace, reason="", message="", status={"containerStatuses": statuses}, **more)


def the_pod(row: dict[str, Any]) -> Pod:
    """The pod of a row: ``fine``, with an ``error`` of its runtime, or refused; ``ended``: how its container ended before."""
    if "fine" in row:
        return a_pod(row["fine"], devices=1, node="gpu-0")
    if "error" in row:
        return a_start_error(row.pop("error"), **row)
    if ended := row.pop("ended", None):
        row["status"] = {"containerStatuses": [{"name": "main", "state": {"terminated": {"startedAt": ago(HOUR), **ended}}}]}
    return a_refused_pod(**row)


@each_row
def test_which_pods_convict_their_node(pods: list[dict[str, Any]], expected: dict[str, Outcome], says: str) -> None:
    findings = judged(*(the_pod(dict(row)) for row in pods))
    assert by_name(findings) == expected
    assert says in messages(findings)


@each_row
def test_every_reason_of_a_refusal_is_seen_by_word_or_by_shape(reason: str, message: str) -> None:
    assert by_name(judged(a_refused_pod(reason=reason, message=message))) == {f"gpu-0 {reason}": Outcome.BAD}


def test_only_the_begin_of_a_long_message_is_searched() -> None:
    bare = a_refused_pod(owner="", tolerations=[], message=f"{'x' * 4096} no healthy devices present")
    assert by_name(judged(bare)) == {"gpu-0 UnexpectedAdmissionError": Outcome.UNDECIDED}


def test_a_pile_counts_however_old() -> None:
    old = [a_refused_pod(f"infer-{index}", age=5 * DAY, owner="ReplicaSet/infer") for index in range(PILE)]
    assert by_name(judged(*old[1:])) == {"gpu-0": Outcome.OK}
    findings = judged(*old)
    assert by_name(findings) == {"gpu-0 UnexpectedAdmissionError": Outcome.BAD}
    assert "piles up" in messages(findings)


def test_twelve_thousand_refusals_are_one_finding() -> None:
    many = [a_refused_pod(f"infer-{index}", age=index) for index in range(12_000)]
    (finding,) = judged(*many)
    assert "12000 device pods" in finding.observed
    assert len(finding.message) < 1000


def test_the_policy_says_how_far_back() -> None:
    shorter = a_policy(requests={"refusedHours": 0.5})
    assert by_name(judged_in(a_scope(shorter, nodes=[a_node()], pods=[a_refused_pod()]))) == {"gpu-0": Outcome.OK}


def test_a_node_that_joined_a_minute_ago_is_asked_again() -> None:
    """karpenter-provider-aws#1476: pods are bound to a new node before its device plugin has registered."""
    young = created_node("gpu-0", 60)
    pods = [a_refused_pod(message="Pod was rejected: no healthy devices present", age=30)]
    found = list(unless_settling(a_scope(nodes=[young], pods=pods), judged_in(a_scope(nodes=[young], pods=pods))))
    assert by_name(found) == {"gpu-0 UnexpectedAdmissionError": Outcome.UNDECIDED}


OF_THE_POD: dict[str, Any] = {
    "volumeMounts": [{"name": "data", "mountPath": "/opt/nvidia"}],
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-mine"}],
}


@each_row
def test_who_is_at_fault_for_a_container_that_was_not_created(message: str, whose: Fault) -> None:
    assert fault(message, a_pod(containers=[a_container(devices=1, **OF_THE_POD)])) is whose


@each_row
def test_a_pod_that_declines_the_tools_of_its_devices_does_not_get_them(variable: str, value: str, whose: Fault) -> None:
    pod = a_pod(containers=[a_container(devices=1, env=[{"name": variable, "value": value}])])
    assert fault('exec: "nvidia-smi": executable file not found in $PATH', pod) is whose


def test_a_hostile_message_is_searched_in_a_moment() -> None:
    pod = a_pod(containers=[a_container(volumeMounts=[{"name": "v", "mountPath": f"/m{number}"} for number in range(5_000)])])
    started = time.monotonic()
    for text in ('\\"' * 2048, "\\" * 4096, '"' * 4096, "`" * 4095, "/dev/kfd mount " + "/m" * 2000, "running " * 512, "exec: " * 700):
        fault(text, pod)
    assert time.monotonic() - started < 2


def a_forged_event(namespace: str = "team-a", **more: Any) -> Event:
    """What a kubelet writes about a refused pod, and what anybody may write who may write events."""
    return an_event(
        "UnexpectedAdmissionError", "Allocate failed due to rpc error for nvidia.com/gpu", pod="gone", namespace=namespace, **more
    )


@pytest.mark.parametrize("new_shape", [False, True], ids=["core", "events.k8s.io"])
def test_what_only_events_tell_of_pods_that_are_gone_is_undecided(new_shape: bool) -> None:
    event = a_forged_event(new_shape=new_shape)
    if new_shape:
        event.reporting_controller = "kubelet"
    findings = judged(a_pod("fine", devices=1, node="gpu-0"), a_pod("other", devices=1, node="gpu-1"), events=[event])
    assert by_name(findings) == {"gpu-0": Outcome.UNDECIDED, "gpu-1": Outcome.OK}
    assert "events in team-a" in messages(findings)
    assert "whoever may write events there" in messages(findings)


def test_events_of_many_tenants_and_reasons_are_one_undecided_finding() -> None:
    events = [an_event(f"OutOfnvidia.com/{n}", "no nvidia.com/gpu", pod="gone", namespace=f"team-{n}", uid=f"u{n}") for n in range(500)]
    (finding,) = judged(events=events)
    assert finding.outcome is Outcome.UNDECIDED
    assert len(finding.message) < 1500


def test_an_event_in_a_namespace_of_the_platform_convicts_a_node() -> None:
    assert by_name(judged(events=[a_forged_event("kube-system")])) == {"gpu-0 UnexpectedAdmissionError": Outcome.BAD}
    assert by_name(judged(events=[a_forged_event("gpu-operator")])) == {"gpu-0": Outcome.UNDECIDED}, "nothing proves whose that name is"


def test_a_refused_pod_that_is_still_there_convicts_its_node_and_events_add_nothing_to_the_count() -> None:
    findings = judged(a_refused_pod(), events=[a_forged_event(uid=f"u-{number}") for number in range(PILE)])
    assert by_name(findings) == {"gpu-0 UnexpectedAdmissionError": Outcome.BAD}


def test_an_old_event_tells_nothing_of_today() -> None:
    assert judged(events=[a_forged_event(age=3 * DAY)]) == []


FULL = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: {}, used: {}, capacity: 8"


NAMED = {"*": written(manager="kubectl-create", node_name=True)}
"""Records of pods that were made with their node's name."""


@each_row
def test_what_a_healthy_node_says_to_a_pod_that_names_it_is_undecided(more: dict[str, Any]) -> None:
    """A pod with spec.nodeName passes no scheduler, and a refused pod does not say who bound it."""
    whole = {"reason": "OutOfnvidia.com/gpu", "message": FULL.format(1, 8), **more}
    findings = judged(a_refused_pod(**whole), fields=NAMED)
    assert by_name(findings) == {f"gpu-0 {whole['reason']}": Outcome.UNDECIDED}
    assert "spec.nodeName" in messages(findings)
    old = created(a_refused_pod(**whole, status={"startTime": ago(9 * DAY)}), 9 * DAY)
    assert by_name(judged(old, fields=NAMED)) == {"gpu-0": Outcome.OK}


@each_row
def test_other_events_tell_of_no_refusal(event: dict[str, Any]) -> None:
    assert by_name(judged(a_pod("other", devices=1, node="gpu-1"), events=[an_event(**event)])) == {"gpu-1": Outcome.OK}


def test_hostile_words_are_bounded_and_on_one_line() -> None:
    (finding,) = judged(a_refused_pod(message="Pod was rejected: " + "a\n\x1b[31m" * 100_000))
    assert "\n" not in finding.message
    assert len(finding.message) < 1000


def test_a_time_that_is_none_counts_as_recent() -> None:
    pod = created(a_refused_pod(status={"startTime": "never"}), 0)
    pod.metadata.creation_timestamp = "yesterday"
    assert by_name(judged(pod)) == {"gpu-0 UnexpectedAdmissionError": Outcome.BAD}
