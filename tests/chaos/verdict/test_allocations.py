"""Allocations: which samples count as before, during and after the fault, and the invariants, each broken alone."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.allocations import AFTER, BEFORE, DURING, Allocations, AllocationSnapshot, PodDevices, check_invariants
from chaos.model.records import Line
from chaos.observe.view import Sample
from chaos.verdict.allocation_snapshots import LedgerTimes, allocation_findings, allocation_snapshots
from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.folder import BEGAN, Folder, at, entry, ledger, samples

GPU = "nvidia.com/gpu"
INVARIANTS = ("exclusive", "complete", "seen", "kept", "lost")


def pod(name: str, *ids: str, asked: int | None = None, seen: list[str] | None = None, node: str = "n1", resource: str = GPU) -> PodDevices:
    requested = {resource: len(ids) if asked is None else asked}
    return PodDevices(namespace="a", name=name, node=node, requested=requested, ids={resource: list(ids)}, seen=seen)


def moments(
    *states: dict[str, PodDevices],
    inventory: list[list[str]] | None = None,
    counts: list[int] | None = None,
    shared: list[str] | None = None,
) -> list[AllocationSnapshot]:
    """Before, during, and after; one state alone is before, of two the second is after."""
    found = []
    for index, pods in enumerate(states):
        offered = inventory[index] if inventory else ["GPU-1", "GPU-2"]
        ids = {} if counts else {"n1": {GPU: offered}}
        counted = {"n1": {GPU: counts[index]}} if counts else {}
        allocations = Allocations(pods=pods, inventory=ids, counted=counted, shared=shared or [])
        phase = BEFORE if index == 0 else AFTER if index == len(states) - 1 else DURING
        found.append(AllocationSnapshot(t=float(index), phase=phase, allocations=allocations))
    return found


def broken(snapshots: list[AllocationSnapshot]) -> list[tuple[str, float]]:
    return [(one.invariant, breach.t) for one in check_invariants(snapshots) for breach in one.breaches]


def subjects(snapshots: list[AllocationSnapshot]) -> dict[str, int]:
    return {one.invariant: one.subjects for one in check_invariants(snapshots)}


ONE = {"1": pod("p", "GPU-1")}
BOTH = {**ONE, "2": pod("q", "GPU-1")}
REPLICAS = {"1": pod("p", "GPU-1::0", seen=["GPU-1"]), "2": pod("q", "GPU-1::1", seen=["GPU-1"])}
SEEN_TWICE = {"1": pod("p", "GPU-1", seen=["GPU-1"]), "2": pod("q", "GPU-2", seen=["GPU-1"])}
STATES: dict[str, tuple[list[AllocationSnapshot], list[tuple[str, float]]]] = {
    "one device in two pods": (moments(ONE, BOTH), [("exclusive", 1.0)]),
    "told once, at its first sight": (moments(BOTH, BOTH, BOTH), [("exclusive", 0.0)]),
    "the same id on two nodes": (moments({"1": pod("p", "0"), "2": pod("q", "0", node="n2")}), []),
    "declared sharing": (moments(BOTH, shared=[GPU]), []),
    "replicas share a UUID": (moments(REPLICAS), []),
    "and not an id": (moments({**REPLICAS, "3": pod("r", "GPU-1::1")}), [("exclusive", 0.0)]),
    "seen in two pods": (moments(SEEN_TWICE), [("exclusive", 0.0), ("seen", 0.0)]),
    "another device in a pod that stayed": (moments(ONE, {"1": pod("p", "GPU-2")}), [("kept", 1.0)]),
    "fewer devices than asked for": (moments({"1": pod("p", asked=1)}), [("complete", 0.0)]),
    "more devices than asked for": (moments({"1": pod("p", "GPU-1", "GPU-2", asked=1)}), [("complete", 0.0)]),
    "another's device seen": (moments({"1": pod("p", "GPU-1", seen=["GPU-1", "GPU-2"])}), [("seen", 0.0)]),
    "a device lost": (moments({}, {}, {}, inventory=[["GPU-1", "GPU-2"], ["GPU-1"], ["GPU-1"]]), [("lost", 2.0)]),
    "all away and back": (moments({}, {}, {}, inventory=[["GPU-1", "GPU-2"], [], ["GPU-2", "GPU-1"]]), []),
    "as many, and not the same": (moments({}, {}, inventory=[["GPU-1", "GPU-2"], ["GPU-1", "GPU-3"]]), [("lost", 1.0)]),
}


@pytest.mark.parametrize(("snapshots", "found"), STATES.values(), ids=STATES)
def test_an_invariant_is_broken_by_this_and_not_by_that(snapshots: list[AllocationSnapshot], found: list[tuple[str, float]]) -> None:
    assert broken(snapshots) == found


def test_a_device_that_is_lost_is_counted_where_nobody_tells_ids() -> None:
    assert broken(moments({}, {}, {}, counts=[8, 0, 7])) == [("lost", 2.0)]
    assert broken(moments({}, {}, {}, counts=[8, 0, 8])) == []
    lost = check_invariants(moments({}, {}, counts=[8, 8]))[-1]
    assert (lost.subjects, lost.of) == (8, "devices offered before (8 of them counted: nobody tells their ids)")


@pytest.mark.parametrize("by_id_first", [True, False])
def test_ids_and_counts_are_compared_by_number(by_id_first: bool) -> None:
    by_id = Allocations(inventory={"n1": {GPU: ["GPU-1", "GPU-2"]}})
    for count, lost in ((2, 0), (1, 1), (3, 0)):
        counted = Allocations(counted={"n1": {GPU: count}})
        first, last = (by_id, counted) if by_id_first else (counted, by_id)
        found = check_invariants(
            [AllocationSnapshot(t=0.0, phase=BEFORE, allocations=first), AllocationSnapshot(t=1.0, phase=AFTER, allocations=last)]
        )
        assert len(found[-1].breaches) == (lost if by_id_first else count == 3)


# -- how many were judged --------------------------------------------------------------------------------


def test_subjects_are_counted() -> None:
    first = {"1": pod("p", "GPU-1", seen=["GPU-1"]), "2": pod("q", "GPU-2")}
    later = {"1": pod("p", "GPU-1", seen=["GPU-1"]), "3": pod("r", "GPU-2")}
    assert subjects(moments(first, later)) == {"exclusive": 3, "complete": 3, "seen": 1, "kept": 1, "lost": 2}


def test_a_pod_alone_on_its_node_shares_nothing_whatever_is_wrong() -> None:
    assert subjects(moments({"1": pod("p", "GPU-1"), "2": pod("q", "GPU-1", node="n2")}))["exclusive"] == 0


def test_nothing_is_compared_with_a_before_or_an_after_that_there_is_not() -> None:
    state = {"1": pod("p", "GPU-1")}
    found = subjects([msgspec.structs.replace(one, phase=DURING) for one in moments(state, state)])
    assert (found["kept"], found["lost"]) == (0, 0)


def healthy(seen: bool = True) -> dict[str, PodDevices]:
    return {str(n): pod(f"p{n}", f"GPU-{n}", seen=[f"GPU-{n}"] if seen else None) for n in (1, 2)}


def verdicts(snapshots: list[AllocationSnapshot], inject: float = 0.5) -> dict[str, Verdict]:
    return {one.name.removeprefix("allocations: "): one.verdict for one in allocation_findings(snapshots, inject)}


@pytest.mark.parametrize(
    ("snapshots", "undecided"),
    [
        (moments({}, {}, {}), {"exclusive", "complete", "seen", "kept"}),
        (moments(healthy(), healthy(), healthy(), inventory=[[], [], []]), {"lost"}),
        (moments(healthy(), healthy(), {}), {"kept"}),
        (moments(healthy(seen=False), healthy(seen=False), healthy(seen=False)), {"seen"}),
        (moments(*[{"1": pod("p", "GPU-1", seen=["GPU-1"])}] * 3), {"exclusive"}),
    ],
    ids=["no pod", "no device", "no pod after", "nobody looked inside", "one pod alone"],
)
def test_a_ledger_of_nothing_is_inconclusive(snapshots: list[AllocationSnapshot], undecided: set[str]) -> None:
    found = verdicts(snapshots)
    assert {name for name, verdict in found.items() if verdict is Verdict.INCONCLUSIVE} == undecided
    assert set(found) == set(INVARIANTS)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_allocations_that_were_not_read_in_one_phase_are_inconclusive_with_the_reason(missing: int) -> None:
    snapshots = moments(healthy(), healthy(), healthy())
    snapshots[missing] = msgspec.structs.replace(snapshots[missing], allocations=None, trouble="the reader of n1 is gone")
    found = list(allocation_findings(snapshots, 0.5))
    assert [one.verdict for one in found] == [Verdict.INCONCLUSIVE]
    assert "the reader of n1 is gone" in found[0].message


def test_what_is_broken_is_failed_though_the_reader_died_later() -> None:
    both = {"1": pod("p", "GPU-1"), "2": pod("q", "GPU-1")}
    snapshots = moments(healthy(), both, healthy())[:2]
    found = list(allocation_findings([*snapshots, AllocationSnapshot(t=3.0, phase=AFTER, trouble="it is gone")], 0.5))
    assert [one.verdict for one in found] == [*[Verdict.FAILED] * (len(found) - 1), Verdict.INCONCLUSIVE]
    assert all("(of " in one.message for one in found[:-1])
    assert "it is gone" in found[-1].message


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
