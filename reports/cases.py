"""One case for each requirement, each chaos experiment and, where it needs one, the run itself: what formats of test results write.

JUnit, CTRF, Allure and SARIF have statuses, names and steps of their own; what a case says is decided here, once.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from fixtures.verdict.chaos_record import ChaosFinding, ChaosReport, ChaosResult
from fixtures.verdict.record import Level, Report, Result, SubjectResult, Verdict
from reports import chaos_phrases, phrases
from reports.safe_text import NAME_LIMIT, one_line, visible

MAX_LINES = 20
MAX_STEPS = 200
RUN_NAME = "The run judged what it had to and left nothing behind"
RUN_MEANING = "This is no requirement. It says what is wrong with the run as a whole."

_EXPLAINS = {1: Verdict.FAILED, 3: Verdict.ERROR, 10: Verdict.INCONCLUSIVE}
"""The verdict of a requirement or an experiment that explains an exit code; the others are about the whole run."""


class Kind(StrEnum):
    """What a case is about."""

    REQUIREMENT = "conformance"
    EXPERIMENT = "chaos"
    RUN = "run"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of a case. ``facts`` are named texts as the record has them."""

    verdict: Verdict
    name: str
    message: str
    facts: dict[str, str]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case. ``key`` is the same in each run, ``level`` ``MUST`` or ``L1``, ``reason`` a word for machines.

    ``lines`` say what is wrong, the most urgent first; ``notes`` end a text. ``total`` counts all findings. ``labels`` order cases,
    ``properties`` and ``parameters`` are texts and ``extra`` is JSON: what formats have no field for.
    """

    kind: Kind
    key: str
    name: str
    area: str
    verdict: Verdict
    message: str
    reason: str
    level: str = Level.MUST.value
    severe: bool = True
    seconds: float = 0.0
    started: datetime | None = None
    lines: list[str]
    notes: list[str] = []
    subjects: list[SubjectResult] = []
    findings: list[ChaosFinding] = []
    total: int = 0
    labels: dict[str, str] = {}
    tags: list[str] = []
    properties: dict[str, str] = {}
    parameters: dict[str, str] = {}
    extra: dict[str, object]
    meaning: list[str] = []
    references: list[str] = []
    line: int = 0

    @property
    def steps(self) -> list[Step]:
        """The first of its findings: subjects that need attention first, findings of an experiment as they are."""
        subjects = phrases.by_urgency(self.subjects)[:MAX_STEPS]
        return [*map(_subject_step, subjects), *map(_finding_step, self.findings[:MAX_STEPS])]


def cases(report: Report, chaos: ChaosReport | None) -> list[Case]:
    """All cases of a run: requirements and experiments in the order of the records, the run itself last."""
    found = [*map(_requirement, report.results), *map(_experiment, chaos.experiments if chaos else ())]
    own = run_case(report, chaos)
    return found if own is None else [*found, own]


def _requirement(result: Result) -> Case:
    troubled = phrases.troubled(result)
    level, access = result.level.value, result.access.value
    lines = [phrases.subject_sentence(subject) for subject in troubled[:MAX_LINES]]
    more = max(0, len(troubled) - MAX_LINES)
    return Case(
        kind=Kind.REQUIREMENT,
        key=result.id,
        name=_name(f"{result.id} {result.title}"),
        area=result.area,
        verdict=result.verdict,
        message=result.message,
        reason=result.reason_code,
        level=level,
        severe=result.level is Level.MUST,
        seconds=result.duration_seconds,
        lines=lines,
        notes=list(_notes(result, more)),
        subjects=result.subjects,
        total=len(result.subjects) + result.subjects_omitted,
        labels={"id": _name(result.id), "level": level, "access": access},
        tags=[level, access],
        properties={
            "id": result.id,
            "level": level,
            "access": access,
            "verdict": result.verdict.value,
            "judged": str(result.judged),
            "total": str(result.total),
            "reasonCode": result.reason_code,
        },
        parameters={"judged": str(result.judged), "total": str(result.total), "reason": _name(result.reason_code)},
        extra={
            "verdict": result.verdict.value,
            "reasonCode": _name(result.reason_code),
            "judged": result.judged,
            "total": result.total,
            "subjects": lines,
            "subjectsNotShown": more + result.subjects_omitted,
            "remediation": visible(result.remediation),
        },
        meaning=[result.rationale, f"What to do: {result.remediation}" if result.remediation else ""],
        references=result.references,
        line=result.line,
    )


def _notes(result: Result, more: int) -> Iterator[str]:
    """What a text of the case ends with."""
    if more:
        yield f"... and {more} more in report.json"
    if result.subjects_omitted:
        yield f"{result.subjects_omitted} subjects are counted but not kept in report.json"
    yield f"judged {result.judged} of {result.total} subjects"
    if result.remediation:
        yield f"What to do: {visible(result.remediation)}"
    yield from (f"See {one_line(reference)}" for reference in result.references[:10])


def _subject_step(subject: SubjectResult) -> Step:
    facts = {"observed": subject.observed, "expected": subject.expected, "source": subject.source}
    return Step(verdict=subject.verdict, name=phrases.subject_name(subject), message=subject.message, facts=facts)


def _finding_step(finding: ChaosFinding) -> Step:
    return Step(verdict=finding.verdict, name=_name(finding.name), message=finding.message, facts={"reason": finding.reason_code})


def _experiment(result: ChaosResult) -> Case:
    recovery, detection = chaos_phrases.recovery(result), chaos_phrases.detection(result)
    level, fidelity, target = chaos_phrases.level_words(result), chaos_phrases.fidelity(result), result.target_kind.value
    reason, lines = chaos_phrases.reason(result), chaos_phrases.details(result)
    what = {"fidelity": fidelity, "targetKind": target, "targets": chaos_phrases.targets(result)}
    spans = {
        "detectionSeconds": detection.seconds if detection else None,
        "recoverySeconds": recovery.seconds if recovery else None,
        "recoveryUncertaintySeconds": recovery.uncertainty if recovery else None,
    }
    bounds = {
        "recoveryBoundSeconds": chaos_phrases.finite(result.bound_seconds),
        "samplerGapSeconds": chaos_phrases.finite(result.sampler_gap_seconds),
    }
    return Case(
        kind=Kind.EXPERIMENT,
        key=f"{chaos_phrases.AREA} {result.id}",
        name=_name(f"{result.id} {result.title}"),
        area=chaos_phrases.AREA,
        verdict=result.verdict,
        message=result.message,
        reason=reason,
        level=level,
        seconds=chaos_phrases.finite(result.duration_seconds) or 0.0,
        started=chaos_phrases.started(result),
        lines=lines,
        findings=result.findings,
        total=len(result.findings),
        labels={"id": _name(result.id), "level": level, "fidelity": fidelity, "target": target},
        tags=[level, fidelity],
        properties={
            "id": result.id,
            "level": level,
            "verdict": result.verdict.value,
            "reasonCode": reason,
            **what,
            **_written(spans),
            "recoveryFrom": result.recovery_from,
            "steadyState": chaos_phrases.NEVER_LOST if result.never_lost else "",
            **_written(bounds),
        },
        parameters={"reason": reason, "level": level, "fidelity": fidelity, "recovery, s": chaos_phrases.recovery_cell(result)},
        extra={
            "verdict": result.verdict.value,
            "reasonCodes": [_name(code) for code in result.reason_codes[:MAX_LINES]],
            "level": result.level,
            **what,
            **spans,
            "recoveryFrom": _name(result.recovery_from),
            "neverLost": result.never_lost,
            **bounds,
            "details": lines,
            "residue": len(result.residue),
            "artefacts": _name(result.artefacts),
        },
        meaning=[result.proves],
    )


def _written(seconds: dict[str, float | None]) -> dict[str, str]:
    return {name: "" if number is None else f"{number:.3f}" for name, number in seconds.items()}


def run_case(report: Report, chaos: ChaosReport | None, shown: Collection[Verdict] | None = None) -> Case | None:
    """The case of the run itself: red where the run is not good and no requirement and no experiment says why, else None.

    ``shown`` are the verdicts that a format shows in red, where it does not show all results.
    """
    if shown is None:
        shown = {result.verdict for result in (*report.results, *(chaos.experiments if chaos else ()))}
    missing, blockers = phrases.shortfalls(report), phrases.blockers(report)
    lines: list[str] = []
    if report.residue:
        problem, reason = f"{len(report.residue)} objects left behind", "residue"
    elif missing:
        problem, reason = missing[0], "scope"
    elif blockers:
        problem, reason = ", and ".join(map(phrases.blocker_words, blockers)), blockers[0].kind
    elif not report.results and not (chaos and chaos.experiments):
        problem, reason = "no requirement was judged", "empty"
    elif report.exit_code != 0 and _EXPLAINS.get(report.exit_code) not in shown:
        problem, reason = chaos_phrases.exit_meaning(report, chaos), report.verdict.value
        lines = phrases.notes(report)[:MAX_LINES]
    else:
        return None
    lines += [*report.residue[:MAX_LINES], *missing[:MAX_LINES], *(text for one in blockers for text in one.sentences[:MAX_LINES])]
    lines = lines or [chaos_phrases.exit_meaning(report, chaos)]
    undecided = report.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
    return Case(
        kind=Kind.RUN,
        key=Kind.RUN.value,
        name=RUN_NAME,
        area=Kind.RUN.value,
        verdict=Verdict.INCONCLUSIVE if undecided else Verdict.FAILED if report.verdict is Verdict.FAILED else Verdict.ERROR,
        message=f"{problem}; exit code {report.exit_code}",
        reason=reason,
        lines=lines,
        tags=[report.verdict.value],
        extra={"verdict": report.verdict.value, "reasonCode": reason, "details": [visible(line) for line in lines]},
        meaning=[RUN_MEANING],
    )


def _name(text: str) -> str:
    return one_line(text, NAME_LIMIT)
