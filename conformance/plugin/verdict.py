"""From findings to a result, and from results to one verdict and one exit code (README, "exit code")."""

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

import msgspec

from conformance import causes
from conformance.coverage import missing_kinds
from conformance.plugin.session import State
from conformance.requirement import Requirement
from fixtures.model.jobs.pod_makers import controller_of
from fixtures.snapshot.state import Snapshot
from fixtures.text import limits
from fixtures.text.sentences import cut
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.coverage import beyond_access
from fixtures.verdict.findings import ADVISED, AT_THE_END, Evidence, Judgement, undecided
from fixtures.verdict.record import Access, Level, Report, Result, SubjectResult, TargetKind, Verdict
from fixtures.verdict.subjects import REST, Inconclusive, NotApplicable

_PRINTED = (Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE)
"""Verdicts of subjects that pytest prints of a requirement that did not pass."""


_ABOVE_ACCESS = "AboveAccess"
_SNAPSHOT_TARGET = "SnapshotTarget"
_LEFT_OUT = (_ABOVE_ACCESS, _SNAPSHOT_TARGET, AT_THE_END)
"""Reason codes of requirements that nobody tried to judge: they say nothing of the cluster, even of one that has to be judged."""


class ExitCode(IntEnum):
    """Exit codes of the suite; 0 to 5 are pytest's own."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    INTERRUPTED = 2
    INTERNAL_ERROR = 3
    USAGE = 4
    NOTHING_SELECTED = 5
    INCONCLUSIVE = 10
    RESIDUE = 11


# -- one requirement ---------------------------------------------------------------------------------


def check_preconditions(requirement: Requirement, state: State) -> None:
    """Raise why a requirement cannot be judged: beyond the ceiling of access, or what it reads is missing."""
    if state.opened.target.kind is TargetKind.SNAPSHOT and requirement.access is not Access.READ:
        raise NotApplicable(_SNAPSHOT_TARGET, "a saved snapshot can answer read requirements only")
    if requirement.access.rank > state.options.access.rank:
        raise NotApplicable(_ABOVE_ACCESS, beyond_access(requirement.access, state.options.access, read_only=state.options.read_only))
    snapshot = state.snapshot
    for key in (*requirement.reads, *requirement.optional_reads):
        if (listing := snapshot.listing(key)).trouble and key not in requirement.weighs:
            raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
    for key in requirement.reads:
        if not snapshot.listing(key).served:
            raise NotApplicable("NotServed", f"the cluster does not serve {key}")
    if snapshot.offline:
        missing_kinds.check_saved(requirement, state.scope)


def conclude(requirement: Requirement, evidence: Evidence, error: BaseException | None, seconds: float, state: State) -> Result:
    """The result of a requirement: from its findings, or from what it raised."""
    required = requirement.id in state.required
    judgement = evidence.judgement(requirement.level, strict=state.options.strict, required=required)
    found_bad = judgement.verdict in (Verdict.FAILED, Verdict.WARNED)
    if isinstance(error, NotApplicable) and not (error.code == missing_kinds.CODE and found_bad):
        verdict = Verdict.FAILED if required and error.code not in _LEFT_OUT else Verdict.NOT_APPLICABLE
        judgement.verdict, judgement.reason_code, judgement.message = verdict, error.code, error.message
    elif isinstance(error, Inconclusive):
        # what was found bad before the trouble stays found; what was found good proves nothing any more
        if not found_bad or judgement.reason_code == ADVISED:
            judgement.verdict, judgement.reason_code, judgement.message = Verdict.INCONCLUSIVE, error.code, error.message
        else:
            evidence(undecided(REST, message=error.message, source=error.code, cause=causes.cause_of(error.code)))
            judgement = evidence.judgement(requirement.level, strict=state.options.strict, required=required)
    elif error is not None and not isinstance(error, NotApplicable):
        text = f"{type(error).__name__}: {error}"
        judgement.verdict, judgement.reason_code, judgement.message = Verdict.ERROR, "InternalError", text[:1000]
    if isinstance(evidence, missing_kinds.SavedEvidence):
        missing_kinds.amend(judgement, evidence, requirement, state.scope, required=required)
    if state.has_snapshot:
        _name_owners(judgement.subjects, state.snapshot)
    if state.has_snapshot and judgement.verdict is Verdict.PASSED:
        judgement.message += "".join(f"; {text}" for text in missing_kinds.without_hints(requirement, state.snapshot))
    cause = _cause_of_all(judgement, error)
    found = causes.met([*(subject.cause for subject in judgement.subjects), cause])
    return msgspec.structs.replace(
        unjudged(requirement),
        cause=cause,
        remediation=" ".join(one.text for one in found),
        verdict=judgement.verdict,
        reason_code=judgement.reason_code,
        message=judgement.message,
        judged=judgement.judged,
        total=judgement.total,
        duration_seconds=round(seconds, 3),
        subjects=judgement.subjects,
        subjects_omitted=judgement.subjects_omitted,
        tallies=judgement.tallies,
        waivers=evidence.waivers.uses() if evidence.waivers else [],
    )


def _cause_of_all(judgement: Judgement, error: BaseException | None) -> str:
    """The cause of a requirement that was judged of no subject, by its code; empty where subjects have the causes."""
    if judgement.verdict is Verdict.INCONCLUSIVE and isinstance(error, Inconclusive):
        return causes.cause_of(judgement.reason_code)
    if judgement.verdict is Verdict.INCONCLUSIVE and judgement.reason_code == missing_kinds.CODE:
        return missing_kinds.CAUSE
    if judgement.verdict is Verdict.FAILED and not any(one.verdict in (Verdict.FAILED, Verdict.WARNED) for one in judgement.subjects):
        return "RequiredNotJudged"
    return ""


def _name_owners(subjects: list[SubjectResult], snapshot: Snapshot) -> None:
    """Say of each pod that did not pass who controls it."""
    found = [one for one in subjects if one.kind == "Pod" and one.verdict not in (Verdict.PASSED, Verdict.NOT_APPLICABLE)]
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.listing("pods").items} if found else {}
    for one in found:
        if pod := pods.get((one.namespace, one.name.partition(" ")[0])):
            one.owner = cut("/".join(filter(None, controller_of(pod))), limits.SUBJECT_CHARACTERS)


def worse_of(earlier: Result, later: Result) -> Result:
    """The worse of two results of one requirement, which says that there were two: a second try proves nothing about the first."""
    worse, other = sorted((earlier, later), key=lambda result: _WORST_FIRST.index(result.verdict))
    words = f"{worse.message}; judged again, and {other.verdict} then" if worse is earlier else f"{worse.message}; {other.verdict} before"
    return msgspec.structs.replace(worse, message=words.removeprefix("; "))


def unjudged(requirement: Requirement) -> Result:
    """A result that says what the requirement is, and nothing of a cluster yet."""
    return Result(
        id=requirement.id,
        title=requirement.title,
        area=requirement.area,
        level=requirement.level,
        access=requirement.access,
        verdict=Verdict.NOT_APPLICABLE,
        rationale=requirement.rationale,
        references=requirement.references,
    )


def failure_text(result: Result) -> str:
    """What pytest prints of a requirement that did not pass: at most ten subjects, a line each, fit for a terminal."""
    from reports.safe_text import one_line  # imported late: most requirements pass

    lines = [f"{result.id} {result.title}", f"{result.verdict} {result.reason_code}: {result.message}"]
    lines += [f"  {_line(subject)}" for subject in result.subjects[:10] if subject.verdict in _PRINTED]
    lines.append(f"what to do: {result.remediation}")
    return "\n".join(line[: len(line) - len(line.lstrip())] + one_line(line) for line in lines)


def _line(subject: SubjectResult) -> str:
    path = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    text = subject.message or f"observed {subject.observed}, expected {subject.expected}"
    return f"{subject.kind} {path}: {text}"


# -- the run -----------------------------------------------------------------------------------------


def summarise(results: Iterable[Result]) -> dict[str, int]:
    """Number of results per verdict; every verdict is a key."""
    counts = Counter(result.verdict for result in results)
    return {str(verdict): counts[verdict] for verdict in Verdict}


def decide(
    results: list[Result],
    *,
    strict: bool,
    required: Iterable[str],
    pytest_exit: int,
    residue: bool,
    chaos: list[ChaosResult] | None = None,
    shortfalls: Iterable[str] = (),
    two_clusters: bool = False,
    failures: bool = False,
) -> tuple[Verdict, ExitCode]:
    """Overall verdict and exit code, of requirements and of chaos experiments, whichever were judged.

    Residue outranks everything: something of ours is still in the cluster. An interrupted run keeps
    pytest's code. A SHOULD that could not be decided gates under ``strict`` or when it is required. ``shortfalls`` say what the
    run did not judge although it had to: with one of them it is not conformant. ``two_clusters``: nobody knows which one a result is of.
    ``failures``: pytest saw something fail that no result tells of. The suite cannot answer for such a run.
    """
    judged = [_judge(results, strict, frozenset(required), tuple(shortfalls))] if results or not chaos else []
    judged += [judge_chaos(chaos)] if chaos else []
    verdict, code = min(judged, key=lambda one: _WORST_FIRST.index(one[0]))
    if two_clusters:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    if pytest_exit in (ExitCode.INTERRUPTED, ExitCode.INTERNAL_ERROR, ExitCode.USAGE):
        verdict, code = (Verdict.ERROR if pytest_exit == ExitCode.INTERNAL_ERROR else Verdict.INCONCLUSIVE), ExitCode(pytest_exit)
    elif failures:
        verdict, code = Verdict.ERROR, ExitCode.INTERNAL_ERROR
    elif pytest_exit == ExitCode.INCONCLUSIVE and not results:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    elif pytest_exit == ExitCode.NOT_CONFORMANT and code is ExitCode.CONFORMANT and not _explained(results):
        verdict, code = Verdict.ERROR, ExitCode.INTERNAL_ERROR
    elif not results and not chaos:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.NOTHING_SELECTED
    if residue:
        code = ExitCode.RESIDUE
    return verdict, code


def _explained(results: list[Result]) -> bool:
    """Whether a result says why pytest ended with 1. Otherwise a plugin of pytest's ended the run so, and only it knows why."""
    return any(result.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.ERROR) for result in results)


def _judge(results: list[Result], strict: bool, required: frozenset[str], shortfalls: tuple[str, ...]) -> tuple[Verdict, ExitCode]:
    gating = [result for result in results if strict or result.level is Level.MUST or result.id in required]
    if any(result.verdict is Verdict.ERROR for result in results):
        return Verdict.ERROR, ExitCode.INTERNAL_ERROR
    if any(result.verdict is Verdict.FAILED for result in results):
        return Verdict.FAILED, ExitCode.NOT_CONFORMANT
    if shortfalls or any(result.verdict is Verdict.INCONCLUSIVE for result in gating):
        return Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    if results and all(result.verdict is Verdict.NOT_APPLICABLE for result in results):
        return Verdict.NOT_APPLICABLE, ExitCode.INCONCLUSIVE
    waived = any(use.waived for result in results for use in result.waivers)
    return (Verdict.WAIVED if waived else Verdict.PASSED), ExitCode.CONFORMANT


def fail(report: Report) -> None:
    """Let a run that passed have failed, for what its results do not show. A worse end of the run stays."""
    if report.verdict in (Verdict.PASSED, Verdict.WAIVED):
        report.verdict = Verdict.FAILED
        if report.exit_code == ExitCode.CONFORMANT:
            report.exit_code = int(ExitCode.NOT_CONFORMANT)


_WORST_FIRST = (
    Verdict.ERROR,
    Verdict.FAILED,
    Verdict.INCONCLUSIVE,
    Verdict.WARNED,
    Verdict.NOT_APPLICABLE,
    Verdict.WAIVED,
    Verdict.PASSED,
)


def judge_chaos(results: list[ChaosResult]) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of chaos experiments: each of them gates."""
    codes = {
        Verdict.ERROR: ExitCode.INTERNAL_ERROR,
        Verdict.FAILED: ExitCode.NOT_CONFORMANT,
        Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        Verdict.PASSED: ExitCode.CONFORMANT,
    }
    found = {result.verdict for result in results}
    worst = next((verdict for verdict in codes if verdict in found), Verdict.NOT_APPLICABLE)
    return worst, codes.get(worst, ExitCode.INCONCLUSIVE)
