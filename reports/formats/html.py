"""The HTML report: one self-contained file that loads nothing and runs only its own script.

The page carries its style and script inline; the Content-Security-Policy allows exactly those two by their
SHA-256 and nothing else, so markup smuggled into a name could not run even if escaping failed.
"""

import base64
import hashlib
import os
import sys
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.coverage import groups, judged_of
from fixtures.verdict.record import InventoryRow, Report, Verdict
from reports import chaos_phrases as chaotic
from reports import phrases, remedies
from reports.causes import found_causes, need_words
from reports.page.matrix import matrix
from reports.page.nodes import measured, nodes
from reports.page.rows import MAX_NAMED, areas, buckets, devices, experiments, needing_attention
from reports.page.timeline import NAME_CHARS
from reports.safe_text import CELL_LIMIT, NAME_LIMIT, link_parts, one_line, visible
from reports.verdicts import WORD

TEMPLATES = Path(__file__).with_name("templates")

MAX_WORD = 48
WHOLE_LIMIT = 40_000
MAX_INVENTORY_SHOWN = 250
MAX_SOURCES_SHOWN = 12
MAX_REQUESTS_SHOWN = 200
MAX_SHORTFALLS_SHOWN = 50
MAX_SENTENCES_SHOWN = 20
MAX_WAIVERS_SHOWN = 200
MAX_RESIDUE_SHOWN = 200
MAX_NOT_JUDGED_SHOWN = 500


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
    environment.filters["short"] = lambda text: escape(text if len(text := one_line(text)) <= NAME_CHARS else text[: NAME_CHARS - 1] + "…")
    environment.filters["cell"] = lambda text: escape(visible(text, CELL_LIMIT))
    environment.filters["unbroken"] = lambda text: len(text) > MAX_WORD and max(map(len, text[:CELL_LIMIT].split()), default=0) > MAX_WORD
    environment.filters["links"] = lambda text: link_parts(visible(text, CELL_LIMIT))
    environment.filters["parts"] = lambda text: remedies.parts(visible(text, CELL_LIMIT))
    environment.filters["whole"] = lambda text: escape(visible(text, WHOLE_LIMIT))
    environment.filters["seconds"] = phrases.duration_words
    environment.filters["size"] = phrases.size_words
    environment.filters["thousands"] = lambda number: f"{number:,}"
    style, script = _source("style.css"), _source("script.js")
    found, held, causes = areas(report), experiments(chaos), found_causes(report)
    return environment.get_template(
        "report.html.j2"
    ).render(
        report=report,
        style=Markup(style),  # our own file, not text from a cluster
        script=Markup(script),
        csp=_policy(style, script),
        areas=found,
        rows=[row for area in found for row in area.rows],
        attention=causes,
        has_commands=any(one.commands for one in causes),
        counts=phrases.counts(report),
        verdicts=list(Verdict),
        levels=sorted({r.level for r in report.results}),
        word=WORD,
        subject_word={**WORD, Verdict.NOT_APPLICABLE: "not judged"},
        overall=chaotic.overall(report, chaos),
        scope=report.scope,
        extent=judged_of(report.scope) if report.scope else "",
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
        target_name=phrases.target_name(report.target),
        started=_started(report),
        presets=phrases.presets(report)[:MAX_INVENTORY_SHOWN],
        tables=phrases.tables(report),
        inventory=_inventory(report)[:MAX_INVENTORY_SHOWN],
        sources=_sources(report),
        devices=devices(_inventory(report)),
        requests=sorted(report.requests.by_verb_and_resource.items(), key=lambda item: (-item[1], item[0]))[:MAX_REQUESTS_SHOWN],
        residue=report.residue[:MAX_RESIDUE_SHOWN],
        matrix=matrix(report),
        nodes=None if chaotic.only_chaos(report, chaos) else nodes(report),
        measured=[] if chaotic.only_chaos(report, chaos) else measured(report),
        need_words=need_words(report),
        comparison=report.comparison,
        compared=buckets(report.comparison),
        anchors={**{row.result.id: row.anchor for row in held}, **{row.result.id: row.anchor for area in found for row in area.rows}},
        area_names={area.counts.area: f"{area.counts.area} {area.title}".strip() for area in found},
        policy=report.policy,
        max_named=MAX_NAMED,
        max_not_judged=MAX_NOT_JUDGED_SHOWN,
        chaos=chaos,
        chaotic=chaotic,
        experiments=held,
        chaos_attention=needing_attention(held),
        only_chaos=chaotic.only_chaos(report, chaos),
        chaos_counts=phrases.tally(chaos.experiments if chaos else []),
    )


def _finish(value: object) -> object:
    """Every expression of the template passes here: plain strings are made visible, markup of our own is kept."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'; frame-src 'none'; object-src 'none'"
    )


def digest(text: str) -> str:
    """An inline source as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _started(report: Report) -> str:
    moment = phrases.started(report)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else one_line(report.run.started_at, NAME_LIMIT)


def _inventory(report: Report) -> list[InventoryRow]:
    """Rows that need a look first: not judged, then with a message, then by the order of the record."""
    return sorted(report.inventory, key=lambda row: (row.judged, not row.message))


def _sources(report: Report) -> list[str]:
    return list(dict.fromkeys(source for row in report.inventory for source in row.sources))[:MAX_SOURCES_SHOWN]
