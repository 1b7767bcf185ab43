"""Each case is from a public report, or is what a healthy cluster looks like after a reboot or an upgrade."""

from typing import Any

import pytest

from conformance.ops.restarts import check_restarts
from fixtures.kubernetes.models import Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.model.nodes.reported import DAY, HOUR, MINUTE, ago

EXPORTER = "nvidia-dcgm-exporter"


def ended(reason: str = "Error", code: int = 1, *, age: float = HOUR, ran: float = MINUTE) -> dict[str, Any]:
    """How the last run of a container ended."""
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": ago(age), "startedAt": ago(age + ran)}}


def a_member(
    count: int = 0,
    last: dict[str, Any] | None = None,
    *,
    waiting: str = "",
    name: str = "exporter-0",
    node: str = "gpu-0",
    age: float = 10 * DAY,
    owner: str = f"DaemonSet/{EXPORTER}",
    init: bool = False,
) -> Pod:
    """A pod of the exporter whose container restarted ``count`` times."""
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {"startedAt": ago(HOUR)}}
    status = {"name": "exporter", "restartCount": count, "lastState": last or {}, "state": state}
    key = "initContainerStatuses" if init else "containerStatuses"
    pod = a_pod(name, "gpu-operator", node=node, owner=owner, status={key: [status]})
    pod.metadata.creation_timestamp = ago(age)
    return pod


def judged(*pods: Pod, **policy: Any) -> Finding:
    nodes = [a_node(f"gpu-{number}") for number in range(4)]
    scope = a_scope(a_policy(**policy), nodes=nodes, daemonsets=[a_daemonset(EXPORTER)], pods=pods)
    (finding,) = check_restarts(scope)
    return finding


def test_a_pod_that_has_just_started_may_fail_until_the_driver_is_there() -> None:
    young = a_member(3, ended(age=MINUTE), waiting="CrashLoopBackOff", age=5 * MINUTE)
    finding = judged(young)
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in 10 min" in finding.message
    assert judged(a_member(9, ended(age=MINUTE), waiting="CrashLoopBackOff", age=5 * MINUTE)).outcome is Outcome.BAD


def test_many_restarts_of_a_young_pod_fail() -> None:
    assert judged(a_member(6, ended(), age=20 * HOUR)).outcome is Outcome.BAD
    assert judged(a_member(6, ended(), age=20 * HOUR), operators={"maxRestarts": 10}).outcome is Outcome.OK


def test_restarts_that_are_over_pass() -> None:
    assert judged(a_member(40, ended(age=9 * DAY), age=10 * DAY)).outcome is Outcome.OK


def test_a_loop_that_a_reboot_ended_is_undecided_and_not_forgotten() -> None:
    finding = judged(a_member(270, ended("Unknown", 255, age=HOUR), age=4 * DAY))
    assert finding.outcome is Outcome.UNDECIDED


def test_restarts_over_a_long_life_pass_if_the_last_run_was_long() -> None:
    assert judged(a_member(12, ended(ran=20 * DAY), age=200 * DAY)).outcome is Outcome.OK


def test_a_late_series_of_crashes_cannot_be_reported_from_an_early_one() -> None:
    finding = judged(a_member(12, ended(ran=MINUTE), age=200 * DAY))
    assert finding.outcome is Outcome.UNDECIDED


def killed(number: int, **more: Any) -> Pod:
    return a_member(1, ended("OOMKilled", 137), name=f"exporter-{number}", node=f"gpu-{number}", **more)


def test_an_agent_that_runs_out_of_memory_on_several_nodes_fails_though_each_pod_is_ready() -> None:
    finding = judged(killed(0), killed(1), a_member(name="exporter-2", node="gpu-2"))
    assert finding.outcome is Outcome.BAD
    assert "2 of 3 pods ran out of memory" in finding.message
    assert "exporter-1 on gpu-1" in finding.message


def test_one_pod_that_ran_out_of_memory_once_is_listed_and_passes() -> None:
    finding = judged(killed(0), a_member(name="exporter-1", node="gpu-1"))
    assert finding.outcome is Outcome.OK
    assert "OOMKilled once: exporter-0" in finding.observed


@pytest.mark.parametrize(("reason", "code"), [("Unknown", 255), ("Completed", 0), ("Error", 143), ("ContainerStatusUnknown", 137)])
def test_a_reboot_or_an_upgrade_of_the_whole_fleet_is_no_fault_of_its_agents(reason: str, code: int) -> None:
    pods = [a_member(6, ended(reason, code), name=f"exporter-{number}", node=f"gpu-{number}", age=100 * DAY) for number in range(4)]
    assert judged(*pods).outcome is Outcome.OK


def test_pods_of_another_generation_do_not_count_when_they_are_going() -> None:
    going = a_member(840, ended(), waiting="CrashLoopBackOff")
    going.metadata.deletion_timestamp = ago(MINUTE)
    assert judged(going, a_member(name="exporter-1")).outcome is Outcome.OK


def test_a_restart_without_a_time_is_undecided() -> None:
    last = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": "soon"}}
    assert judged(a_member(40, last)).outcome is Outcome.UNDECIDED


def controller(namespace: str, count: int) -> Pod:
    pod = a_member(
        count, ended("OOMKilled", 137), waiting="CrashLoopBackOff", name="c-7d9f8b6c5d-x2v4q", owner="ReplicaSet/gpu-operator-7d9f8b6c5d"
    )
    pod.metadata.namespace, pod.metadata.labels = namespace, {"pod-template-hash": "7d9f8b6c5d"}
    return pod


def test_controllers_in_the_stack_s_namespaces_count_and_tenants_pods_do_not() -> None:
    pods = [controller("gpu-operator", 15), controller("volcano-system", 15), controller("team-a", 15), controller("kube-system", 15)]
    findings = list(check_restarts(a_scope(nodes=[a_node()], daemonsets=[a_daemonset(EXPORTER)], pods=pods)))
    assert [str(finding.subject) for finding in findings] == [
        "Deployment gpu-operator/gpu-operator",
        "Deployment volcano-system/gpu-operator",
    ]
    assert {finding.outcome for finding in findings} == {Outcome.BAD}


def test_a_replica_set_of_no_deployment_is_called_by_its_own_name() -> None:
    pod = a_member(owner="ReplicaSet/gpu-operator")
    (finding,) = check_restarts(a_scope(nodes=[a_node()], daemonsets=[a_daemonset(EXPORTER)], pods=[pod]))
    assert str(finding.subject) == "ReplicaSet gpu-operator/gpu-operator"


def test_a_tenant_cannot_name_its_namespace_like_the_stack() -> None:
    pods = [controller("my-gpu-operator-demo", 15)]
    with pytest.raises(NotApplicable):
        list(check_restarts(a_scope(nodes=[a_node()], pods=pods)))


def test_two_of_two_hundred_exporters_had_bad_luck() -> None:
    pods = [a_member(name=f"exporter-{number}", node=f"gpu-{number}") for number in range(2, 200)]
    assert judged(killed(0), killed(1), *pods).outcome is Outcome.OK
    assert judged(*[killed(number) for number in range(5)], *pods[3:]).outcome is Outcome.BAD


def test_jobs_and_bare_pods_in_a_namespace_of_the_platform_are_no_controllers() -> None:
    loop = ended("OOMKilled", 137)
    pods = [a_member(15, loop, waiting="CrashLoopBackOff", owner="Job/pipeline"), a_member(15, loop, waiting="CrashLoopBackOff", owner="")]
    with pytest.raises(NotApplicable):
        list(check_restarts(a_scope(nodes=[a_node()], pods=pods)))


def test_a_crashing_pod_of_a_tenant_that_names_the_agent_s_daemonset_as_its_owner_is_not_the_agent_s() -> None:
    forged = a_member(900, ended(), waiting="CrashLoopBackOff", name="forged")
    forged.metadata.namespace = "aaa"
    finding = judged(a_member(), forged)
    assert (finding.outcome, finding.observed) == (Outcome.OK, "1 pods, 0 restarts in their lives")
