import pytest

from conformance.obs.node_words import check_node_words
from fixtures.kubernetes.models import Node
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_scope
from tests.model.nodes.reported import DAY, HOUR, MINUTE, a_condition, stated

GOOD = a_condition("AcceleratedHardwareReady", "True", reason="NvidiaGPUIsReady")
BAD = a_condition("AcceleratedHardwareReady", "False", reason="NvidiaDeviceCountMismatch", age=2 * HOUR)


def only(node: Node) -> Finding:
    (finding,) = check_node_words(a_scope(nodes=[node, a_cpu_node()]), {})
    return finding


def test_a_fault_of_a_node_in_repair_is_undecided_until_the_repair_takes_too_long() -> None:
    finding = only(stated(BAD, cordoned=HOUR))
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again in 22 h" in finding.message
    finding = only(stated(a_condition("GPUMissing", age=9 * DAY), cordoned=9 * DAY))
    assert finding.outcome is Outcome.BAD
    assert finding.cause == "HeldTooLong"


def test_a_fault_that_was_just_reported_is_undecided() -> None:
    assert only(stated(a_condition("GPUMissing", age=MINUTE))).outcome is Outcome.UNDECIDED


def test_the_oldest_of_several_faults_counts() -> None:
    finding = only(stated(a_condition("GPUMissing", age=MINUTE), a_condition("XIDErrors", age=4 * DAY), a_condition("GpuCount", age=None)))
    assert finding.message.startswith("XIDErrors=True for 4 days")


@pytest.mark.parametrize(("age", "wanted"), [(HOUR, Outcome.UNDECIDED), (None, Outcome.UNDECIDED), (3 * DAY, Outcome.BAD)])
def test_announced_maintenance_is_awaited_for_a_while(age: float | None, wanted: Outcome) -> None:
    assert only(stated(a_condition("VMEventScheduled", age=age))).outcome is wanted


def test_what_nobody_can_read_is_undecided_and_not_absent() -> None:
    finding = only(stated(GOOD, a_condition("AcmeCheck", reason="NvlinkOdd")))
    assert finding.outcome is Outcome.UNDECIDED
    assert "AcmeCheck=True (NvlinkOdd)" in finding.message


def test_a_cluster_whose_nodes_say_nothing_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_node_words(a_scope(nodes=[stated(), a_cpu_node()]), {}))
    findings = list(check_node_words(a_scope(nodes=[stated(), stated(GOOD, name="gpu-1")]), {}))
    assert [finding.outcome for finding in findings] == [Outcome.NOT_JUDGED, Outcome.OK]
