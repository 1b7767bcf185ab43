"""The HTML report: one self-contained file that loads nothing and runs only its own script.

The page carries its style and script inline; the Content-Security-Policy allows exactly those two by their
SHA-256 and nothing else, so markup smuggled into a name could not run even if escaping failed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from fixtures.verdict.chaos_record import ChaosFinding, ChaosReport, ChaosResult
from fixtures.verdict.coverage import groups
from fixtures.verdict.record import InventoryRow, Report, Result, SubjectResult, Verdict
from reports import chaos_phrases as chaotic
from reports import phrases
from reports.formats import timeline as timelines
from reports.safe_text import CELL_LIMIT, NAME_LIMIT, link_parts, one_line, visible

TEMPLATES = Path(__file__).with_name("templates")

MAX_OTHERS_SHOWN = 50
MAX_PASSED_SHOWN = 5
MAX_ALSO_NAMED = 100
MIN_SHARING = 3
MAX_WORD = 48
MAX_INVENTORY_SHOWN = 250
MAX_SOURCES_SHOWN = 12
MAX_REQUESTS_SHOWN = 200
MAX_SHORTFALLS_SHOWN = 50
MAX_SENTENCES_SHOWN = 20
MAX_WAIVERS_SHOWN = 200
MAX_RESIDUE_SHOWN = 200
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One requirement as the page shows it.

    ``subjects`` have a table row each, ``also`` are named in a sentence by verdict, ``hidden`` counts the rest.
    """

    anchor: str
    area: int
    result: Result
    subjects: list[SubjectResult]
    also: dict[Verdict, list[SubjectResult]]
    hidden: int

    @property
    def columns(self) -> list[str]:
        """Fields of the subjects table that at least one shown subject fills."""
        names, common = ("observed", "expected", "source", "message"), self.common
        return [name for name in names if name not in common and any(getattr(s, name) for s in self.subjects)]

    @property
    def common(self) -> dict[str, str]:
        """What all listed subjects share, said once above a longer table instead of in every row."""
        if len(self.subjects) < MIN_SHARING:
            return {}
        first, listed = self.subjects[0], [*self.subjects, *(s for more in self.also.values() for s in more)]
        names = ("observed", "expected", "source")
        return {n: getattr(first, n) for n in names if getattr(first, n) and all(getattr(s, n) == getattr(first, n) for s in listed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One area: its counts and its rows."""

    index: int
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


def _compiled() -> jinja2.FileSystemBytecodeCache | None:
    """Compiled templates, kept as Python keeps its own: beside the source, when it may be written. Compiling takes a tenth of a run."""
    if sys.dont_write_bytecode:
        return None
    folder = TEMPLATES / "__pycache__"
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return jinja2.FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole page, with the timelines of chaos experiments if there were any. Pure: the same report gives the same bytes."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finish,
        bytecode_cache=_compiled(),
    )
    environment.filters["name"] = lambda text: escape(one_line(text, NAME_LIMIT))
    environment.filters["short"] = lambda text: escape(
        text if len(text := one_line(text)) <= timelines.NAME_CHARS else text[: timelines.NAME_CHARS - 1] + "…"
    )
    environment.filters["cell"] = lambda text: escape(visible(text, CELL_LIMIT))
    environment.filters["unbroken"] = lambda text: len(text) > MAX_WORD and max(map(len, text[:CELL_LIMIT].split()), default=0) > MAX_WORD
    environment.filters["links"] = lambda text: link_parts(visible(text, CELL_LIMIT))
    environment.filters["seconds"] = phrases.duration_words
    environment.filters["size"] = phrases.size_words
    environment.filters["thousands"] = lambda number: f"{number:,}"
    style, script = _source("style.css"), _source("script.js")
    areas, held = _areas(report), _experiments(chaos)
    return environment.get_template(
        "report.html.j2"
    ).render(
        report=report,
        style=Markup(style),  # our own file, not text from a cluster
        script=Markup(script),
        csp=_policy(style, script),
        areas=areas,
        rows=[row for area in areas for row in area.rows],
        attention=_attention(report, areas),
        counts=phrases.counts(report),
        verdicts=list(Verdict),
        levels=sorted({r.level for r in report.results}),
        word=phrases.WORD,
        subject_word={**phrases.WORD, Verdict.NOT_APPLICABLE: "not judged"},
        overall=chaotic.overall(report, chaos),
        scope=report.scope,
        scope_words=phrases.scope_words(report),
        shortfalls=phrases.shortfalls(report)[:MAX_SHORTFALLS_SHOWN],
        blockers=phrases.blockers(report),
        max_sentences=MAX_SENTENCES_SHOWN,
        waivers=report.waivers[:MAX_WAIVERS_SHOWN],
        notes=phrases.notes(report)[:MAX_SHORTFALLS_SHOWN],
        not_judged=groups(report.scope) if report.scope else [],
        exit_meaning=chaotic.exit_meaning(report, chaos),
        residue_advice=chaotic.residue_advice(chaos).split(", then "),
        banner=phrases.banner(report.target),
        target_name=phrases.TARGET_NAME[report.target.kind],
        started=_started(report),
        presets=phrases.presets(report)[:MAX_INVENTORY_SHOWN],
        inventory=_inventory(report)[:MAX_INVENTORY_SHOWN],
        sources=_sources(report),
        requests=sorted(report.requests.by_verb_and_resource.items(), key=lambda item: (-item[1], item[0]))[:MAX_REQUESTS_SHOWN],
        residue=report.residue[:MAX_RESIDUE_SHOWN],
        chaos=chaos,
        experiments=held,
        chaos_attention=_experiments_to_see(held),
        only_chaos=chaotic.only_chaos(report, chaos),
        chaos_counts=chaotic.counts(chaos.experiments if chaos else []),
    )


def _experiments(chaos: ChaosReport | None) -> list[ExperimentRow]:
    """Experiments, those that need attention first; so their findings."""
    if chaos is None:
        return []
    anchors: set[str] = set()
    rank = {verdict: index for index, verdict in enumerate(phrases.SUBJECT_ORDER)}
    return [
        ExperimentRow(
            anchor=_anchor(f"chaos-{result.id}", anchors),
            result=result,
            timeline=timelines.timeline(result),
            findings=sorted(result.findings, key=lambda one: rank[one.verdict])[:MAX_FINDINGS_SHOWN],
        )
        for result in sorted(chaos.experiments, key=lambda one: rank[one.verdict])
    ]


def _experiments_to_see(rows: list[ExperimentRow]) -> list[ExperimentRow]:
    by_result = {id(row.result): row for row in rows}
    return [by_result[id(result)] for result in chaotic.attention(row.result for row in rows)]


def _finish(value: object) -> object:
    """Every expression of the template passes here: plain strings are made visible, markup of our own is kept."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; frame-src 'none'; object-src 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _areas(report: Report) -> list[Area]:
    anchors: set[str] = set()
    grouped = phrases.by_area(report.results)
    return [
        Area(index=index, counts=counts, rows=[_row(result, index, anchors) for result in grouped[counts.area]])
        for index, counts in enumerate(phrases.areas(report))
    ]


def _row(result: Result, area: int, anchors: set[str]) -> Row:
    shown: list[SubjectResult] = []
    also: dict[Verdict, list[SubjectResult]] = {}
    seen: Counter[Verdict] = Counter()
    for subject in phrases.ordered_subjects(result):
        verdict = subject.verdict
        seen[verdict] += 1
        limit = MAX_PASSED_SHOWN if verdict is Verdict.PASSED else MAX_OTHERS_SHOWN
        if seen[verdict] <= limit:
            shown.append(subject)
        elif seen[verdict] <= limit + MAX_ALSO_NAMED:
            also.setdefault(verdict, []).append(subject)
    hidden = len(result.subjects) - len(shown) - sum(map(len, also.values())) + result.subjects_omitted
    return Row(anchor=_anchor(result.id, anchors), area=area, result=result, subjects=shown, also=also, hidden=hidden)


def _anchor(identifier: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", identifier)[:80] or "requirement"
    anchor, number = plain, 2
    while anchor in taken:
        anchor, number = f"{plain}-{number}", number + 1
    taken.add(anchor)
    return anchor


def _attention(report: Report, areas: list[Area]) -> list[Row]:
    by_result = {id(row.result): row for area in areas for row in area.rows}
    return [by_result[id(result)] for result in phrases.attention(report)]


def _started(report: Report) -> str:
    moment = phrases.started(report)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else one_line(report.run.started_at, NAME_LIMIT)


def _inventory(report: Report) -> list[InventoryRow]:
    """Rows that need a look first: not judged, then with a message, then by the order of the record."""
    return sorted(report.inventory, key=lambda row: (row.judged, not row.message))


def _sources(report: Report) -> list[str]:
    return list(dict.fromkeys(source for row in report.inventory for source in row.sources))[:MAX_SOURCES_SHOWN]
