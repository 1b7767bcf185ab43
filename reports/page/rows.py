"""Requirements and areas as the page shows them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from fixtures.verdict.record import Report, Result, SubjectResult, Verdict
from reports import phrases
from reports.remedies import Commands, commands
from reports.subject_groups import SELF, SubjectGroup, subject_groups

MAX_OTHERS_SHOWN = 50
MAX_PASSED_SHOWN = 5
MAX_NAMED = 100
MAX_ALSO_NAMED = 100
MIN_SHARING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One requirement as the page shows it.

    ``groups`` have a table row each, ``also`` are named in a sentence by verdict, ``hidden`` counts the rest.
    """

    anchor: str
    area: int
    result: Result
    groups: list[SubjectGroup]
    also: dict[Verdict, list[SubjectResult]]
    hidden: int
    commands: list[Commands] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Fields of the subjects table that at least one shown group fills."""
        names, common = ("observed", "expected", "source", "message"), self.common
        return [name for name in names if name not in common and any(getattr(one, name) for one in self.groups)]

    @property
    def common(self) -> dict[str, str]:
        """What all listed groups share, said once above a longer table instead of in every row."""
        if len(self.groups) < MIN_SHARING:
            return {}
        first, listed = self.groups[0], [*self.groups, *(one for more in self.also.values() for one in more)]
        names = ("observed", "expected", "source")
        return {n: getattr(first, n) for n in names if getattr(first, n) and all(getattr(one, n) == getattr(first, n) for one in listed)}

    @property
    def is_nameless(self) -> bool:
        """Whether some text says ``…`` for the name of each of its subjects."""
        groups = [one for one in self.groups if len(one.subjects) > 1]
        return any(SELF in text for one in groups for text in (one.observed, one.expected, one.source, one.message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One area: its name, its counts and its rows."""

    index: int
    title: str
    counts: phrases.AreaRow
    rows: list[Row]

    @property
    def bar(self) -> list[tuple[str, float, float]]:
        """(verdict, x, width) of the stacked bar, in percent."""
        at, parts = 0.0, []
        for verdict in (Verdict.PASSED, *phrases.ATTENTION, Verdict.NOT_APPLICABLE):
            width = 100 * self.counts.counts[verdict] / self.counts.requirements
            if width:
                parts.append((verdict.value, round(at, 2), round(width, 2)))
            at += width
        return parts


def areas(report: Report) -> list[Area]:
    """The areas of a report in its order, with all their rows."""
    anchors: set[str] = set()
    grouped = phrases.by_area(report.results)
    titles = {one.area: one.title for one in report.scope.areas} if report.scope else {}
    return [
        Area(
            index=index,
            title=titles.get(counts.area, ""),
            counts=counts,
            rows=[_row(report, result, index, anchors) for result in grouped[counts.area]],
        )
        for index, counts in enumerate(phrases.areas(report))
    ]


def anchor(identifier: str, taken: set[str]) -> str:
    """A fragment of the page's address for an id, which nothing else on the page has."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", identifier)[:80] or "requirement"
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}-{number}", number + 1
    taken.add(found)
    return found


def _row(report: Report, result: Result, area: int, anchors: set[str]) -> Row:
    shown: list[SubjectGroup] = []
    also: dict[Verdict, list[SubjectResult]] = {}
    seen: Counter[Verdict] = Counter()
    named: Counter[Verdict] = Counter()
    hidden = result.subjects_omitted
    for group in subject_groups(result.subjects):
        verdict = group.verdict
        seen[verdict] += 1
        if seen[verdict] <= (MAX_PASSED_SHOWN if verdict is Verdict.PASSED else MAX_OTHERS_SHOWN):
            shown.append(group)
            hidden += max(len(group.subjects) - MAX_NAMED, 0)
            continue
        room = MAX_ALSO_NAMED - named[verdict]
        if room > 0:
            also.setdefault(verdict, []).extend(group.subjects[:room])
        named[verdict] += len(group.subjects)
        hidden += max(len(group.subjects) - max(room, 0), 0)
    needs_attention = result.verdict in phrases.ATTENTION and result.verdict is not Verdict.WAIVED
    return Row(
        anchor=anchor(result.id, anchors),
        area=area,
        result=result,
        groups=shown,
        also=also,
        hidden=hidden,
        commands=commands(report, result) if needs_attention else [],
    )
