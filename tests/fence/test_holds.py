"""FENCE-09 and 10: nodes with a fault, and what holds nodes for a time."""

from typing import Any

from conformance.fence.holds import check_quarantined, check_temporary
from fixtures.kubernetes.models import Node, Taint
from fixtures.model.nodes.holds import SPEC_TAINTS, SPEC_UNSCHEDULABLE
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_pod, a_policy, a_scope
from tests.model.nodes.reported import DAY, HOUR, MINUTE, NOW, a_condition, ago, stated, written
from tests.tables import each_row


def only(node: Node, fields: Any = None, **policy: Any) -> Finding:
    (finding,) = check_temporary(a_scope(a_policy(**policy), nodes=[node, a_cpu_node()]), {node.name: fields})
    return finding


def held(row: dict[str, Any]) -> Node:
    """The node of a row; ages are in days: its own, of its cordon, of a taint with a key of its own."""
    taints = [
        Taint(key=one["key"], effect="NoSchedule", time_added=ago(one["days"] * DAY)) if isinstance(one, dict) else one
        for one in row.get("taints", ())
    ]
    conditions = [a_condition(row["condition"], age=3 * DAY)] if "condition" in row else []
    cordoned = row["cordoned"] * DAY if "cordoned" in row else None
    more = {name: row[name] for name in ("labels", "annotations") if name in row}
    return stated(*conditions, cordoned=cordoned, taints=taints, age=row.get("days", 30) * DAY, **more)


@each_row
def test_how_a_hold_is_judged(
    node: dict[str, Any], fields: dict[str, Any] | None, policy: dict[str, Any], outcome: Outcome, words: list[str]
) -> None:
    known: Any = None
    if fields is not None:
        path = SPEC_TAINTS if "taints" in fields else SPEC_UNSCHEDULABLE
        known = written(path, fields.get("taints") or fields["cordon"], fields["days"] * DAY)
    finding = only(held(node), known, **policy)
    assert finding.outcome is outcome
    assert [word for word in words if word not in finding.message] == []


def test_an_offline_snapshot_lacks_what_would_tell_the_age() -> None:
    (finding,) = check_temporary(a_scope(nodes=[stated(taints=["acme.example/maintenance:NoSchedule"])], offline=True), {})
    assert "--show-managed-fields" in finding.message


@each_row
def test_what_may_stay_on_a_whole_pool(taint: str, count: int, outcomes: list[Outcome]) -> None:
    """``count`` of as many nodes as outcomes have the taint, the last ones."""
    every = [stated(name=f"gpu-{at}", taints=[taint] if at >= len(outcomes) - count else [], age=3 * DAY) for at in range(len(outcomes))]
    assert [finding.outcome for finding in check_temporary(a_scope(nodes=every), {})] == outcomes


def test_a_taint_that_only_asks_is_not_judged() -> None:
    node = stated(taints=[f"DeletionCandidateOfClusterAutoscaler={int(NOW - 5 * DAY)}:PreferNoSchedule"])
    findings = list(check_temporary(a_scope(nodes=[node]), {}))
    assert [finding.outcome for finding in findings] == [Outcome.NOT_JUDGED, Outcome.OK]


@each_row
def test_no_autoscaler_means_to_remove_a_node_whose_devices_are_all_in_use(devices: int, days: float, outcome: Outcome) -> None:
    node = stated(taints=[f"DeletionCandidateOfClusterAutoscaler={int(NOW - days * DAY)}:PreferNoSchedule"])
    findings = list(check_temporary(a_scope(nodes=[node], pods=[a_pod(devices=devices, node=node.name)]), {}))
    assert [finding.outcome for finding in findings] == [outcome, Outcome.OK]


def test_the_notes_of_a_cordon_name_its_owner() -> None:
    labels = {"k8saas.nvidia.com/cordon-by": "NVSentinel", "k8saas.nvidia.com/cordon-timestamp": ago(2 * DAY + MINUTE).replace(":", "-")}
    assert "owner NVSentinel" in only(stated(cordoned=2 * DAY, labels=labels)).message


LOST = a_condition("AcceleratedHardwareReady", "False", reason="NvidiaXID79Error", age=3 * HOUR)
FINE = a_condition("AcceleratedHardwareReady", "True", reason="NvidiaGPUIsReady")
NVSENTINEL = {"quarantineHealthEventIsCordoned": "True"}


def the_only(*nodes: Node, fields: object = None) -> Finding:
    findings = check_quarantined(a_scope(nodes=[*nodes, a_cpu_node()]), {"gpu-0": fields})
    return next(finding for finding in findings if finding.subject.name == "gpu-0")


@each_row
def test_who_is_in_quarantine(node: dict[str, Any], fields: str | None, outcome: Outcome) -> None:
    """``fields``: who wrote the cordon, twenty days ago. Ages are in days."""
    condition = a_condition(node["condition"], node["status"], age=node.get("days", 0.2) * DAY) if "condition" in node else FINE
    more = {name: node[name] for name in ("labels", "annotations", "taints") if name in node}
    made = stated(condition, cordoned=node["cordoned"] * DAY if "cordoned" in node else None, **more)
    made.spec.unschedulable = "cordoned" in node or "unschedulable" in node
    assert the_only(made, fields=written(SPEC_UNSCHEDULABLE, fields, 20 * DAY) if fields else None).outcome is outcome


def test_a_node_that_the_policy_leaves_out_may_stay_in_quarantine() -> None:
    policy = a_policy(accelerators={"allowNotJudged": ["gpu-0"]})
    (finding,) = check_quarantined(a_scope(policy, nodes=[stated(FINE, cordoned=9 * DAY, annotations=NVSENTINEL)]), {})
    assert finding.outcome is Outcome.OK


def test_a_taint_that_no_healthy_peer_has_is_a_quarantine_whatever_its_name() -> None:
    peer = stated(FINE, name="gpu-1", taints=["team=vision:NoSchedule"])
    assert the_only(stated(LOST, taints=["acme.example/broken:NoSchedule", "team=vision:NoSchedule"]), peer).outcome is Outcome.OK
    assert the_only(stated(LOST, taints=["team=vision:NoSchedule"]), peer).outcome is Outcome.BAD
    assert the_only(stated(LOST, taints=["acme.example/broken:PreferNoSchedule"]), peer).outcome is Outcome.BAD


def test_a_fault_that_was_just_reported_is_undecided_with_the_time_to_ask_again() -> None:
    finding = the_only(stated(a_condition("GPUMissing", age=5 * MINUTE)))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in 10 min" in finding.message
    policy = a_policy(nodes={"quarantineMinutes": 1})
    (finding,) = check_quarantined(a_scope(policy, nodes=[stated(a_condition("GPUMissing", age=5 * MINUTE))]), {})
    assert finding.outcome is Outcome.BAD


def test_a_fault_without_a_time_is_no_excuse() -> None:
    finding = the_only(stated(a_condition("GPUMissing", age=None)))
    assert finding.outcome is Outcome.BAD
    assert "for a time that nothing tells" in finding.message


@each_row
def test_labels_about_health_count(labels: dict[str, str], wanted: Outcome) -> None:
    assert the_only(stated(labels=labels)).outcome is wanted


def test_a_condition_that_nobody_can_read_is_undecided() -> None:
    finding = the_only(stated(a_condition("AcmeCheck", message="NVLink 3 is odd")))
    assert finding.outcome is Outcome.UNDECIDED
    assert "AcmeCheck=True" in finding.message


def test_an_unhealthy_taint_on_a_node_that_is_healthy_again_fails_when_it_is_old() -> None:
    taint = Taint(key="amd-gpu-unhealthy", effect="NoSchedule", time_added=ago(5 * DAY))
    finding = the_only(stated(FINE, taints=[taint]))
    assert finding.outcome is Outcome.BAD
    assert "of the AMD GPU operator for 5 days" in finding.message


@each_row
def test_only_a_hold_for_a_fault_must_end_with_the_fault(key: str, wanted: Outcome) -> None:
    taint = Taint(key=key, effect="NoSchedule", time_added=ago(5 * DAY))
    assert the_only(stated(FINE, taints=[taint])).outcome is wanted
