"""The invariants of the allocation ledger, each broken alone, and the findings that come of them."""

import msgspec
import pytest

from chaos.model.allocations import AFTER, BEFORE, DURING, Allocations, AllocationSnapshot, PodDevices, check_invariants
from chaos.verdict.allocation_findings import allocation_findings
from fixtures.verdict.record import Verdict

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
