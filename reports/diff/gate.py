"""The gate between two runs: may what came between them (an upgrade) stay?

Nothing may be worse, and both runs must say enough to tell. What failed before and still fails is named and holds nobody up.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from fixtures.verdict.coverage import is_judged
from fixtures.verdict.record import Cause, Report, Verdict
from reports import phrases
from reports.diff import experiments, runs
from reports.diff.runs import Difference


class GateCode(IntEnum):
    """Exit codes of the gate, those of a run with the same meaning."""

    OPEN = 0
    WORSE = 1
    NOT_KNOWN = 10
    RESIDUE = 11


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How little the later run may have judged. None: no bound."""

    min_judged: int | None = None
    max_inconclusive: int | None = None
    max_not_applicable: int | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate decides. ``reasons`` are sentences, worst first; none when it is open."""

    code: GateCode
    reasons: list[str]
    difference: Difference


CUT_SHORT = (2, 3, 5)
"""Exit codes of runs that ended before they had judged what was selected."""


def decide(before: Report, after: Report, difference: Difference, budget: Budget) -> Decision:
    """Residue outranks what is worse, and what is worse outranks what is not known."""
    difference = msgspec.structs.replace(difference, experiments=[_slower_gates(one) for one in difference.experiments])
    residue = [f"the later run left something behind: {item}" for item in after.residue]
    worse = [_sentence(change) for change in runs.regressions(difference)] + [f"waivers: {text}" for text in after.waiver_problems]
    unknown = [*_incomplete("earlier", before), *_incomplete("later", after), *_over_budget(after, budget)]
    code = GateCode.OPEN
    for found, meaning in ((residue, GateCode.RESIDUE), (worse, GateCode.WORSE), (unknown, GateCode.NOT_KNOWN)):
        if found:
            code = meaning
            break
    return Decision(code=code, reasons=[*residue, *worse, *unknown], difference=difference)


def render(decision: Decision) -> str:
    """The comparison, then why the gate is closed, then one line that says whether it is."""
    lines = [runs.render(decision.difference).rstrip("\n"), ""]
    lines += [f"GATE: {reason}" for reason in decision.reasons]
    words = {
        GateCode.OPEN: "GATE OPEN: nothing is worse than before",
        GateCode.WORSE: "GATE CLOSED: worse than before",
        GateCode.NOT_KNOWN: "GATE CLOSED: the runs do not tell whether something is worse",
        GateCode.RESIDUE: "GATE CLOSED: the later run left something in the cluster",
    }
    return "\n".join([*lines, f"{words[decision.code]}; exit code {decision.code:d}"]) + "\n"


def _slower_gates(change: experiments.Change) -> experiments.Change:
    slower = change.bucket is experiments.Bucket.SLOWER
    return msgspec.structs.replace(change, gating=True) if slower else change


def _sentence(change: runs.Change | experiments.Change) -> str:
    return runs.sentence(change) if isinstance(change, runs.Change) else experiments.sentence(change)


def _incomplete(which: str, report: Report) -> list[str]:
    """Why a run says too little: it ended early, or did not judge what it had to."""
    cut = [one.id for one in report.scope.not_judged if one.cause is Cause.CUT_SHORT] if report.scope else []
    if report.exit_code in CUT_SHORT or cut:
        return [f"the {which} run was cut short (exit code {report.exit_code}, {len(cut)} requirements not reached)"]
    return [f"the {which} run did not judge what it had to: {text}" for text in phrases.shortfalls(report)]


def _over_budget(after: Report, budget: Budget) -> list[str]:
    judged = sum(map(is_judged, after.results))
    counts = phrases.counts(after)
    found = []
    if budget.min_judged is not None and judged < budget.min_judged:
        found.append(f"{judged} requirements were judged, and --min-judged asks for {budget.min_judged}")
    for option, verdict, most in (
        ("--max-inconclusive", Verdict.INCONCLUSIVE, budget.max_inconclusive),
        ("--max-not-applicable", Verdict.NOT_APPLICABLE, budget.max_not_applicable),
    ):
        if most is not None and counts[verdict] > most:
            found.append(f"{counts[verdict]} requirements are {phrases.WORD[verdict]}, and {option} allows {most}")
    return found
