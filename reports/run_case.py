"""The case of the run itself, for formats of test results: red where the run is not good and no requirement and no experiment says why."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict
from reports import chaos_phrases, phrases

NAME = "The run judged what it had to and left nothing behind"
MEANING = "This is no requirement. It says what is wrong with the run as a whole."
AREA = "run"
MAX_LINES = 20

_TELLS = {1: Verdict.FAILED, 3: Verdict.ERROR, 10: Verdict.INCONCLUSIVE}
"""The verdict of a requirement or an experiment that explains an exit code; the others are about the whole run."""


class RunCase(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the run. ``kind`` is one word for machines, ``lines`` say more."""

    kind: str
    message: str
    lines: list[str]


def run_case(report: Report, chaos: ChaosReport | None, told: Collection[Verdict] | None = None) -> RunCase | None:
    """The case; None where the cases of requirements and experiments say all that there is to say.

    ``told`` are the verdicts that a format shows in red, where it does not show all results.
    """
    told = _verdicts(report, chaos) if told is None else told
    missing, blockers = phrases.shortfalls(report), phrases.blockers(report)
    lines: list[str] = []
    if report.residue:
        problem, kind = f"{len(report.residue)} objects left behind", "residue"
    elif missing:
        problem, kind = missing[0], "scope"
    elif blockers:
        problem, kind = ", and ".join(map(phrases.blocker_words, blockers)), blockers[0].kind
    elif not report.results and not (chaos and chaos.experiments):
        problem, kind = "no requirement was judged", "empty"
    elif report.exit_code != 0 and _TELLS.get(report.exit_code) not in told:
        problem, kind = chaos_phrases.exit_meaning(report, chaos), report.verdict.value
        lines = phrases.notes(report)[:MAX_LINES]
    else:
        return None
    lines += [*report.residue[:MAX_LINES], *missing[:MAX_LINES], *(text for one in blockers for text in one.sentences[:MAX_LINES])]
    lines = lines or [chaos_phrases.exit_meaning(report, chaos)]
    return RunCase(kind=kind, message=f"{problem}; exit code {report.exit_code}", lines=lines)


def _verdicts(report: Report, chaos: ChaosReport | None) -> set[Verdict]:
    return {result.verdict for result in report.results} | {result.verdict for result in (chaos.experiments if chaos else [])}
