"""Findings from the allocation ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.model.allocations import AFTER, BEFORE, DURING, AllocationSnapshot, InvariantResult, check_invariants
from chaos.verdict.findings import finding, undecided
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

NAME = "allocations"


def allocation_findings(kept: list[AllocationSnapshot], inject: float) -> Iterator[ChaosFinding]:
    """A finding for each invariant, with how many subjects it was judged on. None to judge is no pass, and nothing read is no data.

    What is broken is failed, whatever is not known of the rest. What was read before ``inject`` is not after the fault.
    """
    snapshots = [snapshot for snapshot in kept if snapshot.phase != AFTER or snapshot.t >= inject]
    found = check_invariants(snapshots)
    readings = sum(snapshot.readings for snapshot in snapshots if snapshot.allocations is not None)
    for one in found:
        for breach in one.breaches:
            message = f"{breach.message} (of {one.subjects} {one.of})"
            yield finding(Verdict.FAILED, _name(one), "AllocationBroken", message, breach.t)
    read = {snapshot.phase for snapshot in snapshots if snapshot.allocations is not None}
    missing = [phase for phase in (BEFORE, DURING, AFTER) if phase not in read]
    for phase in missing:
        yield undecided(NAME, "NoData", f"allocations were not read {_WORDS[phase]}: {_why(snapshots, phase)}")
    for one in found if not missing else ():
        if one.breaches:
            continue
        if not one.subjects:
            yield undecided(_name(one), "NoData", f"0 {one.of}: there was nothing to judge")
        else:
            yield finding(Verdict.PASSED, _name(one), "", f"{one.subjects} {one.of}, {_HELD[one.invariant]}, in {readings} readings")


_WORDS = {BEFORE: "before the fault", DURING: "during the fault", AFTER: "after its undo, with the experiment's pods still there"}
_HELD = {
    "exclusive": "none of them the same one",
    "complete": "each with as many devices as it asks for",
    "seen": "each with the devices inside that it was given",
    "kept": "each with the ids of before",
    "lost": "all of them offered after",
}


def _name(one: InvariantResult) -> str:
    return f"{NAME}: {one.invariant}"


def _why(snapshots: list[AllocationSnapshot], phase: str) -> str:
    said = [snapshot.trouble for snapshot in snapshots if snapshot.trouble and snapshot.phase == phase]
    return said[-1] if said else "there is no sample that tells"
