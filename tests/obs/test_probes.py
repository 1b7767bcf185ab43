import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.obs.node_words import check_node_words
from conformance.obs.probes import Unplaced, judge_unplaced, names_reason, scheduling_messages, tried
from fixtures.kubernetes.models import Json, Node
from fixtures.probes.pods import decode_pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable, Subject
from tests.builders import a_cpu_node, a_scope
from tests.model.nodes.reported import DAY, HOUR, MINUTE, a_condition, stated
from tests.tables import each_row

GPU = "nvidia.com/gpu"
TEXT = "0/5 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 3 Insufficient nvidia.com/gpu. no new claims"
SUBJECT = Subject("Pod", "obs-06-impossible", "ns")


def seen(*messages: str, node: str = "") -> Unplaced:
    return Unplaced(asked=9, resource=GPU, node=node, condition="False/Unschedulable: x", messages=messages, window=30.0)


def test_no_event_is_the_defect_and_the_condition_is_shown() -> None:
    finding = judge_unplaced(SUBJECT, seen())
    assert finding.outcome is Outcome.BAD
    assert "False/Unschedulable" in finding.observed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pod is waiting",
        "0/5 nodes are available: 5 Insufficient cpu.",
        "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.shared.",
        "\0" * 5000,
    ],
)
def test_an_event_without_the_reason_is_bad(text: str) -> None:
    assert judge_unplaced(SUBJECT, seen(text)).outcome is Outcome.BAD


@each_row
def test_silence_counts_once_the_scheduler_has_decided(spec: Json, conditions: list[Json], over: bool | None) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": {"conditions": conditions}}
    assert tried([decode_pod(pod)]) is over
    assert tried([]) is True, "it is gone, and nobody will say anything of it"


def test_a_pod_that_was_placed_after_all_is_undecided() -> None:
    assert judge_unplaced(SUBJECT, seen(TEXT, node="gpu-0")).outcome is Outcome.UNDECIDED


def test_only_failed_scheduling_events_are_read_in_both_apis() -> None:
    events = {
        "a": {"reason": "FailedScheduling", "message": TEXT},
        "b": {"reason": "FailedScheduling", "note": TEXT},
        "c": {"reason": "Scheduled", "message": "ok"},
        "d": {},
    }
    assert scheduling_messages(events) == (TEXT, TEXT)


@pytest.mark.test_all
@given(st.text(max_size=300))
def test_no_message_breaks_the_reader(text: str) -> None:
    assert names_reason(text, GPU) in (True, False)


@pytest.mark.parametrize(
    "obstacle", ["the probe pod was deleted by someone else", "a scheduling gate holds it, which the suite did not set"]
)
def test_without_a_scheduler_that_was_asked_a_missing_event_proves_nothing(obstacle: str) -> None:
    assert judge_unplaced(SUBJECT, msgspec.structs.replace(seen(), obstacle=obstacle)).outcome is Outcome.UNDECIDED
    assert judge_unplaced(SUBJECT, msgspec.structs.replace(seen(TEXT), obstacle=obstacle)).outcome is Outcome.OK


def by_dra(*messages: str) -> Unplaced:
    return msgspec.structs.replace(seen(*messages), way="ResourceClaim of DeviceClass gpu.nvidia.com", by_dra=True)


def test_an_event_about_claims_names_the_reason_where_dra_offers_the_devices() -> None:
    text = "0/5 nodes are available: 3 cannot allocate all claims, 2 node(s) had untolerated taint(s)."
    finding = judge_unplaced(SUBJECT, by_dra(text))
    assert finding.outcome is Outcome.OK
    assert "3 of 5 nodes" in finding.observed
    assert "ResourceClaim of DeviceClass gpu.nvidia.com" in finding.observed
    assert judge_unplaced(SUBJECT, seen(text)).outcome is Outcome.BAD  # a node's own resource is short, and the event does not say so


def test_an_event_about_other_trouble_with_claims_does_not_name_the_reason() -> None:
    text = "0/5 nodes are available: 5 node(s) resourceclaim not available on the node."
    assert judge_unplaced(SUBJECT, by_dra(text)).outcome is Outcome.BAD


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
