"""Requirements and areas as the page shows them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from fixtures.verdict.chaos_record import ChaosFinding, ChaosReport, ChaosResult
from fixtures.verdict.record import (
    ComparedChange,
    Comparison,
    DeviceClaim,
    InventoryRow,
    PublishedDevice,
    PublishedSlice,
    Report,
    Result,
    SubjectResult,
    Verdict,
)
from reports import chaos_phrases as chaotic
from reports import phrases
from reports.causes import SELF, SubjectGroup, subject_groups
from reports.page import timeline as timelines
from reports.remedies import Commands, commands

MAX_OTHERS_SHOWN = 50
MAX_PASSED_SHOWN = 5
MAX_NAMED = 100
MAX_ALSO_NAMED = 100
MIN_SHARING = 3

MAX_LISTED = 40

URGENT = ("new failure", "became inconclusive", "no longer judged")
"""Buckets that a reader looks at first."""

MAX_DEVICES = 500
"""Rows of the table; a fleet publishes tens of thousands of devices."""

MAX_PODS = 5

MAX_FINDINGS_SHOWN = 60


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


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one requirement, and the subjects that it is about. ``first`` stands for all of them."""

    first: ComparedChange
    message: str
    subjects: list[str]


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one bucket. ``more`` are counted in the record and not listed here."""

    name: str
    count: int
    groups: list[Group]
    more: int
    is_open: bool


def buckets(comparison: Comparison | None) -> list[Bucket]:
    """All buckets that have changes, in the order of the record."""
    found: dict[str, dict[tuple[object, ...], Group]] = {}
    for one in comparison.changes if comparison else []:
        name = one.subject.rpartition(" ")[2].rpartition("/")[2]
        message = one.message.replace(name, SELF) if len(name) >= 4 else one.message
        groups = found.setdefault(one.bucket, {})
        key = (one.requirement, one.old, one.new, message, not one.subject)
        group = groups.setdefault(key, Group(first=one, message=message, subjects=[]))
        if one.subject:
            group.subjects.append(one.subject)
    return [_bucket(name, list(groups.values()), comparison) for name, groups in found.items() if comparison]


def _bucket(name: str, groups: list[Group], comparison: Comparison) -> Bucket:
    listed = [
        group if len(group.subjects) != 1 else msgspec.structs.replace(group, message=group.first.message) for group in groups[:MAX_LISTED]
    ]
    stated = sum(len(group.subjects) or 1 for group in listed)
    count = max(comparison.counts.get(name, 0), stated)
    return Bucket(name=name, count=count, groups=listed, more=count - stated, is_open=name in URGENT or len(listed) <= 5)


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A device, its slice and its node; ``claims`` is one phrase each, None where claims were not read."""

    node: str
    slice: PublishedSlice
    device: PublishedDevice
    claims: list[str] | None


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that the page shows, and how many devices it leaves to report.json."""

    rows: list[DeviceRow]
    left_out: int


def devices(inventory: Iterable[InventoryRow]) -> Devices:
    """Devices of all nodes, those that hold no new claim first within a node's slice."""
    slices = [(row.node, one) for row in inventory for one in row.slices]
    total = sum(len(one.devices) + one.left_out for _, one in slices)
    rows = list(islice((row for node, one in slices for row in _rows(node, one)), MAX_DEVICES))
    return Devices(rows=rows, left_out=total - len(rows))


def _rows(node: str, published: PublishedSlice) -> Iterator[DeviceRow]:
    for device in sorted(published.devices, key=lambda device: not device.taint):
        claims = None if device.claims is None else [_phrase(claim) for claim in device.claims]
        yield DeviceRow(node=node, slice=published, device=device, claims=claims)


def _phrase(claim: DeviceClaim) -> str:
    """``team-a/train-gpu of Job/train, used by train-0``."""
    text = f"{claim.namespace}/{claim.name}"
    if claim.owner:
        text += f" of {claim.owner}"
    if claim.used_by:
        more = len(claim.used_by) - MAX_PODS
        text += f", used by {', '.join(claim.used_by[:MAX_PODS])}" + (f" and {more} more" if more > 0 else "")
    else:
        text += ", used by no pod"
    return text + (" (a share)" if claim.share else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    """One chaos experiment as the page shows it."""

    anchor: str
    result: ChaosResult
    timeline: timelines.Timeline | None
    findings: list[ChaosFinding]
    recovered: float | None
    """Seconds to the recovery as a part of the most that they may be."""


def experiments(chaos: ChaosReport | None) -> list[ExperimentRow]:
    """Experiments, those that need attention first; so their findings."""
    if chaos is None:
        return []
    anchors: set[str] = set()
    return [
        ExperimentRow(
            anchor=anchor(f"chaos-{result.id}", anchors),
            result=result,
            timeline=timelines.timeline(result),
            findings=phrases.by_urgency(result.findings)[:MAX_FINDINGS_SHOWN],
            recovered=chaotic.recovered_part(result),
        )
        for result in phrases.by_urgency(chaos.experiments)
    ]


def needing_attention(rows: list[ExperimentRow]) -> list[ExperimentRow]:
    """The experiments to look at, most urgent first."""
    urgent = chaotic.attention(row.result for row in rows)
    return sorted((row for row in rows if row.result in urgent), key=lambda row: urgent.index(row.result))
