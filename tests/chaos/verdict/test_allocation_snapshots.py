"""Which samples count as before the fault, during it and after its undo."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.allocations import AFTER, BEFORE, DURING, AllocationSnapshot
from chaos.model.ledger_lines import Line
from chaos.observe.sample import Sample
from chaos.verdict.allocation_snapshots import LedgerTimes, allocation_snapshots
from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.folder import BEGAN, Folder, at, entry, ledger, samples

WINDOW = LedgerTimes(armed=2.0, restored=4.0, leaving=6.0)
HELD: dict[str, Any] = {"pods": {"1": {"namespace": "a", "name": "p", "node": "n1"}}}


def sample(t: float, value: Any = HELD, error: str = "", took: float = 0.1) -> Sample:
    return Sample(t=t, at=at(t), took=took, values={} if error else {"allocations": value}, errors={"allocations": error} if error else {})


def every(step: float = 0.5, end: float = 8.0) -> list[Sample]:
    return [sample(index * step) for index in range(int(end / step))]


def phases(found: list[AllocationSnapshot]) -> list[tuple[str, float, int]]:
    return [(one.phase, one.t, one.readings) for one in found]


@pytest.mark.parametrize(
    ("taken", "window", "found"),
    [
        (every(), WINDOW, [(BEFORE, 1.5, 1), (DURING, 2.0, 4), (AFTER, 4.0, 4)]),
        ([*every(end=6.0), sample(5.95), sample(6.5, {"pods": {}})], WINDOW, [(BEFORE, 1.5, 1), (DURING, 2.0, 4), (AFTER, 4.0, 4)]),
        ([sample(1.0), sample(1.95), sample(4.5)], WINDOW, [(BEFORE, 1.0, 1), (DURING, 1.95, 1), (AFTER, 4.5, 1)]),
        ([sample(1.0, None), sample(2.5, None)], WINDOW, []),
        (every(), LedgerTimes(armed=2.0, leaving=6.0), [(BEFORE, 1.5, 1), (DURING, 2.0, 8)]),
        (
            [sample(0.5, {"pods": {}}), sample(1.0), sample(1.5), sample(2.0), sample(6.5)],
            LedgerTimes(leaving=6.0),
            [(BEFORE, 1.0, 1), (DURING, 1.5, 1), (AFTER, 2.0, 1)],
        ),
    ],
    ids=["a fault", "pods taken away at the end", "one reading across the fault", "nobody had asked", "never restored", "control run"],
)
def test_which_readings_are_before_during_and_after(taken: list[Sample], window: LedgerTimes, found: list[tuple[str, float, int]]) -> None:
    assert phases(allocation_snapshots(taken, window, 5.0)) == found


def test_no_data_is_recorded_as_no_data_with_the_reason() -> None:
    taken = [sample(1.0), sample(2.5), *[sample(t, error="the reader is gone") for t in (3.0, 3.5, 4.5)]]
    found = allocation_snapshots(taken, WINDOW, 5.0)
    assert phases(found) == [(BEFORE, 1.0, 1), (DURING, 2.5, 1), (DURING, 3.0, 2), (AFTER, 4.5, 1)]
    assert [one.trouble for one in found] == ["", "", "the reader is gone", "the reader is gone"]
    assert [one.allocations is None for one in found] == [False, False, True, True]


@pytest.mark.parametrize("value", [7, [], {"pods": {"1": {"namespace": 3}}}])
def test_what_is_no_allocation_is_no_data(value: Any) -> None:
    found = allocation_snapshots([sample(2.5, value)], WINDOW, 5.0)
    assert found[0].allocations is None
    assert found[0].trouble


def test_before_was_read_shortly_before() -> None:
    taken = [sample(0.5), *[sample(t, error="silent") for t in (1.0, 1.5)], sample(2.5)]
    assert phases(allocation_snapshots(taken, WINDOW, 5.0))[0] == (BEFORE, 0.5, 1)
    late = allocation_snapshots(taken, WINDOW, 1.2)
    assert (late[0].phase, late[0].allocations, late[0].trouble) == (BEFORE, None, "silent")


def prepared(seq: int, start: float, undone: float) -> list[dict[str, Any]]:
    states = [("armed", start), ("applied", start + 0.1), ("undoing", undone), ("verified", undone + 0.5)]
    lines: list[dict[str, Any]] = [{"seq": seq, "state": state, "at": at(t)} for state, t in states]
    lines[0]["entry"], lines[1]["detail"] = entry(seq, "object.absent"), {"preparation": True}
    return lines


def window(*documents: list[dict[str, Any]]) -> tuple[float | None, ...]:
    lines = [msgspec.convert(line, Line) for document in documents for line in document]
    found = LedgerTimes.of(lines, BEGAN)
    return tuple(None if one is None else round(one, 3) for one in (found.armed, found.restored, found.leaving))


def test_the_moments_of_a_ledger() -> None:
    assert window(prepared(1, 0.5, 6.0), ledger(2)) == (2.0, 4.2, 6.0)
    assert window(prepared(1, 0.5, 6.0), ledger(2), ledger(3, start=2.5)) == (2.0, 4.7, 6.0)
    assert window(prepared(1, 0.5, 6.0), ledger(2)[:-1]) == (2.0, None, 6.0)
    assert window(prepared(1, 0.5, 6.0)) == (None, None, 6.0)
    assert window([]) == (None, None, None)


def holding(name: str, uuid: str) -> dict[str, Any]:
    return {"namespace": "a", "name": name, "node": "n1", "requested": {"gpu": 1}, "ids": {"gpu": [uuid]}, "seen": [uuid]}


TOLD: dict[str, Any] = {
    "pods": {"1": holding("p", "GPU-1"), "2": holding("q", "GPU-2")},
    "inventory": {"n1": {"gpu": ["GPU-1", "GPU-2"]}},
}


@pytest.mark.parametrize(
    ("died", "verdict"),
    [(99.0, Verdict.PASSED), (3.0, Verdict.INCONCLUSIVE), (1.0, Verdict.INCONCLUSIVE)],
    ids=["never", "during the fault", "before it"],
)
def test_a_reader_that_died_never_passes(tmp_path: Path, died: float, verdict: Verdict) -> None:
    folder = Folder(tmp_path, signals=["node.labels", "node.ready", "nodes.others", "allocations"])
    folder.samples = [
        {**one, "errors": {"allocations": "the reader of n1 is gone"}} if one["t"] >= died else one
        for one in samples(lambda t: {"allocations": TOLD} if t < died else {})
    ]
    read = [msgspec.convert(one, Sample) for one in folder.samples]
    lines = [msgspec.convert(line, Line) for line in folder.ledger]
    folder.allocations = [msgspec.to_builtins(one) for one in allocation_snapshots(read, LedgerTimes.of(lines, BEGAN), 1.0)]
    found = judge(folder.write())
    assert found.verdict is verdict, found.message
    assert ("the reader of n1 is gone" in found.message) is (verdict is Verdict.INCONCLUSIVE)
