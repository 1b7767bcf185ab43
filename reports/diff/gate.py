"""The gate between two runs: may the change between them, such as an upgrade, stay?

Nothing may be worse, and both runs must have judged enough to tell. What failed before and still fails is named, and closes no gate.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

import msgspec

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.coverage import DECIDED, Floor, is_judged, missed
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Report, Target, Verdict
from reports import chaos_phrases, phrases
from reports.diff import experiments, runs
from reports.diff.coverage import cut_short
from reports.diff.runs import Difference
from reports.safe_text import one_line
from reports.verdicts import WORD

ON_PURPOSE = "if that is on purpose, say --another-cluster"


class GateCode(IntEnum):
    """Exit codes of the gate, those of a run with the same meaning."""

    OPEN = 0
    WORSE = 1
    NOT_KNOWN = 10
    RESIDUE = 11


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate decides. ``reasons`` are sentences, worst first; none when it is open."""

    code: GateCode
    reasons: list[str]
    difference: Difference


def between(
    before: Report,
    after: Report,
    chaos_before: ChaosReport | None,
    chaos_after: ChaosReport | None,
    accepted: Iterable[str],
    *,
    another_cluster: bool = False,
) -> Difference:
    """A run compared with its baseline as the gate compares two runs: ``accepted`` names what may be lost.

    A run that is about no experiments is not compared with the earlier ones. A baseline of another cluster blames nothing on this
    one, unless ``another_cluster`` says that it is meant to. Nothing is blamed either where one of the runs ended at another cluster.
    A run about experiments alone is not compared with earlier requirements.
    """
    experiments_before = chaos_before if chaos_after is not None else None
    difference = runs.accept(strictly(runs.compare(before, after, experiments_before, chaos_after)), accepted)
    if chaos_phrases.only_chaos(after, chaos_after):
        difference = msgspec.structs.replace(difference, changes=[])
    why = of_two(before, after)
    if not why and not another_cluster and (other := unlike(before.target, after.target)):
        why = f"{other}; {ON_PURPOSE}"
    if not why:
        return difference
    return _blaming_nothing(difference, why)


def _blaming_nothing(difference: Difference, why: str) -> Difference:
    return msgspec.structs.replace(difference.sparing(lambda _: True), refused=why)


def strictly(difference: Difference) -> Difference:
    """The same comparison, in which an experiment that recovers more slowly or is not held any more gates too."""
    changes = [msgspec.structs.replace(one, gating=True) if _counts(one) else one for one in difference.experiments]
    return msgspec.structs.replace(difference, experiments=changes)


def decide(before: Report, after: Report, difference: Difference, floor: Floor, accepted: Iterable[str] = ()) -> Decision:
    """The decision over the difference of two runs. ``floor`` bounds how little the later one may rest on.

    Residue outranks what is worse, and that outranks what is not known.
    """
    difference, why = runs.accept(strictly(difference), accepted), of_two(before, after)
    if why:
        difference = _blaming_nothing(difference, why)
    residue = [f"the later run left something behind: {item}" for item in after.residue]
    worse = [runs.sentence(change) for change in runs.regressions(difference)] + [f"waivers: {text}" for text in after.waiver_problems]
    worse = [] if why else [*worse, *_required(after, floor, failing=True)]
    unknown = [why] if why else []
    unknown += [*_incomplete("earlier", before), *_incomplete("later", after), *_required(after, floor, failing=False)]
    unknown += [*missed(after.results, floor), *_nothing_in_common(before, after)]
    code = GateCode.OPEN
    for found, meaning in ((residue, GateCode.RESIDUE), (worse, GateCode.WORSE), (unknown, GateCode.NOT_KNOWN)):
        if found:
            code = meaning
            break
    return Decision(code=code, reasons=[*residue, *worse, *unknown], difference=difference)


def render(decision: Decision) -> str:
    """The comparison, then why the gate is closed, then one line that says whether it is."""
    lines = [runs.render(decision.difference).rstrip("\n"), ""]
    stated = {runs.sentence(change) for change in runs.regressions(decision.difference)}
    if shown := sum(reason in stated for reason in decision.reasons):
        lines.append(f"GATE: {shown} regression{'s' if shown > 1 else ''}, listed above")
    lines += [f"GATE: {one_line(reason, 600)}" for reason in decision.reasons if reason not in stated]
    return "\n".join([*lines, headline(decision)]) + "\n"


def headline(decision: Decision) -> str:
    """Whether the gate is open, in one line."""
    words = {
        GateCode.OPEN: "GATE OPEN: nothing is worse than before",
        GateCode.WORSE: "GATE CLOSED: worse than before",
        GateCode.NOT_KNOWN: "GATE CLOSED: the runs do not tell whether something is worse",
        GateCode.RESIDUE: "GATE CLOSED: the later run left something in the cluster",
    }
    return f"{words[decision.code]}; exit code {decision.code:d}"


def _counts(change: experiments.Change) -> bool:
    """Slower by more than both uncertainties, or not held any more although the earlier run had judged it."""
    lost = change.bucket is experiments.Bucket.REMOVED and change.old in DECIDED
    return change.gating or lost or change.bucket is experiments.Bucket.SLOWER


def _incomplete(which: str, report: Report) -> list[str]:
    """Why a run says too little: it ended early, or did not judge what it had to."""
    if why := cut_short(report):
        return [f"the {which} run was cut short ({why})"]
    return [f"the {which} run did not judge what it had to: {text}" for text in phrases.shortfalls(report)]


def _nothing_in_common(before: Report, after: Report) -> list[str]:
    """That no requirement was judged in both runs. A run about experiments alone has no scope, and is not compared by requirements."""
    runs_of_requirements = all(report.scope is not None or report.results for report in (before, after))
    first, second = ({one.id for one in report.results if is_judged(one) and one.id != COMPARISON} for report in (before, after))
    return ["no requirement was judged in both runs"] if runs_of_requirements and not first & second else []


def _required(after: Report, floor: Floor, *, failing: bool) -> Iterator[str]:
    """What must be judged and pass: what fails, or what says neither yes nor no."""
    results = {result.id: result for result in after.results}
    for id_ in floor.required:
        result = results.get(id_)
        bad = result is not None and result.verdict in (Verdict.FAILED, Verdict.WARNED)
        if failing and bad and result is not None:
            yield f"{id_} must pass, and it {WORD[result.verdict]}: {one_line(result.message or result.title, 400)}"
        if not failing and not bad and (result is None or not is_judged(result)):
            yield f"{id_} must be judged, and it {'has no result' if result is None else f'is {WORD[result.verdict]}'}"


def of_two(before: Report, after: Report) -> str:
    """Why one of two reports says nothing of any cluster, as a clause, or empty: its run ended at another one than it began with."""
    for which, report in (("earlier", before), ("later", after)):
        if report.other_cluster_uid:
            return f"the {which} run ended at another cluster than it began with: which of them its results are about is not known"
    return ""


def unlike(before: Target, after: Target) -> str:
    """Why nobody may take the targets of two runs for one cluster, as a clause, or empty.

    A cluster is the same one when it was judged live once and from a snapshot the other time.
    """
    if before.simulated != after.simulated:
        which = "earlier" if before.simulated else "later"
        return f"the {which} report is about a simulated cluster, and the other one is not"
    if before.cluster_uid == after.cluster_uid:
        return ""
    if before.cluster_uid and after.cluster_uid:
        return "the reports are about two clusters: the UIDs of their namespaces kube-system differ"
    which = "later" if before.cluster_uid else "earlier"
    return f"the {which} report does not say which cluster it is about: its run did not read the namespace kube-system"
