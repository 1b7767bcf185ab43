from typing import Any

import pytest

from conformance.fence.holds import check_temporary
from fixtures.kubernetes.models import Node, Taint
from fixtures.model.nodes.holds import SPEC_TAINTS, SPEC_UNSCHEDULABLE
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_policy, a_scope
from tests.model.nodes.said import DAY, HOUR, MINUTE, NOW, a_condition, ago, told, written
from tests.tables import each_row


def only(node: Node, fields: Any = None, **policy: Any) -> Finding:
    (finding,) = check_temporary(a_scope(a_policy(**policy), nodes=[node, a_cpu_node()]), {node.name: fields})
    return finding


def old(key: str, age: float, value: str = "") -> Taint:
    return Taint(key=key, value=value, effect="NoSchedule", time_added=ago(age))


@pytest.mark.parametrize(
    ("node", "fields", "words"),
    [
        (told(taints=[old("readiness.k8s.io/newlyjoinednode", 2 * DAY)]), None, ("2 days", "node readiness controller")),
        (
            told(taints=["readiness.k8s.io/newlyjoinednode:NoSchedule"]),
            written(SPEC_TAINTS, "manager", 3 * DAY),
            ("3 days", "managedFields"),
        ),
        (told(taints=["efs.csi.aws.com/agent-not-ready:NoExecute"], age=4 * DAY), None, ("4 days", "creation of the node")),
        (told(taints=["node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"], age=4 * DAY), None, ("cloud controller manager",)),
        (told(taints=["node.cluster.x-k8s.io/uninitialized:NoSchedule"], age=4 * DAY), None, ("Cluster API",)),
        (told(taints=[f"ToBeDeletedByClusterAutoscaler={int(NOW - 5 * DAY)}:NoSchedule"]), None, ("5 days", "Cluster Autoscaler")),
        (told(taints=[old("karpenter.sh/disrupted", 3 * DAY)]), None, ("Karpenter", "3 days")),
        (told(taints=[old("amd-gpu-driver-upgrade", 3 * DAY)]), None, ("AMD GPU operator",)),
        (told(taints=[old("nvidia.com/gpu-xid-error", 3 * DAY)]), None, ("3 days",)),
        (told(taints=[old("acme.example/maintenance", 3 * DAY)]), None, ("3 days", "owner not known")),
        (told(cordoned=2 * DAY), None, ("cordon", "2 days", "owner not known")),
        (told(cordoned=2 * DAY), written(SPEC_UNSCHEDULABLE, "kubectl-cordon"), ("owner kubectl-cordon",)),
        (told(cordoned=2 * DAY, annotations={"acme.example/cordoned-by": "jane"}), written(SPEC_UNSCHEDULABLE), ("owner jane",)),
        (told(cordoned=2 * DAY, annotations={"weave.works/kured-node-lock": "{}"}), None, ("weave.works/kured-node-lock",)),
    ],
)
def test_an_old_hold_fails_with_its_age_and_owner(node: Node, fields: object, words: tuple[str, ...]) -> None:
    finding = only(node, fields)
    assert finding.outcome is Outcome.BAD
    assert [word for word in words if word not in finding.message] == []


def test_the_age_of_a_pressure_is_that_of_its_condition() -> None:
    node = told(a_condition("DiskPressure", age=3 * DAY), taints=["node.kubernetes.io/disk-pressure:NoSchedule"])
    finding = only(node)
    assert finding.outcome is Outcome.BAD
    assert "for 3 days, by condition DiskPressure" in finding.message


def test_a_taint_of_a_cordon_that_nobody_took_away_is_named_for_what_it_is() -> None:
    finding = only(told(taints=[old("node.kubernetes.io/unschedulable", 3 * DAY)]))
    assert finding.outcome is Outcome.BAD
    assert "taint node.kubernetes.io/unschedulable without spec.unschedulable" in finding.message


@pytest.mark.parametrize(
    "node",
    [
        told(taints=[old("readiness.k8s.io/newlyjoinednode", 2 * MINUTE)]),
        told(taints=["karpenter.sh/unregistered:NoExecute"], age=2 * MINUTE),
        told(taints=[f"ToBeDeletedByClusterAutoscaler={int(NOW - 60)}:NoSchedule"]),
        told(cordoned=23 * HOUR),
        told(cordoned=30 * DAY, age=HOUR),
    ],
)
def test_a_young_hold_is_undecided_with_the_time_to_ask_again(node: Node) -> None:
    finding = only(node)
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in" in finding.message


def test_an_unknown_age_is_undecided_and_an_offline_snapshot_is_told_how_to_save_it() -> None:
    node = told(taints=["acme.example/maintenance:NoSchedule"])
    finding = only(node)
    assert finding.outcome is Outcome.UNDECIDED
    assert "since when is not known" in finding.message
    (finding,) = check_temporary(a_scope(nodes=[node], offline=True), {})
    assert "--show-managed-fields" in finding.message


def test_the_owner_may_allow_more_time() -> None:
    assert only(told(cordoned=2 * DAY), nodes={"heldHours": 72}).outcome is Outcome.UNDECIDED


@each_row
def test_taints_of_a_pool_may_stay_for_ever(taint: str) -> None:
    assert only(told(taints=[taint])).outcome is Outcome.OK


def test_a_taint_that_only_reads_temporary_is_the_pool_s_own_if_all_its_nodes_have_it() -> None:
    every = [told(name=f"gpu-{number}", taints=["acme.example/maintenance-window=sunday:NoSchedule"]) for number in range(3)]
    findings = list(check_temporary(a_scope(nodes=every), {}))
    assert {finding.outcome for finding in findings} == {Outcome.OK}
    every[0] = told(name="gpu-0")
    findings = list(check_temporary(a_scope(nodes=every), {}))
    assert [finding.outcome for finding in findings] == [Outcome.OK, Outcome.UNDECIDED, Outcome.UNDECIDED]


def test_a_startup_taint_on_a_whole_pool_is_temporary_all_the_same() -> None:
    every = [told(name=f"gpu-{number}", taints=["ebs.csi.aws.com/agent-not-ready:NoExecute"], age=3 * DAY) for number in range(3)]
    assert {finding.outcome for finding in check_temporary(a_scope(nodes=every), {})} == {Outcome.BAD}


def test_a_taint_that_only_asks_is_not_judged() -> None:
    node = told(taints=[f"DeletionCandidateOfClusterAutoscaler={int(NOW - 5 * DAY)}:PreferNoSchedule"])
    findings = list(check_temporary(a_scope(nodes=[node]), {}))
    assert [finding.outcome for finding in findings] == [Outcome.NOT_JUDGED, Outcome.OK]


def test_the_fence_is_never_temporary_whatever_its_key() -> None:
    node = told(taints=["acme.example/gpu-upgrade-ring=3:NoSchedule"])
    assert only(node, fence={"taintKeys": ["nvidia.com/gpu", "acme.example/gpu-upgrade-ring"]}).outcome is Outcome.OK


def test_a_node_that_the_policy_leaves_out_may_be_held() -> None:
    finding = only(told(cordoned=90 * DAY, age=99 * DAY), accelerators={"allowNotJudged": ["gpu-*"]})
    assert finding.outcome is Outcome.ALLOWED
    assert "90 days" in finding.message


def test_notes_of_an_earlier_cordon_do_not_name_the_owner_of_this_one() -> None:
    labels = {"k8saas.nvidia.com/cordon-by": "NVSentinel", "k8saas.nvidia.com/cordon-timestamp": ago(40 * DAY).replace(":", "-")}
    finding = only(told(cordoned=2 * DAY, labels=labels), written(SPEC_UNSCHEDULABLE, "kubectl-cordon", 2 * DAY))
    assert "for 2 days" in finding.message
    assert "owner kubectl-cordon" in finding.message
    labels["k8saas.nvidia.com/cordon-timestamp"] = ago(2 * DAY + MINUTE).replace(":", "-")
    assert "owner NVSentinel" in only(told(cordoned=2 * DAY, labels=labels)).message


def test_a_taint_that_only_reads_like_a_start_may_be_the_pool_s_own() -> None:
    every = [told(name=f"gpu-{number}", taints=["acme.example/startup-program=true:NoSchedule"]) for number in range(2)]
    assert {finding.outcome for finding in check_temporary(a_scope(nodes=every), {})} == {Outcome.OK}
    every[0] = told(name="gpu-0")
    assert [finding.outcome for finding in check_temporary(a_scope(nodes=every), {})] == [Outcome.OK, Outcome.BAD]
