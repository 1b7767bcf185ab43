"""The record of experiments over several runs: times to recovery, who detected the fault and after how long, a score, and what to do next.

From ``chaos.json`` of each run alone. A score is of the last run of each experiment: what was not judged gives no point.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from fixtures.text.sentences import counted, in_order
from fixtures.verdict.chaos_record import DETECTED, ChaosReport, ChaosResult
from fixtures.verdict.record import Record, Verdict
from reports import chaos_phrases
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import WORD

NEAR = 0.8
"""Share of its bound above which a recovery is close to it."""


class Recoveries(Record, kw_only=True):
    """Times to recovery over the runs in which there was one, seconds. ``trend``: ``slower``, ``faster``, ``steady`` or empty for one.

    The last is compared with the one before it: it is slower or faster by more than both uncertainties together.
    """

    count: int
    median: float
    worst: float
    last: float
    trend: str = ""
    bound: float | None = None


class Detection(Record, kw_only=True):
    """Who showed the fault: in how many runs, and after how many seconds, the median of them."""

    by: str
    count: int
    median: float


class ExperimentRecord(Record, kw_only=True):
    """One experiment over all runs. ``verdicts`` count them; ``last`` is the verdict of the last run that judged it."""

    id: str
    title: str
    last: Verdict
    verdicts: dict[str, int]
    recoveries: Recoveries | None = None
    detections: list[Detection] = msgspec.field(default_factory=list)
    advice: list[str] = msgspec.field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """In words, advice last."""
        verdicts = ", ".join(f"{count} {word}" for word, count in self.verdicts.items())
        lines = [f"{one_line(self.id, NAME_LIMIT)} {one_line(self.title, NAME_LIMIT)}: {verdicts}."]
        if (found := self.recoveries) is not None:
            words = chaos_phrases.seconds_words
            bound = f", bound {found.bound:g} s" if found.bound is not None else ""
            trend = f", {found.trend}{' than' if found.trend != 'steady' else ' since'} the run before" if found.trend else ""
            times = f"median {words(found.median)} s, worst {words(found.worst)} s, last {words(found.last)} s{trend}{bound}"
            lines.append(f"It recovered in {counted(found.count, 'run')}: {times}.")
        shown = "; ".join(
            f"{one.by} after {chaos_phrases.seconds_words(one.median)} s in {counted(one.count, 'run')}" for one in self.detections
        )
        lines += [f"The fault was shown by {shown}."] if shown else []
        return [*lines, *(f"-> {text}" for text in self.advice)]


class GameDay(Record, kw_only=True):
    """All experiments of the runs on one target. ``score``: percent of those judged or to be judged that passed last."""

    target: str
    runs: int
    score: int | None
    experiments: list[ExperimentRecord]


def game_days(reports: Iterable[ChaosReport]) -> list[GameDay]:
    """A record for each target, its runs in the order in which they began. A run that is given twice counts once."""
    by_target: dict[str, dict[str, ChaosReport]] = {}
    for report in sorted(reports, key=lambda one: one.run.started_at):
        of = report.target
        where = of.cluster_uid if of.kind.value == "live" else f"{of.kind.value} {of.scenario}".strip()
        by_target.setdefault(one_line(where, NAME_LIMIT) or "an unnamed cluster", {})[report.run.id] = report
    return [_game_day(target, list(runs.values())) for target, runs in by_target.items()]


def _game_day(target: str, runs: Sequence[ChaosReport]) -> GameDay:
    results: dict[str, list[ChaosResult]] = {}
    for report in runs:
        for result in report.experiments:
            if result.verdict is not Verdict.NOT_APPLICABLE:
                results.setdefault(result.id, []).append(result)
    records = [_experiment(results[id_]) for id_ in in_order(results)]
    passed = sum(one.last is Verdict.PASSED for one in records)
    return GameDay(target=target, runs=len(runs), score=round(100 * passed / len(records)) if records else None, experiments=records)


def _experiment(results: Sequence[ChaosResult]) -> ExperimentRecord:
    last = results[-1]
    recoveries, detections = _recoveries(results), list(_detections(results))
    return ExperimentRecord(
        id=last.id,
        title=last.title,
        last=last.verdict,
        verdicts=dict(Counter(WORD[one.verdict] for one in results)),
        recoveries=recoveries,
        detections=detections,
        advice=list(_advice(last, recoveries, detections)),
    )


def _recoveries(results: Sequence[ChaosResult]) -> Recoveries | None:
    found = [(one, span) for one in results if (span := chaos_phrases.recovery(one)) is not None]
    if not found:
        return None
    seconds = [span.seconds for _, span in found]
    trend = ""
    for (_, before), (_, after) in list(pairwise(found))[-1:]:
        apart, unsure = after.seconds - before.seconds, (before.uncertainty or 0.0) + (after.uncertainty or 0.0)
        trend = "steady" if abs(apart) <= unsure else "slower" if apart > 0 else "faster"
    return Recoveries(
        count=len(found),
        median=median(seconds),
        worst=max(seconds),
        last=seconds[-1],
        trend=trend,
        bound=chaos_phrases.finite(found[-1][0].bound_seconds),
    )


def _detections(results: Iterable[ChaosResult]) -> Iterator[Detection]:
    found: dict[str, list[float]] = {}
    for result in results:
        injected = next((mark.seconds for mark in result.marks if mark.name == "inject"), None)
        for one in result.findings:
            if injected is not None and one.seconds is not None and one.name.startswith(DETECTED):
                found.setdefault(one_line(one.name.removeprefix(DETECTED), NAME_LIMIT), []).append(max(one.seconds - injected, 0.0))
    for by, seconds in sorted(found.items(), key=lambda pair: median(pair[1])):
        yield Detection(by=by, count=len(seconds), median=median(seconds))


def _advice(last: ChaosResult, recoveries: Recoveries | None, detections: Sequence[Detection]) -> Iterator[str]:
    if last.residue:
        yield "put back what is left with `gpu-conformance chaos recover`, before anything else is done"
    for one in chaos_phrases.troubled(last)[:1]:
        doing = "repair this, and carry it out again" if last.verdict is Verdict.FAILED else "remove what kept it from being judged"
        yield f"{doing}: {chaos_phrases.finding_sentence(one)}"
    if recoveries is not None and recoveries.bound and recoveries.worst > NEAR * recoveries.bound:
        yield "the recovery comes close to its bound: find out what it waits for"
    if recoveries is not None and recoveries.trend == "slower":
        yield "the recovery is slower than in the run before: compare the two runs with `gpu-conformance diff`"
    if last.undo and last.verdict is Verdict.PASSED and not detections:
        yield "nothing showed the fault to anybody: add an alert for it, and name that with --detect-if"
