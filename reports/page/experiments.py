"""Chaos experiments as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass

from fixtures.verdict.chaos_record import ChaosFinding, ChaosReport, ChaosResult
from reports import chaos_phrases as chaotic
from reports import phrases
from reports.page import timeline as timelines
from reports.page.rows import anchor

MAX_FINDINGS_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    """One chaos experiment as the page shows it."""

    anchor: str
    result: ChaosResult
    timeline: timelines.Timeline | None
    findings: list[ChaosFinding]

    @property
    def detection(self) -> chaotic.Span | None:
        """From the fault to its detection."""
        return chaotic.detection(self.result)

    @property
    def recovery(self) -> str:
        """The time to recovery, for a table."""
        return chaotic.recovery_cell(self.result)

    @property
    def recovered(self) -> str:
        """The time to recovery in a sentence."""
        return chaotic.recovery_words(self.result)

    @property
    def fidelity(self) -> str:
        """How real the fault was."""
        return chaotic.fidelity(self.result)

    @property
    def targets(self) -> str:
        """What it touched."""
        return chaotic.targets(self.result)


def experiments(chaos: ChaosReport | None) -> list[ExperimentRow]:
    """Experiments, those that need attention first; so their findings."""
    if chaos is None:
        return []
    anchors: set[str] = set()
    rank = {verdict: index for index, verdict in enumerate(phrases.SUBJECT_ORDER)}
    return [
        ExperimentRow(
            anchor=anchor(f"chaos-{result.id}", anchors),
            result=result,
            timeline=timelines.timeline(result),
            findings=sorted(result.findings, key=lambda one: rank[one.verdict])[:MAX_FINDINGS_SHOWN],
        )
        for result in sorted(chaos.experiments, key=lambda one: rank[one.verdict])
    ]


def needing_attention(rows: list[ExperimentRow]) -> list[ExperimentRow]:
    """The experiments to look at, most urgent first."""
    urgent = chaotic.attention(row.result for row in rows)
    return sorted((row for row in rows if row.result in urgent), key=lambda row: urgent.index(row.result))
