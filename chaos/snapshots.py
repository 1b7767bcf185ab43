"""The lines of ``allocations.jsonl``: what the samples said of allocations, before the fault, during it, and after it was undone.

``after`` is read while what the experiment set up is still there: once its pods are being taken away, nobody is left to have kept
a device. Pure.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from chaos.acts import faults
from chaos.allocation import AFTER, BEFORE, DURING, Allocations, Snapshot
from chaos.conditions import JsonValue
from chaos.ledger.record import Line, State
from chaos.sampling.sample import Sample

SIGNAL = "allocations"
"""The signal whose values these are."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Moments of one experiment, in the sampler's seconds; None for what never came.

    ``armed``: the first fault may have happened. ``restored``: the last one was read back as undone. ``leaving``: what was set up
    began to be taken away.
    """

    armed: float | None = None
    restored: float | None = None
    leaving: float | None = None

    @classmethod
    def of(cls, lines: list[Line], began: float) -> Window:
        """The window of a ledger. ``began`` is the Unix time of the sampler's second 0."""
        landed = {line.seq for line in faults(lines)}
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


def snapshots(samples: list[Sample], window: Window, gap: float) -> list[Snapshot]:
    """The snapshots of an experiment: equal ones in a row are one. ``gap`` is how long before the fault ``before`` may have been read.

    A control run has no fault: its first reading of pods that hold devices is ``before``, its last one ``after``.
    """
    told = [_told(sample) for sample in samples if sample.t + sample.took <= (window.leaving or sample.t + sample.took)]
    known = [snapshot for snapshot in told if snapshot is not None]
    return _joined(_around(known, samples, window, gap) if window.armed is not None else _control(known))


def _told(sample: Sample) -> Snapshot | None:
    """What a sample says; None when nobody had asked yet."""
    if SIGNAL not in sample.values:
        return Snapshot(t=sample.t, phase="", trouble=sample.errors.get(SIGNAL, "it was not read"))
    value: JsonValue = sample.values[SIGNAL]
    if value is None:
        return None
    try:
        return Snapshot(t=sample.t, phase="", allocations=msgspec.convert(value, Allocations))
    except msgspec.ValidationError as error:
        return Snapshot(t=sample.t, phase="", trouble=str(error))


def _around(known: list[Snapshot], samples: list[Sample], window: Window, gap: float) -> list[Snapshot]:
    armed, ends = window.armed or 0.0, {sample.t: sample.t + sample.took for sample in samples}
    earlier = [one for one in known if ends[one.t] <= armed and one.t >= armed - gap]
    told = [one for one in earlier if one.allocations is not None]
    found = [_in(BEFORE, one) for one in (told or earlier)[-1:]]
    for one in known:
        if ends[one.t] > armed:
            found.append(_in(AFTER if window.restored is not None and one.t >= window.restored else DURING, one))
    return found


def _control(known: list[Snapshot]) -> list[Snapshot]:
    first = next((index for index, one in enumerate(known) if one.allocations is not None and one.allocations.pods), 0)
    rest = known[first:]
    phases = [BEFORE, *[DURING] * (len(rest) - 2), AFTER][: len(rest)]
    return [_in(phase, one) for phase, one in zip(phases, rest, strict=True)]


def _in(phase: str, one: Snapshot) -> Snapshot:
    return msgspec.structs.replace(one, phase=phase)


def _joined(found: list[Snapshot]) -> list[Snapshot]:
    joined: list[Snapshot] = []
    for one in found:
        last = joined[-1] if joined else None
        if last is not None and (last.phase, last.allocations, last.trouble) == (one.phase, one.allocations, one.trouble):
            joined[-1] = msgspec.structs.replace(last, readings=last.readings + one.readings)
        else:
            joined.append(one)
    return joined
