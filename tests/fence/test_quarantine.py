import pytest

from conformance.fence.holds import check_quarantined
from fixtures.kubernetes.models import Node, Taint
from fixtures.model.nodes.holds import SPEC_UNSCHEDULABLE
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_policy, a_scope
from tests.model.nodes.said import DAY, HOUR, MINUTE, a_condition, ago, told, written
from tests.tables import each_row

LOST = a_condition("AcceleratedHardwareReady", "False", reason="NvidiaXID79Error", age=3 * HOUR)
FINE = a_condition("AcceleratedHardwareReady", "True", reason="NvidiaGPUIsReady")
STAMP = "k8saas.nvidia.com/cordon-timestamp"
NVSENTINEL = {"quarantineHealthEventIsCordoned": "True"}


def only(*nodes: Node, fields: object = None) -> Finding:
    findings = check_quarantined(a_scope(nodes=[*nodes, a_cpu_node()]), {"gpu-0": fields})
    return next(finding for finding in findings if finding.subject.name == "gpu-0")


@pytest.mark.parametrize(
    "node",
    [
        told(FINE),
        told(LOST, cordoned=2 * HOUR),
        told(LOST, cordoned=20 * DAY),
        told(LOST, taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
        told(LOST, taints=["nvidia.com/gpu-xid-error=true:NoSchedule"]),
        told(LOST, taints=["amd-gpu-unhealthy:NoSchedule"]),
        told(LOST, taints=["karpenter.sh/disrupted:NoSchedule"]),
    ],
)
def test_healthy_nodes_and_nodes_out_of_service_pass(node: Node) -> None:
    assert only(node).outcome is Outcome.OK


def test_a_taint_that_no_healthy_peer_has_is_a_quarantine_whatever_its_name() -> None:
    peer = told(FINE, name="gpu-1", taints=["team=vision:NoSchedule"])
    assert only(told(LOST, taints=["acme.example/broken:NoSchedule", "team=vision:NoSchedule"]), peer).outcome is Outcome.OK
    assert only(told(LOST, taints=["team=vision:NoSchedule"]), peer).outcome is Outcome.BAD
    assert only(told(LOST, taints=["acme.example/broken:PreferNoSchedule"]), peer).outcome is Outcome.BAD


def test_a_fault_that_was_just_told_is_undecided_with_the_time_to_ask_again() -> None:
    finding = only(told(a_condition("GPUMissing", age=5 * MINUTE)))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in 10 min" in finding.message
    policy = a_policy(nodes={"quarantineMinutes": 1})
    (finding,) = check_quarantined(a_scope(policy, nodes=[told(a_condition("GPUMissing", age=5 * MINUTE))]), {})
    assert finding.outcome is Outcome.BAD


def test_a_fault_without_a_time_is_no_excuse() -> None:
    finding = only(told(a_condition("GPUMissing", age=None)))
    assert finding.outcome is Outcome.BAD
    assert "for a time that nothing tells" in finding.message


@each_row
def test_labels_about_health_count(labels: dict[str, str], wanted: Outcome) -> None:
    assert only(told(labels=labels)).outcome is wanted


def test_a_condition_that_nobody_can_read_is_undecided() -> None:
    finding = only(told(a_condition("AcmeCheck", message="NVLink 3 is odd")))
    assert finding.outcome is Outcome.UNDECIDED
    assert "AcmeCheck=True" in finding.message


BY = {"k8saas.nvidia.com/cordon-by": "NVSentinel"}


@pytest.mark.parametrize(
    ("node", "fields", "wanted"),
    [
        (told(FINE, cordoned=20 * DAY, labels=BY), None, Outcome.UNDECIDED),
        (told(FINE, cordoned=20 * DAY, labels={"dgxc.nvidia.com/nvsentinel-state": "remediation-succeeded"}), None, Outcome.UNDECIDED),
        (told(FINE, cordoned=None, labels={**BY, STAMP: ago(40 * DAY).replace(":", "-")}), None, Outcome.UNDECIDED),
        (told(FINE, cordoned=20 * DAY, labels={**BY, STAMP: ago(DAY).replace(":", "-")}), None, Outcome.OK),
        (told(FINE, cordoned=20 * DAY, labels={"k8saas.nvidia.com/ManagedByNVSentinel": "false"}), None, Outcome.OK),
        (told(FINE, cordoned=20 * DAY, labels=BY), written(SPEC_UNSCHEDULABLE, age=20 * DAY), Outcome.OK),
        (told(FINE, cordoned=20 * DAY, labels=BY), written(SPEC_UNSCHEDULABLE, "fault-quarantine", 20 * DAY), Outcome.BAD),
    ],
    ids=["no timestamp", "state label", "no timeAdded", "timestamp of another cordon", "opted out", "kubectl", "written by NVSentinel"],
)
def test_a_label_of_nvsentinel_names_the_owner_of_a_cordon_only_if_its_time_does(node: Node, fields: object, wanted: Outcome) -> None:
    node.spec.unschedulable = True
    assert only(node, fields=fields).outcome is wanted


def test_a_repaired_node_that_was_cordoned_an_hour_ago_is_undecided() -> None:
    assert only(told(FINE, cordoned=HOUR, annotations=NVSENTINEL)).outcome is Outcome.UNDECIDED


def test_an_unhealthy_taint_on_a_node_that_is_healthy_again_fails_when_it_is_old() -> None:
    taint = Taint(key="amd-gpu-unhealthy", effect="NoSchedule", time_added=ago(5 * DAY))
    finding = only(told(FINE, taints=[taint]))
    assert finding.outcome is Outcome.BAD
    assert "of the AMD GPU operator for 5 days" in finding.message


def test_a_starting_node_is_no_quarantined_one() -> None:
    assert only(told(FINE, taints=["karpenter.sh/unregistered:NoExecute"])).outcome is Outcome.OK


def test_the_clock_of_the_cluster_may_be_ahead() -> None:
    assert only(told(a_condition("GPUMissing", age=-HOUR))).outcome is Outcome.UNDECIDED


def test_a_node_that_the_policy_leaves_out_may_stay_in_quarantine() -> None:
    node = told(FINE, cordoned=9 * DAY, annotations=NVSENTINEL)
    assert only(node, fields=written(SPEC_UNSCHEDULABLE, "fault-quarantine")).outcome is Outcome.BAD
    (finding,) = check_quarantined(a_scope(a_policy(accelerators={"allowNotJudged": ["gpu-0"]}), nodes=[node]), {})
    assert finding.outcome is Outcome.OK


@each_row
def test_only_a_hold_for_a_fault_must_end_with_the_fault(key: str, wanted: Outcome) -> None:
    taint = Taint(key=key, effect="NoSchedule", time_added=ago(5 * DAY))
    assert only(told(FINE, taints=[taint])).outcome is wanted
