"""HW-03: which answers of a driver are faults, on four products."""

import pytest

from conformance.hw.judging import check_answers, check_refused
from conformance.probes.node_documents import Unread
from fixtures.model.cluster import subject
from fixtures.verdict.findings import Outcome, undecided
from tests.hw.documents import a_document
from tests.nodeprobe.tables import MACHINES, Table
from tests.tables import each_row, table

MISMATCH, NOT_LOADED, UNKNOWN, PERMISSION, UNSUPPORTED = 18, 9, 999, 4, 3

TABLE = table(__file__)
FAULTS: list[tuple[Table, str, str]] = TABLE["FAULTS"]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_driver_or_device_that_does_not_answer_is_found_and_named(machine: str) -> None:
    assert [finding.outcome for finding in check_answers(a_document(machine))] == [Outcome.OK]
    for fault, cause, words in FAULTS:
        [finding] = check_answers(a_document(machine, fault))
        assert (finding.outcome, finding.cause) == (Outcome.BAD, cause), fault
        assert words in finding.message
        assert (" device 1" in finding.subject.name) is ("1." in next(iter(fault))), "the device is named where it is one device's fault"


@pytest.mark.parametrize(
    "fault", [{"nvmlInitWithFlags": 12}, {"nvmlInitWithFlags": UNKNOWN}, {"count": 0}, {"1.nvmlDeviceGetUUID": PERMISSION}]
)
def test_what_is_not_understood_is_undecided(fault: Table) -> None:
    assert [finding.outcome for finding in check_answers(a_document("h100", fault))] == [Outcome.UNDECIDED]


@pytest.mark.parametrize("fault", [{"1.nvmlDeviceGetMemoryInfo": UNSUPPORTED}, {"library": ""}, {"1.nvmlDeviceGetSerial": UNKNOWN}])
def test_calls_that_a_driver_lacks_are_no_fault(fault: Table) -> None:
    assert [finding.outcome for finding in check_answers(a_document("h100", fault))] == [Outcome.OK]


@each_row
def test_a_pod_that_could_not_start_may_tell_of_the_driver(trouble: str, cause: str) -> None:
    places = a_document().places
    found = check_refused(Unread(places=places, finding=undecided(subject(places[0].node), message="x"), trouble=trouble))
    assert (found.cause if found else "") == cause
