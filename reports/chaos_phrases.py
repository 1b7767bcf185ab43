"""Words about chaos experiments that all report writers share: times, levels, outcomes, and the run's headline.

A run may be about requirements, about experiments, or about both; the headline fits whichever was judged.
"""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import msgspec

from fixtures.verdict.chaos_record import ChaosFinding, ChaosMark, ChaosReport, ChaosResult
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports import phrases
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import DISPLAY, WORD

LEFT_OUT = "LeftOut"
"""Reason code of an experiment that was chosen and that an option of pytest's left out; its message names the option."""

CUT_SHORT = "CutShort"
"""Reason code of an experiment that was chosen and has no result."""

AREA = "chaos"
"""Name of the experiments where requirements have their area."""

MAX_FINDINGS = 20
MAX_TARGETS = 5
MAX_RESIDUE = 20
MAX_NAMED = 20
_MOST = 1e12

_FROM = {"fault": "the fault", "undo": "the undo began"}
NEVER_LOST = "never lost"


class Span(msgspec.Struct, kw_only=True, frozen=True):
    """A length of time that was measured by samples: ``seconds``, of which up to ``uncertainty`` seconds are not known."""

    seconds: float
    uncertainty: float | None

    def words(self, sign: str = "±") -> str:
        """``0.74 ± 0.68``, without a unit."""
        shown = seconds_words(self.seconds)
        return shown if self.uncertainty is None else f"{shown} {sign} {seconds_words(self.uncertainty)}"


def finite(number: float | None) -> float | None:
    """``number`` when it can be a time in seconds; None otherwise, because anybody may have written the record."""
    return number if number is not None and math.isfinite(number) and abs(number) < _MOST else None


def seconds_words(seconds: float) -> str:
    """Seconds with as many digits as say something."""
    return f"{seconds:.2f}" if abs(seconds) < 10 else f"{seconds:.1f}" if abs(seconds) < 1000 else f"{seconds:.0f}"


def recovery(result: ChaosResult) -> Span | None:
    """The time to recovery; None when none was measured."""
    seconds = finite(result.recovery_seconds)
    return None if seconds is None else Span(seconds=seconds, uncertainty=finite(result.recovery_uncertainty))


def detection(result: ChaosResult) -> Span | None:
    """From the fault to its detection; None when one of the two was not marked."""
    marks: dict[str, ChaosMark] = {mark.name: mark for mark in result.marks}
    begin, end = marks.get("inject"), marks.get("detect")
    if begin is None or end is None or finite(begin.seconds) is None or finite(end.seconds) is None:
        return None
    return Span(seconds=end.seconds - begin.seconds, uncertainty=finite(end.uncertainty))


def recovery_cell(result: ChaosResult, sign: str = "±") -> str:
    """For a column of seconds: ``0.74 ± 0.68``, ``0.74 ± 0.68 (undo)`` where it counts from the undo, ``never lost``, or nothing."""
    span = recovery(result)
    if span is None:
        return NEVER_LOST if result.never_lost else ""
    return span.words(sign) + (" (undo)" if result.recovery_from == "undo" else "")


def recovered_part(result: ChaosResult) -> float | None:
    """Seconds to the recovery as a part of the bound; None without one of the two."""
    span, bound = recovery(result), finite(result.bound_seconds)
    return span.seconds / bound if span is not None and bound else None


def recovery_words(result: ChaosResult) -> str:
    """``recovered 0.74 s (± 0.68 s) after the undo began, bound 15 s``, or that there was nothing to recover from; "" for neither."""
    span, bound = recovery(result), finite(result.bound_seconds)
    if span is None:
        return "the steady state was never lost" if result.never_lost else ""
    unsure = f" (± {seconds_words(span.uncertainty)} s)" if span.uncertainty is not None else ""
    since = f" after {_FROM[result.recovery_from]}" if result.recovery_from in _FROM else ""
    return f"recovered {seconds_words(span.seconds)} s{unsure}{since}" + (f", bound {bound:g} s" if bound is not None else "")


def level_words(result: ChaosResult) -> str:
    """``L1``."""
    return f"L{result.level}"


def fidelity(result: ChaosResult, limit: int = NAME_LIMIT) -> str:
    """How real the fault was, in one word; the target's own name when it is not a live cluster and the record has no word."""
    return one_line(result.fidelity, limit) or ("" if result.target_kind is TargetKind.LIVE else result.target_kind.value)


def reason(result: ChaosResult) -> str:
    """Reason codes on one line."""
    return one_line(", ".join(result.reason_codes[:MAX_NAMED]), NAME_LIMIT)


def targets(result: ChaosResult, limit: int = NAME_LIMIT) -> str:
    """What the experiment touched, the first few of many."""
    more = len(result.targets) - MAX_TARGETS
    shown = ", ".join(one_line(target, limit) for target in result.targets[:MAX_TARGETS])
    return f"{shown}, and {more} more" if more > 0 else shown


def attention(results: Iterable[ChaosResult]) -> list[ChaosResult]:
    """Experiments a reader has to look at: not passed, or with something not put back; most urgent first."""
    return phrases.by_urgency(r for r in results if r.verdict in phrases.ATTENTION or r.residue)


def troubled(result: ChaosResult) -> list[ChaosFinding]:
    """Findings that need attention, most urgent first."""
    return phrases.by_urgency(result.findings, phrases.ATTENTION)


def finding_sentence(finding: ChaosFinding, limit: int = 400) -> str:
    """One line about a finding: its name, reason code and message."""
    code = f" [{one_line(finding.reason_code, NAME_LIMIT)}]" if finding.reason_code else ""
    message = f": {one_line(finding.message, limit)}" if finding.message else ""
    return f"{one_line(finding.name, NAME_LIMIT)}{code}{message}"


def details(result: ChaosResult, findings: int = MAX_FINDINGS) -> list[str]:
    """What there is to say of an experiment beside its verdict, a line each."""
    bad = troubled(result)
    lines = [finding_sentence(finding) for finding in bad[:findings]]
    if len(bad) > findings:
        lines.append(f"... and {len(bad) - findings} more findings in chaos.json")
    if result.expected_failure:
        lines.append(f"known to fail: {one_line(result.expected_failure, 400)}")
    lines += [f"NOT PUT BACK: {one_line(item, 400)}" for item in result.residue[:MAX_RESIDUE]]
    if len(result.residue) > MAX_RESIDUE:
        lines.append(f"NOT PUT BACK: and {len(result.residue) - MAX_RESIDUE} more in chaos.json")
    wording = recovery_words(result)
    return [*lines, wording] if wording else lines


def started(result: ChaosResult) -> datetime | None:
    """When the experiment began, in UTC; None when the record does not say so in RFC 3339."""
    return phrases.moment(result.started_at)


def only_chaos(report: Report, chaos: ChaosReport | None) -> bool:
    """Whether the run was about experiments and judged no requirement."""
    return chaos is not None and not report.results


def overall(report: Report, chaos: ChaosReport | None) -> str:
    """The run in two words. Experiments name it where they alone explain the verdict."""
    if chaos is None or (report.results and not _by_chaos(report, chaos)):
        return phrases.headline(report)
    if not chaos.experiments:
        return DISPLAY[Verdict.NOT_APPLICABLE].requirements
    if report.verdict in (Verdict.PASSED, Verdict.WAIVED) and report.results:
        return phrases.headline(report)
    return DISPLAY[report.verdict].experiments


def exit_meaning(report: Report, chaos: ChaosReport | None) -> str:
    """What the exit code says of this run."""
    code = report.exit_code
    if chaos is None or not chaos.experiments:
        return phrases.run_meaning(report)
    verdicts = {result.verdict for result in chaos.experiments}
    required = {result.verdict for result in report.results}
    if code == 0:
        return "every experiment that applies passed" + (f"; {phrases.run_meaning(report)}" if report.results else "")
    words = {
        1: ("at least one experiment failed", Verdict.FAILED),
        3: ("at least one experiment ended in an error of the suite", Verdict.ERROR),
        10: ("inconclusive: at least one experiment could not be judged", Verdict.INCONCLUSIVE),
    }
    wording, verdict = words.get(code, ("", None))
    if verdict is None or verdict not in verdicts:
        nothing = code == 10 and not report.results and verdicts == {Verdict.NOT_APPLICABLE}
        return "inconclusive: no experiment applies to this cluster" if nothing else phrases.run_meaning(report)
    return f"{phrases.exit_meaning(code)}; {wording}" if verdict in required else wording


def tally_words(chaos: ChaosReport) -> str:
    """``3 of 5 experiments passed, 1 not applicable, 1 left out by -k A; not passed: A1 failed``."""
    tally = phrases.tally(chaos.experiments)
    if not chaos.experiments:
        return "no experiment was carried out"
    line = f"{tally[Verdict.PASSED]} of {len(chaos.experiments)} experiments passed"
    left_out = Counter(one_line(r.message, NAME_LIMIT) for r in chaos.experiments if r.reason_codes == [LEFT_OUT])
    if other := tally[Verdict.NOT_APPLICABLE] - left_out.total():
        line += f", {other} not applicable"
    line += "".join(f", {number} {words}" for words, number in left_out.items())
    bad = [r for r in attention(chaos.experiments) if r.verdict is not Verdict.PASSED and r.verdict is not Verdict.NOT_APPLICABLE]
    if bad:
        line += "; not passed: " + ", ".join(f"{one_line(r.id, 40)} {WORD[r.verdict]}" for r in bad[:MAX_NAMED])
        line += f" and {len(bad) - MAX_NAMED} more" if len(bad) > MAX_NAMED else ""
    left = [r for r in chaos.experiments if r.residue]
    if left:
        line += "; not put back: " + ", ".join(one_line(r.id, 40) for r in left[:MAX_NAMED])
        line += f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
    return line


def residue_advice(chaos: ChaosReport | None) -> str:
    """What to run when something was left behind."""
    return "gpu-conformance cleanup" if chaos is None else "gpu-conformance chaos recover, then gpu-conformance cleanup"


def _by_chaos(report: Report, chaos: ChaosReport) -> bool:
    """Whether the run's verdict is that of the experiments and of no requirement."""
    found = {result.verdict for result in report.results}
    return chaos.verdict is report.verdict and report.verdict not in found and any(r.verdict is report.verdict for r in chaos.experiments)
