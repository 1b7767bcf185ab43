from typing import Any

from conformance.fence.holds import check_temporary
from fixtures.kubernetes.models import Node, Taint
from fixtures.model.nodes.holds import SPEC_TAINTS, SPEC_UNSCHEDULABLE
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_policy, a_scope
from tests.model.nodes.reported import DAY, MINUTE, NOW, a_condition, ago, stated, written
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


def test_the_notes_of_a_cordon_name_its_owner() -> None:
    labels = {"k8saas.nvidia.com/cordon-by": "NVSentinel", "k8saas.nvidia.com/cordon-timestamp": ago(2 * DAY + MINUTE).replace(":", "-")}
    assert "owner NVSentinel" in only(stated(cordoned=2 * DAY, labels=labels)).message
