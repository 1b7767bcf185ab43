"""What was expected of the samples: always and never over a window, eventually within a bound. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from chaos import marks
from chaos.acts import finding, undecided
from chaos.conditions import All, AnyOf, Condition, JsonValue, Leaf, parse, signals
from chaos.experiment import Expectation
from chaos.marks import Told
from fixtures.chaos_record import ChaosFinding
from fixtures.record import Verdict

if TYPE_CHECKING:
    from chaos.course import Course

OWN = "canaries."
"""How the signals of the experiment's own pods begin: their baseline is never empty by nature."""


def judged(course: Course, expectation: Expectation) -> Iterator[ChaosFinding]:
    """What one expectation came to, and on how many subjects."""
    among = subjects(expectation.condition, course.baseline)
    for found in _judged(course, expectation):
        passed = found.verdict is Verdict.PASSED and among
        yield msgspec.structs.replace(found, message=f"{found.message}, for {among}") if passed else found


def subjects(condition: Condition, baseline: dict[str, JsonValue]) -> str:
    """What a condition is about, where its signals list it: how many entries each had before the fault."""
    counted = {name: len(value) for name in signals(condition) if isinstance(value := baseline.get(name), (dict, list)) and value}
    return ", ".join(f"{count} in {name}" for name, count in counted.items())


def _judged(course: Course, expectation: Expectation) -> Iterator[ChaosFinding]:
    name = f"expect: {expectation.name}"
    end = course.undo_began if expectation.until == "undo" and course.undo_began is not None else course.end
    if expectation.always is not None:
        yield from always(course, name, expectation.always, "ExpectationViolated", course.inject.earliest, end, wanted=True)
    elif expectation.never is not None:
        yield from always(course, name, expectation.never, "ExpectationViolated", course.inject.earliest, end, wanted=False)
    elif expectation.eventually is not None:
        yield _eventually(course, name, expectation.eventually, course.seconds[expectation.within])


def always(
    course: Course, name: str, document: dict[str, JsonValue], code: str, start: float, end: float, *, wanted: bool
) -> Iterator[ChaosFinding]:
    """The condition is ``wanted`` in every sample of a window. One that broke it stays found, whatever is not known of the others."""
    if wanted and (empty := unbreakable(parse(document), course.baseline)):
        if empty.startswith(OWN):
            yield undecided(name, "NoData", f"{empty} was empty before the fault: the experiment's own pods were never seen")
            return
        yield finding(Verdict.NOT_APPLICABLE, name, "", f"{empty} was empty before the fault: there was nothing that could be lost")
        return
    told = [one for one in course.told(document) if start <= one.end <= end]  # what was read beyond the end saw what came after it
    broken = next((one for one in told if one.holds is (not wanted)), None)
    if broken is not None:
        yield finding(Verdict.FAILED, name, code, _seen(course, document, broken), broken.t)
        return
    silence = marks.silence(told, start, max(end, start))
    since = [one for one in told if one.t >= start]  # a reading that began before saw the time before as well
    if not any(one.holds is wanted for one in since) or silence > course.seconds["gap"]:
        yield undecided(name, "NoData", f"not known for {silence:.2f} s, the limit is {course.seconds['gap']:g} s")
    else:
        count = sum(one.holds is wanted for one in told)
        yield finding(Verdict.PASSED, name, "", f"held in {count} of {count} samples that tell")


def unbreakable(condition: Condition, baseline: dict[str, JsonValue]) -> str:
    """The signal of a comparison that holds whatever comes, because it must contain a baseline that is empty; else nothing."""
    if isinstance(condition, All):
        found = [unbreakable(part, baseline) for part in condition.parts]
        return found[0] if all(found) else ""
    if isinstance(condition, AnyOf):
        return next(filter(None, (unbreakable(part, baseline) for part in condition.parts)), "")
    if isinstance(condition, Leaf) and condition.operator == "contains" and condition.of_baseline:
        return condition.signal if baseline.get(condition.signal, 0) in ({}, [], "") else ""
    return ""


def _seen(course: Course, document: dict[str, JsonValue], where: Told) -> str:
    sample = next(sample for sample in course.samples if sample.t == where.t)
    parts = []
    for name in dict.fromkeys(signals(parse(document))):
        parts.append(f"{name} was {short(course.baseline.get(name))} and is {short(sample.values.get(name))}")
    return f"at {where.t - course.inject.t:+.2f} s: {'; '.join(parts)}"


def _eventually(course: Course, name: str, document: dict[str, JsonValue], within: float) -> ChaosFinding:
    """Became true after the fault, in time: it did not hold before it, or was lost first. What held all along shows nothing."""
    told, start = course.told(document), course.inject.earliest
    inside = [one for one in told if start < one.end <= start + within]
    missing = marks.missing(told, start, start + within)
    if missing is None and any(one.holds for one in inside):
        return undecided(name, "HeldBefore", "nothing to see: no sample shows it not to hold, neither before the fault nor since")
    mark = None if missing is None else marks.first(told, max(missing.t, start))
    if mark is None or mark.earliest - course.inject.t > within:
        return _not_seen(course, name, inside, within)
    soonest, latest = max(mark.earliest - course.inject.t, 0.0), mark.t - start
    text = f"seen {max(mark.t - course.inject.t, 0.0):.2f} s after the fault (± {latest - soonest:.2f} s), bound {within:g} s"
    return undecided(name, "ExpectationUndecided", text) if latest > within else finding(Verdict.PASSED, name, "", text, mark.t)


def _not_seen(course: Course, name: str, inside: list[Told], within: float) -> ChaosFinding:
    """Not within the bound. That is a failure where samples tell so all along."""
    until = max((one.end for one in inside if one.holds is False), default=course.inject.t)
    silent = marks.silence(inside, course.inject.earliest, course.inject.earliest + within)
    if silent > course.seconds["gap"]:
        text = f"not seen within {max(until - course.inject.t, 0):.2f} s, and not known for {silent:.2f} s of {within:g} s"
        return undecided(name, "NoData", f"{text}, the limit is {course.seconds['gap']:g} s")
    return finding(Verdict.FAILED, name, "ExpectationViolated", f"not seen within {within:g} s", until)


def short(value: JsonValue) -> str:
    """A value in a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 160 else text[:157] + "..."
