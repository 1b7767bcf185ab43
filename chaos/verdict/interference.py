"""Interference: what others did to the target nodes meanwhile, which cannot be told from the fault's effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.verdict.findings import OTHERS_AT_WORK, shown_value, undecided
from chaos.verdict.timeline import Timeline
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

WORDS = {
    "node.cordoned.by.others": "somebody else cordoned the node",
    "node.faults.of.others": "the node reports a fault of a device that is not the experiment's",
}
"""Signals that list what others did, empty while nobody did anything, and what one of their entries means."""

OF_TARGETS = frozenset({"ExpectationViolated", "SteadyStateLost", "NotContained", "RecoveryTooSlow", "ConformanceLost"})
"""Reasons that somebody else's work on the target nodes may give a failure. Damage elsewhere and to allocations has others."""


def interference_findings(timeline: Timeline) -> Iterator[ChaosFinding]:
    """The first sample that shows each of them, from the baseline on."""
    for name, words in WORDS.items():
        if name not in timeline.extension.signals:
            continue
        seen = next((sample for sample in timeline.samples if sample.t >= timeline.baseline_t and sample.values.get(name)), None)
        if seen is not None:
            text = f"{words} ({shown_value(seen.values[name])}), {seen.t - timeline.injection.t:+.2f} s from the fault: it is left as it is"
            yield undecided(_finding_name(name), OTHERS_AT_WORK, text)


def explains_failures(found: Iterable[ChaosFinding]) -> bool:
    """Whether somebody else was at work on the target nodes, and every failure may come of that.

    A tenant's pod that ended explains nothing but itself: there is one on most clusters.
    """
    found, at_work = list(found), {_finding_name(name) for name in WORDS}
    failed = {one.reason_code for one in found if one.verdict is Verdict.FAILED}
    return failed <= OF_TARGETS and any(one.name in at_work for one in found)


def _finding_name(signal: str) -> str:
    return f"others: {signal}"
