"""UPG-05: what a run says of itself against its baseline, as the result of a requirement. Pure.

Its subjects are the requirements and experiments that either run has. Two runs are never compared by this result of theirs, since it
already is a comparison.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from fixtures.text.sentences import listed
from fixtures.verdict.coverage import DECIDED
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Report, Result, SubjectResult, Verdict
from reports.diff import runs
from reports.diff.coverage import cut_short
from reports.diff.runs import Bucket, Difference
from reports.safe_text import NAME_LIMIT, one_line

STRANDING = ("REQ-03", "DRA-07", "DRA-11")
"""Requirements that find devices which are allocated and not there, or held for pods that are gone. These must hold, worse or not."""

MAX_SUBJECTS = 5
MAX_IDS = 8

_WORSE = (Bucket.NEW_FAILURE, Bucket.NO_LONGER_JUDGED)
_NAMED = (
    ("new failures", Bucket.NEW_FAILURE),
    ("undecided now", Bucket.NEW_INCONCLUSIVE),
    ("no longer judged", Bucket.NO_LONGER_JUDGED),
    ("still failing", Bucket.STILL_FAILING),
    ("fixed", Bucket.FIXED),
)


class Since(msgspec.Struct, frozen=True):
    """The result of UPG-05, and the difference of the two runs in which what its waivers cover gates nothing any more."""

    result: Result
    difference: Difference


def _none(_: SubjectResult) -> str:
    return ""


def since_baseline(
    result: Result, baseline: Report, report: Report, difference: Difference, waived: Callable[[SubjectResult], str] = _none
) -> Since:
    """``result`` with a subject for each requirement and experiment of both runs. ``difference`` is that of the two runs.

    ``waived`` is asked about each subject: the words of the waiver that covers it, if it is worse than it was.
    """
    if difference.refused:
        changed = {"verdict": Verdict.INCONCLUSIVE, "reason_code": "AnotherCluster", "message": difference.refused}
        return Since(msgspec.structs.replace(result, **changed), difference)
    subjects = [*_requirements(baseline, report, difference), *_experiments(difference)]
    words = {(one.kind, one.name): text for one in subjects if (text := waived(one)) and one.verdict is Verdict.FAILED}
    difference = _without(difference, words)
    undecided = {change.requirement for change in difference.changes if change.gating}
    subjects = [_covered(one, words.get((one.kind, one.name), ""), one.name in undecided) for one in subjects]
    bad = [one for one in subjects if one.verdict is Verdict.FAILED]
    unsure = [one for one in subjects if one.verdict is Verdict.INCONCLUSIVE]
    judged = [one for one in subjects if one.verdict in DECIDED]
    message = _sentence(baseline, report, difference)
    verdict, code = Verdict.PASSED, ""
    if bad:
        verdict, code = Verdict.FAILED, "WorseThanBaseline"
    elif why := cut_short(baseline):
        verdict, code, message = Verdict.INCONCLUSIVE, "BaselineCutShort", f"the baseline was cut short ({why}); {message}"
    elif unsure:
        verdict, code = Verdict.INCONCLUSIVE, "Undecided"
    elif not judged:
        verdict, code, message = Verdict.INCONCLUSIVE, "NothingCompared", f"the runs judged nothing in common; {message}"
    elif words:
        verdict, code = Verdict.WAIVED, "Waived"
    order = (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.WAIVED, Verdict.PASSED, Verdict.NOT_APPLICABLE)
    made = msgspec.structs.replace(
        result,
        verdict=verdict,
        reason_code=code,
        message=message,
        judged=len(judged),
        total=len(subjects),
        subjects=sorted(subjects, key=lambda one: order.index(one.verdict)),
    )
    return Since(made, difference)


def _covered(subject: SubjectResult, words: str, undecided: bool) -> SubjectResult:
    """The subject under its waiver, which covers what is worse and not what could not be decided."""
    if not words:
        return subject
    verdict = Verdict.INCONCLUSIVE if undecided and subject.kind == "Requirement" else Verdict.WAIVED
    text = subject.message or f"{subject.observed}, expected {subject.expected}"
    return msgspec.structs.replace(subject, verdict=verdict, message=f"{text} ({words})")


def _without(difference: Difference, covered: Iterable[tuple[str, str]]) -> Difference:
    """The difference in which what is worse gates nothing where a waiver covers it."""
    names = frozenset(covered)

    def is_covered(change: runs.AnyChange) -> bool:
        if isinstance(change, runs.Change):
            return change.bucket in _WORSE and ("Requirement", change.requirement) in names
        return ("Experiment", change.experiment) in names

    return difference.sparing(is_covered)


def _requirements(baseline: Report, report: Report, difference: Difference) -> Iterator[SubjectResult]:
    before, after = ({one.id: one for one in made.results if one.id != COMPARISON} for made in (baseline, report))
    for id_ in dict.fromkeys([*after, *before]):
        changes = [change for change in difference.changes if change.requirement == id_]
        old, new = before.get(id_), after.get(id_)
        yield SubjectResult(
            kind="Requirement",
            name=id_,
            verdict=_verdict(id_, old, new, changes),
            observed=_state(new),
            expected=f"no worse than in the baseline ({_state(old)})",
            source="results of both runs",
            message=_stated(changes),
        )


def _verdict(id_: str, old: Result | None, new: Result | None, changes: list[runs.Change]) -> Verdict:
    gating = [change.bucket for change in changes if change.gating]
    if any(bucket in _WORSE for bucket in gating) or (id_ in STRANDING and any(one.bucket is Bucket.STILL_FAILING for one in changes)):
        return Verdict.FAILED
    if gating:
        return Verdict.INCONCLUSIVE
    known = old is not None and new is not None and (old.verdict in DECIDED or new.verdict in DECIDED)
    return Verdict.PASSED if known else Verdict.NOT_APPLICABLE


def _experiments(difference: Difference) -> Iterator[SubjectResult]:
    for change in difference.experiments:
        yield SubjectResult(
            kind="Experiment",
            name=change.experiment,
            verdict=Verdict.FAILED if change.gating else Verdict.NOT_APPLICABLE,
            observed=_words(change.new),
            expected=f"no worse than in the baseline ({_words(change.old)})",
            source="chaos experiments of both runs",
            message=one_line(runs.sentence(change), 1_000),
        )


def _stated(changes: Iterable[runs.Change]) -> str:
    """``new failure: Node gpu-0, Node gpu-1; fixed: Node gpu-2``: the later run's own results say what is wrong with them.

    Why something is no longer judged, they may not say: it is told here.
    """
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.bucket is not Bucket.REQUIREMENT_CHANGED:
            name = one_line(change.subject, NAME_LIMIT) or "the requirement as a whole"
            why = f" ({one_line(change.message, 200)})" if change.message and change.bucket is Bucket.NO_LONGER_JUDGED else ""
            found.setdefault(change.bucket.value, []).append(name + why)
    return "; ".join(f"{words}: {listed(subjects, MAX_SUBJECTS)}" for words, subjects in found.items())


def _state(result: Result | None) -> str:
    return _words(result.verdict if result else None)


def _words(verdict: Verdict | None) -> str:
    return verdict.replace("_", " ") if verdict else "no result"


def _sentence(baseline: Report, report: Report, difference: Difference) -> str:
    """``compared with run r1 of 2026-11-20T…: new failures: FENCE-01; fixed: REQ-02``."""
    named = []
    for words, bucket in _NAMED:
        if ids := dict.fromkeys(change.requirement for change in difference.of(bucket)):
            named.append(f"{words}: {listed(ids, MAX_IDS)}")
    if worse := dict.fromkeys(change.experiment for change in difference.experiments if change.gating):
        named.append(f"experiments that are worse: {listed(worse, MAX_IDS)}")
    named += runs.node_sentences(difference)
    other = " of another cluster" if baseline.target.cluster_uid != report.target.cluster_uid else ""
    run = f"compared with run {one_line(baseline.run.id, 80)} of {one_line(baseline.run.started_at, 40)}{other}"
    return f"{run}: {'; '.join(named) or 'no difference that counts'}"
