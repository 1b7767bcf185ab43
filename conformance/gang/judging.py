"""Findings about gangs from the numbers of bound pods over time. Pure."""

from collections.abc import Callable

import msgspec

from conformance.gang.plan import Plan
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

SOURCE = "pod.spec.nodeName at every event"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One set of pods over the time it was watched. ``spread``: seconds between first and last PodScheduled."""

    size: int
    bound: int
    most: int
    seconds: float
    spread: float | None
    trace: str
    missing: int = 0  # members that somebody removed while they were watched
    without_devices: tuple[str, ...] = ()  # members that are bound while no claim holds devices for them

    @property
    def whole(self) -> bool:
        """Whether all were bound at the end."""
        return self.bound == self.size


class Competition(msgspec.Struct, frozen=True, kw_only=True):
    """Two gangs: bound counts when the first was whole (or time was up), and whether the second followed."""

    size: int
    first: tuple[int, int]
    started: bool
    followed: bool
    trace: str


def _no_control(about: About, why: str) -> Finding:
    return about.undecided(f"PositiveControlFailed: {why}", cause="PositiveControlFailed")


def _more_room(about: About, why: str, plan: Plan) -> Finding:
    return about.undecided(f"{why}, so there was more room than was counted ({plan})", cause="ProbeDisturbed")


def judge_fit(subject: Subject, plan: Plan, attempt: Attempt, control: Attempt | None) -> Finding:
    """GANG-02. ``control``: the same pods without a gang, run when the gang did not start."""
    expected = f"all {attempt.size} bound ({plan})"
    spread = f", PodScheduled within {attempt.spread:g} s of each other" if attempt.spread is not None else ""
    observed = f"{attempt.bound} of {attempt.size} bound after {attempt.seconds:.1f} s{spread}; {attempt.trace}"
    about = About(subject, SOURCE, expected, observed)
    if attempt.without_devices:
        names = listed(attempt.without_devices, 3)
        message = f"{names} of the gang are bound, and no claim holds devices for them: the scheduler ignores claims, so they never start"
        return about.bad(message, cause="GangIgnoresClaims", expected=f"{expected}, with their claims allocated")
    if attempt.whole:
        return about.ok()
    if control is not None and not control.whole:
        return _no_control(about, f"without a gang {control.bound} of {control.size} pods were bound either, so they did not fit anyway")
    part = f"is short of {attempt.size - attempt.bound}" if attempt.bound else "does not start at all"
    return about.bad(f"a gang that fits {part}, while the same pods without a gang are all bound", cause="GangNotWhole")


def judge_misfit(subject: Subject, plan: Plan, misfit: Attempt, control: Callable[[], Attempt], window: float, promise: str) -> Finding:
    """GANG-03. The controls before it have passed; ``control`` runs the last one: the same gang, of a size that fits.

    It is run only where it decides: what was bound in part stays a fault, whatever becomes of a control.
    """
    expected = f"0 of {misfit.size} bound for {window:.1f} s ({plan}); {promise}"
    observed = f"at most {misfit.most} of {misfit.size} bound; {misfit.trace}"
    about = About(subject, SOURCE, expected)
    if misfit.most >= misfit.size:
        return _more_room(about, f"all {misfit.size} pods were bound", plan)
    if misfit.most:
        part = f"{misfit.most} of {misfit.size} pods of a gang that does not fit were bound"
        message = f"{part}: they hold devices, and their job cannot start"
        return about.bad(message, cause="GangPlacedInPart", observed=observed)
    if misfit.missing:
        message = f"{misfit.missing} of {misfit.size} pods were removed by somebody while they were watched, and may have been bound before"
        return about.undecided(message, cause="ProbeDisturbed")
    lowered = control()
    if not lowered.whole:
        return _no_control(about, f"the same gang of {lowered.size} that fits did not start ({lowered.trace}), so waiting proves nothing")
    return about.ok(f"{observed}; lowered to {lowered.size} all bound after {lowered.seconds:.1f} s")


def judge_competition(subject: Subject, plan: Plan, seen: Competition, control: Attempt | None = None) -> Finding:
    """GANG-04: one gang whole, the other without a pod; then the other whole.

    ``control``: the same pods of one gang without it, run when a gang did not start: whether they still fitted.
    """
    expected = f"{seen.size}+0, then all {seen.size} of the other gang when the first ends ({plan})"
    observed = f"{seen.first[0]}+{seen.first[1]} of {seen.size}+{seen.size} bound; {seen.trace}"
    about = About(subject, SOURCE, expected, observed)
    if control is not None and not control.whole:
        return _no_control(about, f"without a gang {control.bound} of {control.size} pods were bound: there was less room than counted")
    if not seen.started and any(seen.first):
        held = f"two gangs of {seen.size} hold {seen.first[0]} and {seen.first[1]} pods"
        return about.bad(f"{held} and neither can start: a deadlock over devices", cause="GangsBlockEachOther")
    if not seen.started:
        return about.bad(f"two gangs of {seen.size} pods compete, each of them fits alone, and none starts", cause="GangsBlockEachOther")
    if seen.first == (seen.size, seen.size):
        return _more_room(about, "both gangs were bound at once", plan)
    if min(seen.first) > 0:
        message = f"while one gang runs, the other holds {min(seen.first)} of its {seen.size} pods and waits for the rest"
        return about.bad(message, cause="GangsBlockEachOther")
    if not seen.followed:
        return about.bad("the second gang does not start after the first has ended, although it fits", cause="GangsBlockEachOther")
    return about.ok()
