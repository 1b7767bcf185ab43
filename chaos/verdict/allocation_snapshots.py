"""The lines of ``allocations.jsonl``: what the samples said of allocations, before the fault, during it, and after it was undone.

``after`` is read while what the experiment set up is still there: once its pods are being taken away, nobody is left to have kept
a device. Pure.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from chaos.model.allocations import AFTER, BEFORE, DURING, Allocations, AllocationSnapshot, InvariantResult, check_invariants
from chaos.model.conditions import JsonValue
from chaos.model.records import Line, State, landed_faults
from chaos.observe.view import Sample
from chaos.verdict.expectations import finding, undecided
from fixtures.text import typed
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

SIGNAL = "allocations"
"""The signal whose values these are."""

_PHASES = {BEFORE: "before the fault", DURING: "during the fault", AFTER: "after its undo, with the experiment's pods still there"}
_HOLDS = {
    "exclusive": "none of them the same one",
    "complete": "each with as many devices as it asks for",
    "seen": "each with the devices inside that it was given",
    "kept": "each with the ids of before",
    "lost": "all of them offered after",
}


class LedgerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Moments of one experiment, in the sampler's seconds; None for what never came.

    ``armed``: the first fault may have happened. ``restored``: the last one was read back as undone. ``leaving``: what was set up
    began to be taken away.
    """

    armed: float | None = None
    restored: float | None = None
    leaving: float | None = None

    @classmethod
    def of(cls, lines: list[Line], began: float) -> "LedgerTimes":
        """The window of a ledger. ``began`` is the Unix time of the sampler's second 0."""
        landed = {line.seq for line in landed_faults(lines)}
        times = {
            state: [(line.seq in landed, datetime.fromisoformat(line.at).timestamp() - began) for line in lines if line.state is state]
            for state in (State.ARMED, State.VERIFIED, State.UNDOING)
        }
        verified = {line.seq for line in lines if line.state is State.VERIFIED}
        return cls(
            armed=min((t for fault, t in times[State.ARMED] if fault), default=None),
            restored=max((t for fault, t in times[State.VERIFIED] if fault), default=None) if landed <= verified else None,
            leaving=min((t for fault, t in times[State.UNDOING] if not fault), default=None),
        )


def allocation_snapshots(samples: list[Sample], window: LedgerTimes, gap: float) -> list[AllocationSnapshot]:
    """The snapshots of an experiment: equal ones in a row are one. ``gap`` is how long before the fault ``before`` may have been read.

    A control run has no fault: its first reading of pods that hold devices is ``before``, its last one ``after``.
    """
    read = [_snapshot_of(sample) for sample in samples if sample.end <= (window.leaving or sample.end)]
    known = [snapshot for snapshot in read if snapshot is not None]
    return _joined(_around(known, samples, window, gap) if window.armed is not None else _control(known))


def _snapshot_of(sample: Sample) -> AllocationSnapshot | None:
    """What a sample says; None when nobody had asked yet."""
    if SIGNAL not in sample.values:
        return AllocationSnapshot(t=sample.t, phase="", trouble=sample.errors.get(SIGNAL, "it was not read"))
    value: JsonValue = sample.values[SIGNAL]
    if value is None:
        return None
    try:
        return AllocationSnapshot(t=sample.t, phase="", allocations=typed.convert(value, Allocations))
    except msgspec.ValidationError as error:
        return AllocationSnapshot(t=sample.t, phase="", trouble=str(error))


def _around(known: list[AllocationSnapshot], samples: list[Sample], window: LedgerTimes, gap: float) -> list[AllocationSnapshot]:
    armed, ends = window.armed or 0.0, {sample.t: sample.end for sample in samples}
    earlier = [one for one in known if ends[one.t] <= armed and one.t >= armed - gap]
    with_data = [one for one in earlier if one.allocations is not None]
    found = [_in(BEFORE, one) for one in (with_data or earlier)[-1:]]
    for one in known:
        if ends[one.t] > armed:
            found.append(_in(AFTER if window.restored is not None and one.t >= window.restored else DURING, one))
    return found


def _control(known: list[AllocationSnapshot]) -> list[AllocationSnapshot]:
    first = next((index for index, one in enumerate(known) if one.allocations is not None and one.allocations.pods), 0)
    rest = known[first:]
    phases = [BEFORE, *[DURING] * (len(rest) - 2), AFTER][: len(rest)]
    return [_in(phase, one) for phase, one in zip(phases, rest, strict=True)]


def _in(phase: str, one: AllocationSnapshot) -> AllocationSnapshot:
    return msgspec.structs.replace(one, phase=phase)


def _joined(found: list[AllocationSnapshot]) -> list[AllocationSnapshot]:
    joined: list[AllocationSnapshot] = []
    for one in found:
        last = joined[-1] if joined else None
        if last is not None and (last.phase, last.allocations, last.trouble) == (one.phase, one.allocations, one.trouble):
            joined[-1] = msgspec.structs.replace(last, readings=last.readings + one.readings)
        else:
            joined.append(one)
    return joined


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
            yield finding(Verdict.FAILED, _invariant_name(one), "AllocationBroken", message, breach.t)
    read = {snapshot.phase for snapshot in snapshots if snapshot.allocations is not None}
    missing = [phase for phase in (BEFORE, DURING, AFTER) if phase not in read]
    for phase in missing:
        yield undecided(SIGNAL, "NoData", f"allocations were not read {_PHASES[phase]}: {_why_unread(snapshots, phase)}")
    for one in found if not missing else ():
        if one.breaches:
            continue
        if not one.subjects:
            yield undecided(_invariant_name(one), "NoData", f"0 {one.of}: there was nothing to judge")
        else:
            text = f"{one.subjects} {one.of}, {_HOLDS[one.invariant]}, in {readings} readings"
            yield finding(Verdict.PASSED, _invariant_name(one), "", text)


def _invariant_name(one: InvariantResult) -> str:
    return f"{SIGNAL}: {one.invariant}"


def _why_unread(snapshots: list[AllocationSnapshot], phase: str) -> str:
    reported = [snapshot.trouble for snapshot in snapshots if snapshot.trouble and snapshot.phase == phase]
    return reported[-1] if reported else "there is no sample that tells"
