"""Every capture of the samples' index that the readers concern gets the verdict the index states, through ``inspect``."""

import pytest

from conformance.cli.inspect import KINDS, inspect
from conformance.outputs.captured_text import Unreadable
from tests.samples import sample, sample_index
from tests.tables import each_row

VERDICTS = [
    ("nccl-log", "nccl-log-1", "good", "GDR_ENGAGED"),
    ("nccl-log", "nccl-log-2", "undecidable", "SINGLE_NODE"),
    ("nccl-log", "nccl-log-3", "bad", "SOCKET_FALLBACK"),
    ("nccl-log", "nccl-log-4", "bad", "SOCKET_FALLBACK"),
    ("nccl-log", "nccl-log-5", "undecidable", "NO_EVIDENCE"),
    ("nccl-log", "nccl-log-6", "bad", "RDMA_WITHOUT_GDR"),
    ("nccl-log", "nccl-log-7", "good", "GDR_ENGAGED"),
    ("nccl-log", "nccl-log-8", "bad", "GDR_ENGAGED"),
    ("nccl-log", "nccl-log-9", "undecidable", "NO_EVIDENCE"),
    ("nccl-log", "nccl-log-10", "bad", "SOCKET_FALLBACK"),
    ("nccl-log", "nccl-log-11", "bad", "PARTIAL_GDR"),
    *(("nccl-tests", f"nccl-tests-{number}", "good", "OK") for number in range(1, 8)),
    ("nccl-tests", "nccl-tests-8", "undecidable", "CORRECTNESS_NOT_CHECKED"),
    ("ib-write-bw", "ib-write-bw-1", "undecidable", "MEMORY_UNKNOWN"),
    ("ib-write-bw", "ib-write-bw-2", "undecidable", "HOST_MEMORY"),
    ("ib-write-bw", "ib-write-bw-3", "undecidable", "HOST_MEMORY"),
    *(("nvidia-smi", f"nvidia-smi-L-{number}", "good", "LISTED") for number in range(1, 4)),
    ("nvidia-smi", "nvidia-smi-q-1", "good", "HEALTHY"),
    ("nvidia-smi", "nvidia-smi-q-2", "bad", "REPLACE"),
    ("nvidia-smi", "kops-secure-access-1", "good", "HEALTHY"),
    *(("dcgm-metrics", f"dcgm-metrics-{number}", "good", "IDLE_UNALLOCATED") for number in range(1, 5)),
    ("dcgm-metrics", "dcgm-metrics-5", "good", "HEALTHY"),
    ("kernel-log", "xid-dmesg-1", "bad", "XID_FATAL"),
    ("kernel-log", "xid-dmesg-2", "bad", "XID_FATAL"),
    ("node", "nodelabels-1", "good", "CONSISTENT"),
    ("node", "nodelabels-vgpu-1", "undecidable", "VIRTUAL_GPU"),
    ("node", "node-timeslice-1", "good", "CONSISTENT"),
    ("node", "node-timeslice-2", "good", "CONSISTENT"),
    ("node", "node-timeslice-3", "good", "CONSISTENT"),
    ("node", "node-timeslice-4", "undecidable", "NO_DEVICE_COUNT"),
    ("node", "node-timeslice-5", "undecidable", "NO_DEVICE_COUNT"),
    *(("events", f"failedscheduling-{number}", "bad", "UNSCHEDULABLE") for number in range(1, 7)),
    ("events", "unexpectedadmission-1", "bad", "ADMISSION_FAILED"),
    ("events", "kueue-events-1", "good", "PLACED_AFTER_WAITING"),
    ("events", "volcano-events-1", "good", "PLACED_AFTER_WAITING"),
    ("events", "volcano-reason-1", "undecidable", "GANG_HELD"),
    ("events", "volcano-reason-2", "undecidable", "GANG_HELD"),
    ("podgroup", "volcano-podgroup-1", "good", "GANG_HELD"),
    ("podgroup", "volcano-podgroup-2", "good", "TEARING_DOWN"),
    ("podgroup", "volcano-podgroup-3", "good", "RUNNING"),
    ("resourceslice", "resourceslice-1", "undecidable", "INCOMPLETE_TEXT"),
    ("resourceslice", "resourceslice-2", "good", "COMPLETE"),
    ("resourceslice", "resourceslice-3", "good", "COMPLETE"),
    ("psa-rejection", "psa-rejection-1", "good", "REJECTED"),
    ("psa-rejection", "psa-rejection-2", "good", "REJECTED"),
    ("psa-rejection", "psa-rejection-3", "bad", "UNKNOWN_REASON"),
    ("mig-manager-log", "mig-manager-log-1", "good", "SUCCESS"),
    ("vectoradd", "cuda-vectoradd-1", "good", "TEST_PASSED"),
    ("vectoradd", "dra-test-output-1", "good", "TEST_PASSED"),
    ("pods", "operator-pods-1", "good", "ALL_WELL"),
    ("api-refusal", "pod-invalid-1", "good", "REFUSED"),
    ("nvidia-smi", "openshift-gpu-sharing-1", "good", "LISTED"),
]
WEAK = ["kueue-gang-kops-1", "gang-viettel-1", "gang-upcloud-1", "gpu-isolation-oke-1"]
"""Evidence that waits for completion only, or takes a missing command for isolation: it must count as proof of nothing."""


@pytest.mark.parametrize(("kind", "name", "verdict", "code"), VERDICTS, ids=[row[1] for row in VERDICTS])
def test_index_verdict(kind: str, name: str, verdict: str, code: str) -> None:
    result = inspect(kind, sample(name))
    assert (result.kind, result.verdict, result.reason_code) == (kind, verdict, code)
    assert result.message


def test_every_sample_of_the_index_has_a_verdict_here() -> None:
    rows = [row.split("|") for row in sample_index().splitlines() if row.startswith("| ")]
    listed = {name for row in rows if row[1].strip() != "file" for name in _names(row[1])}
    assert listed == {name for _, name, _, _ in VERDICTS} | set(WEAK)


def _names(entry: str) -> list[str]:
    """``nccl-tests-2/-3/-4`` stands for three files."""
    first, *others = entry.replace(" ", "").split("/")
    stem = first.rpartition("-")[0]
    return [first, *(f"{stem}{other}" for other in others)]


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"pods"}))
def test_weak_evidence_proves_nothing_of_any_kind(kind: str, name: str) -> None:
    try:
        result = inspect(kind, sample(name))
    except Unreadable:
        return
    assert result.verdict == "undecidable"


@pytest.mark.parametrize(
    ("number", "busbw", "size", "average"),
    [
        (1, 386.56, 8 << 30, 373.187),
        (2, 834.57, 8 << 30, 745.53),
        (3, 810.41, 16 << 30, 688.487),
        (4, 405.74, 16 << 30, 297.808),
        (5, 437.79, 2 << 30, 52.9753),
        (6, 483.05, 16 << 30, 156.742),
        (7, 369.86, 16 << 30, 84.0569),
        (8, 235.26, 8 << 30, 68.4048),
    ],
)
def test_bandwidth_is_that_of_the_largest_size(number: int, busbw: float, size: int, average: float) -> None:
    facts = inspect("nccl-tests", sample(f"nccl-tests-{number}")).facts
    assert (facts["busbw"], facts["largestBytes"], facts["averageBusbw"]) == (busbw, size, average)
    assert facts["wrong"] == (None if number == 8 else 0)


def test_gpus_to_replace_and_to_reset() -> None:
    actions = inspect("nvidia-smi", sample("nvidia-smi-q-2")).facts["actions"]
    assert isinstance(actions, dict)
    number = {action: [int(pci[:8], 16) for pci in pcis] for action, pcis in actions.items()}
    assert number == {"replace": [1, 2, 6, 8], "reset": [4], "healthy": [3, 5, 7]}


@each_row
def test_reasons_of_unschedulable_pods(number: int, total: int, reasons: list[tuple[int, str, str]]) -> None:
    messages = inspect("events", sample(f"failedscheduling-{number}")).facts["unschedulable"]
    assert isinstance(messages, list)
    assert messages[0]["total"] == total
    assert [(reason["count"], reason["kind"], reason["detail"]) for reason in messages[0]["reasons"]] == reasons
