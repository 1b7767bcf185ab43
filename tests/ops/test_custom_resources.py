from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from conformance.net.advertising import check_nic_cluster_policy
from conformance.ops.custom_resources import check_ready
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_cpu_node, a_daemonset, a_node, a_pod, a_scope
from tests.tables import each_row


def ago(minutes: float) -> str:
    return datetime.fromtimestamp(a_scope().snapshot.taken_at - minutes * 60, UTC).isoformat()


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}


READY = [condition("Ready", "True", "Reconciled"), condition("Error", "False", "Ready")]


def an_object(name: str = "cluster-policy", state: str = "ready", conditions: list[Json] | None = None, **status: object) -> Json:
    return {
        "metadata": {"name": name, "generation": 1},
        "status": {"state": state, "conditions": READY if conditions is None else conditions, **status},
    }


def by_name(findings: Iterable[Finding]) -> dict[str, Outcome]:
    return {str(finding.subject): finding.outcome for finding in findings}


def messages(findings: Iterable[Finding]) -> str:
    return "\n".join(finding.message for finding in findings if finding.outcome is Outcome.BAD)


@each_row
def test_states_and_reasons_that_are_not_ready(state: str, conditions: list[Json], word: str) -> None:
    findings = list(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object(state=state, conditions=conditions)])))
    assert by_name(findings)["ClusterPolicy cluster-policy"] is Outcome.BAD
    assert word in messages(findings)


@pytest.mark.parametrize(("ready", "error", "expected"), [(3, 3, "undecided"), (20, 20, "bad"), (600, 3, "bad"), (3, None, "undecided")])
def test_an_object_that_became_unready_a_moment_ago_is_asked_again(ready: float, error: float | None, expected: str) -> None:
    conditions = [{**condition("Ready", "False", "OperandNotReady"), "lastTransitionTime": ago(ready)}]
    if error:
        conditions.append({**condition("Error", "True", "OperandNotReady"), "lastTransitionTime": ago(error)})
    policy = an_object(state="notReady", conditions=conditions)
    scope = a_scope(nodes=[a_node()], clusterpolicies=[policy], nicclusterpolicies=[{**policy, "metadata": {"name": "nic-cluster-policy"}}])
    found = [*check_ready(scope), *check_nic_cluster_policy(scope)]
    assert [one.outcome.value for one in found if one.subject.name in ("cluster-policy", "nic-cluster-policy")] == [expected] * 3


def test_an_object_waits_for_an_agent_of_its_own_that_rolls_out() -> None:
    def judged(minutes: float) -> Outcome:
        pod = a_pod("plugin", "gpu-operator", node="gpu-0", owner="DaemonSet/nvidia-device-plugin-daemonset")
        pod.metadata.creation_timestamp = ago(minutes)
        policy = an_object(state="notReady", conditions=[])
        policy["metadata"]["uid"] = "uid-cluster-policy"
        daemonset = a_daemonset(status={"numberReady": 0, "numberAvailable": 0})
        return by_name(check_ready(a_scope(nodes=[a_node()], pods=[pod], daemonsets=[daemonset], clusterpolicies=[policy])))[
            "ClusterPolicy cluster-policy"
        ]

    assert (judged(3), judged(40)) == (Outcome.UNDECIDED, Outcome.BAD)


def test_without_conditions_readiness_needs_an_accelerator_node() -> None:
    old = an_object(conditions=[])
    assert by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[old])))["ClusterPolicy cluster-policy"] is Outcome.OK
    assert by_name(check_ready(a_scope(nodes=[a_cpu_node()], clusterpolicies=[old])))["ClusterPolicy cluster-policy"] is Outcome.BAD


def test_exactly_one_that_is_not_ignored() -> None:
    ignored = an_object("second", state="ignored")
    found = by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object(), ignored])))
    assert found == {"ClusterPolicy *": Outcome.OK, "ClusterPolicy cluster-policy": Outcome.OK, "ClusterPolicy second": Outcome.NOT_JUDGED}
    for policies in ([an_object(), an_object("second")], [ignored]):
        assert by_name(check_ready(a_scope(nodes=[a_node()], clusterpolicies=policies)))["ClusterPolicy *"] is Outcome.BAD


def test_a_cluster_policy_and_a_gpu_cluster_exclude_each_other() -> None:
    findings = list(check_ready(a_scope(nodes=[a_node()], clusterpolicies=[an_object()], gpuclusters=[an_object("gpu-cluster")])))
    assert "exist together" in messages(findings)
    (count, alone) = check_ready(a_scope(nodes=[a_node()], gpuclusters=[an_object("gpu-cluster")]))
    assert {count.outcome, alone.outcome} == {Outcome.OK}


def test_a_status_of_an_older_generation_fails() -> None:
    stale = {**an_object("d", observedGeneration=1), "metadata": {"name": "d", "generation": 4}}
    assert "generation 1 and its spec of 4" in messages(check_ready(a_scope(nodes=[a_node()], nvidiadrivers=[stale])))


def test_drivers_and_network_policies_are_judged_too() -> None:
    scope = a_scope(
        nodes=[a_node()],
        nvidiadrivers=[an_object("a"), an_object("b", state="notReady", conditions=[])],
        nicclusterpolicies=[an_object("nic", state="notReady", conditions=[]), an_object("extra", state="ignore")],
    )
    assert by_name(check_ready(scope)) == {
        "NVIDIADriver a": Outcome.OK,
        "NVIDIADriver b": Outcome.BAD,
        "NicClusterPolicy *": Outcome.OK,
        "NicClusterPolicy nic": Outcome.BAD,
        "NicClusterPolicy extra": Outcome.NOT_JUDGED,
    }


@pytest.mark.parametrize(
    ("matching", "desired", "available", "outcome"),
    [(3, 3, 3, Outcome.OK), (3, 3, 2, Outcome.BAD), (3, 2, 2, Outcome.BAD), (0, 0, 0, Outcome.BAD)],
)
def test_a_device_config_is_judged_by_its_counts(matching: int, desired: int, available: int, outcome: Outcome) -> None:
    counts = {"nodesMatchingSelectorNumber": matching, "desiredNumber": desired, "availableNumber": available}
    item = {"metadata": {"name": "default", "namespace": "kube-amd-gpu"}, "status": {"devicePlugin": counts, "driver": {}}}
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[item]))
    assert finding.outcome is outcome
    through_dra = {**item, "spec": {"devicePlugin": {"enableDevicePlugin": False}}}
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[through_dra]))
    assert finding.outcome is (Outcome.OK if not desired else outcome)
    not_ready = {**item, "status": {**item["status"], "conditions": [condition("Ready", "False", "Error", "no driver")]}}  # type: ignore[dict-item]
    (finding,) = check_ready(a_scope(nodes=[a_node()], deviceconfigs=[not_ready]))
    assert finding.outcome is Outcome.BAD


def test_without_an_operator_nothing_is_judged_and_a_refused_list_is_inconclusive() -> None:
    with pytest.raises(NotApplicable):
        list(check_ready(a_scope(nodes=[a_node()])))
    with pytest.raises(NotApplicable):
        list(check_ready(a_scope(offline=True, nodes=[a_node()])))
    with pytest.raises(Inconclusive):
        list(check_ready(a_scope(nodes=[a_node()], trouble={"nvidia.com/clusterpolicies": "Forbidden"})))
