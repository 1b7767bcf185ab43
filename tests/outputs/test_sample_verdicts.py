"""Every capture of the samples' index that the readers concern gets the verdict the index states, through ``inspect``."""

import pytest

from conformance.cli.inspect import KINDS, inspect
from conformance.outputs.captured_text import Unreadable
from tests.samples import sample, sample_index
from tests.tables import each_row, table

TABLE = table(__file__)
VERDICTS = TABLE["test_index_verdict"]["kind, name, verdict, code"]
WEAK = ["kueue-gang-kops-1", "gang-viettel-1", "gang-upcloud-1", "gpu-isolation-oke-1"]
"""Evidence that waits for completion only, or takes a missing command for isolation: it must count as proof of nothing."""


@each_row
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


@each_row
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
