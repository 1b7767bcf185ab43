from collections.abc import Mapping
from typing import Any

import pytest

from conformance.ops.driver_upgrades import check_upgrades
from fixtures.kubernetes.models import Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.nodes.holds import SPEC_UNSCHEDULABLE, label
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_pod, a_policy, a_scope
from tests.model.nodes.reported import DAY, HOUR, NOW, ago, stated, written

STATE = "nvidia.com/gpu-driver-upgrade-state"


def in_state(value: str, name: str = "gpu-0", key: str = STATE, labels: Mapping[str, str] | None = None, **more: Any) -> Node:
    return stated(name=name, labels={key: value, **(labels or {})}, **more)


def written_state(age: float, key: str = STATE) -> Any:
    return written(label(key), "gpu-operator", age)


def only(node: Node, fields: Any = None, **policy: Any) -> Finding:
    (finding,) = check_upgrades(a_scope(a_policy(**policy), nodes=[node, a_cpu_node()]), {node.name: fields})
    return finding


def test_a_step_under_way_is_undecided_with_the_time_to_ask_again() -> None:
    finding = only(in_state("pod-restart-required"), written_state(HOUR))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in 23 h" in finding.message
    assert only(in_state("pod-restart-required"), written_state(HOUR), nodes={"heldHours": 0.5}).outcome is Outcome.BAD


def test_the_validation_that_an_upgrade_waits_for_is_what_a_run_about_the_node_gives() -> None:
    policy = a_policy(**{"return": {"tolerate": ["node.kubernetes.io/unschedulable"]}})
    node = in_state("validation-required", cordoned=HOUR)
    scope = a_scope(policy, nodes=[node, in_state("validation-required", "gpu-1")])
    found = {one.subject.name: one.outcome for one in check_upgrades(Scope(scope.snapshot, policy, frozenset({"gpu-0"})), {})}
    assert found == {"gpu-0": Outcome.NOT_JUDGED, "gpu-1": Outcome.UNDECIDED}


def test_a_step_of_unknown_age_is_undecided() -> None:
    assert only(in_state("drain-required")).outcome is Outcome.UNDECIDED


def test_a_state_that_no_operator_is_known_to_write_is_undecided() -> None:
    assert only(in_state("thinking"), written_state(21 * DAY)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "note", ["nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time", "nvidia.com/gpu-driver-upgrade-validation-start-time"]
)
def test_the_operator_s_own_notes_tell_the_age(note: str) -> None:
    finding = only(in_state("wait-for-jobs-required", annotations={note: str(int(NOW - 3 * DAY))}))
    assert finding.outcome is Outcome.BAD
    assert f"for 3 days, by annotation {note}" in finding.message


def test_a_node_that_waits_while_others_are_upgraded_is_undecided() -> None:
    waiting, active = in_state("upgrade-required"), in_state("drain-required", "gpu-1")
    fields = {"gpu-0": written_state(3 * DAY), "gpu-1": written_state(HOUR)}
    findings = list(check_upgrades(a_scope(nodes=[waiting, active]), fields))
    assert [finding.outcome for finding in findings] == [Outcome.UNDECIDED, Outcome.UNDECIDED]
    assert "waits for its turn" in findings[0].message
    fields["gpu-1"] = written_state(2 * DAY)
    findings = list(check_upgrades(a_scope(nodes=[waiting, active]), fields))
    assert [finding.outcome for finding in findings] == [Outcome.BAD, Outcome.BAD]


def driver(node: str, generation: int, age: float) -> Pod:
    found = a_pod(
        f"driver-{node}",
        "gpu-operator",
        node=node,
        owner="DaemonSet/nvidia-driver-daemonset",
        labels={"pod-template-generation": str(generation)},
    )
    found.metadata.creation_timestamp = ago(age)
    return found


def test_without_managed_fields_the_newer_pods_of_other_nodes_tell_since_when() -> None:
    nodes = [in_state("upgrade-required"), in_state("upgrade-done", "gpu-1"), in_state("upgrade-done", "gpu-2")]
    pods = [driver("gpu-0", 3, 90 * DAY), driver("gpu-1", 4, 20 * DAY), driver("gpu-2", 4, 19 * DAY)]
    first, *others = check_upgrades(a_scope(nodes=nodes, pods=pods), {})
    assert first.outcome is Outcome.BAD
    assert "for 20 days, by the driver pods of other nodes" in first.message
    assert {finding.outcome for finding in others} == {Outcome.OK}


def test_pods_of_tenants_that_say_they_are_the_driver_s_tell_no_age() -> None:
    """A tenant gives his own pods the driver's owner, with its true UID, and a label of a newer template."""
    forged = driver("gpu-0", 2, 3 * DAY)
    forged.metadata.namespace = "aaa"
    node = in_state("upgrade-required")
    (finding,) = check_upgrades(a_scope(nodes=[node], pods=[driver("gpu-0", 1, 4 * DAY), forged]), {})
    assert finding.outcome is Outcome.UNDECIDED
    assert "whether the upgrade is stuck is not known" in finding.message


def test_a_finished_upgrade_that_left_a_cordon_fails() -> None:
    fields = written(SPEC_UNSCHEDULABLE, "gpu-operator")
    finding = only(in_state("upgrade-done", cordoned=3 * DAY), fields)
    assert finding.outcome is Outcome.BAD
    note = {"nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable": "true"}
    assert only(in_state("upgrade-done", cordoned=3 * DAY, annotations=note)).outcome is Outcome.BAD
    assert only(in_state("upgrade-done", cordoned=HOUR), fields).outcome is Outcome.UNDECIDED


def test_a_cordon_of_somebody_else_is_no_matter_of_the_upgrade() -> None:
    assert only(in_state("upgrade-done", cordoned=3 * DAY), written(SPEC_UNSCHEDULABLE, "kubectl-cordon")).outcome is Outcome.OK


def test_a_cordon_of_nobody_known_is_undecided() -> None:
    assert only(in_state("upgrade-done", cordoned=3 * DAY)).outcome is Outcome.UNDECIDED


def test_a_node_that_its_owner_leaves_out_is_not_judged() -> None:
    skip = {"nvidia.com/gpu-driver-upgrade.skip": "true"}
    assert only(in_state("upgrade-required", labels=skip), written_state(21 * DAY)).outcome is Outcome.NOT_JUDGED
    assert only(in_state("upgrade-failed", labels=skip)).outcome is Outcome.BAD


def test_agents_that_stay_paused_after_an_upgrade_fail() -> None:
    paused = {"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}
    findings = list(check_upgrades(a_scope(nodes=[in_state("upgrade-done", labels=paused)]), {}))
    assert [finding.outcome for finding in findings] == [Outcome.OK, Outcome.BAD]
    (finding,) = check_upgrades(a_scope(nodes=[stated(labels=paused)]), {})
    assert finding.outcome is Outcome.BAD
    assert only(in_state("drain-required", labels=paused), written_state(HOUR)).outcome is Outcome.UNDECIDED


def test_two_drivers_of_a_node_are_judged_apart() -> None:
    node = in_state("upgrade-done", labels={"nvidia.com/ofed-driver-upgrade-state": "upgrade-failed"})
    findings = list(check_upgrades(a_scope(nodes=[node]), {}))
    assert [(finding.subject.name, finding.outcome) for finding in findings] == [
        ("gpu-0", Outcome.OK),
        ("gpu-0 nvidia.com/ofed-driver-upgrade-state", Outcome.BAD),
    ]


def test_nodes_whose_hosts_bring_the_driver_are_no_subject() -> None:
    with pytest.raises(NotApplicable):
        list(check_upgrades(a_scope(nodes=[stated(), a_cpu_node()]), {}))


def test_a_cordon_that_the_policy_allows_is_no_matter_of_the_upgrade() -> None:
    node = in_state("upgrade-done", cordoned=90 * DAY)
    assert only(node, accelerators={"allowNotJudged": ["gpu-*"]}).outcome is Outcome.OK
