"""The fleet's report as JSON, Markdown and one self-contained HTML page without a script."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup, escape

from fixtures.system import private_files
from fixtures.text import typed
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict
from reports.folder import JSON_NAME, ReportError, load, load_chaos, write_atomically
from reports.formats.html import digest
from reports.formats.markdown import escape as markdown_escape
from reports.merge.fleet import AreaVerdict, ClusterRow, Day, Fleet, Named, by_cluster
from reports.merge.history import NAME, Entry, newest
from reports.safe_text import CELL_LIMIT, NAME_LIMIT, encodable, one_line, redact, visible
from reports.verdicts import DISPLAY, WORD

TEMPLATES = Path(__file__).with_name("templates")
MAX_MARKDOWN_ROWS = 100
MAX_MARKDOWN_SCOPES = 20
MAX_FAILING = 100


def sentence(fleet: Fleet) -> str:
    """How many clusters are what, in one sentence without a full stop."""
    real = by_cluster(fleet.clusters)
    passed = [runs for runs in real if all(one.exit_code == 0 for one in runs)]
    in_part = sum(all(one.in_part for one in runs) for runs in passed)
    good = sum(any(not one.in_part and not one.partly_simulated for one in runs) for runs in passed)
    bad = sum(any(one.exit_code == 1 for one in runs) for runs in real)
    parts = [
        f"{len(real)} {'cluster' if len(real) == 1 else 'clusters'}: {good} passed, {bad} not conformant, {len(real) - good - bad} others"
    ]
    if stale := sum(any(one.stale for one in runs) for runs in real):
        parts.append(f"{stale} of them judged too long ago")
    if partly := sum(any(one.partly_simulated for one in runs) for runs in real):
        parts.append(f"{partly} of them with simulated nodes")
    if in_part:
        parts.append(f"{in_part} of them passed in part only")
    if fleet.simulated_clusters:
        parts.append(f"{len(fleet.simulated_clusters)} simulated, not counted")
    if fleet.unreadable:
        parts.append(f"{len(fleet.unreadable)} reports could not be read")
    return "; ".join(parts)


def to_json(fleet: Fleet) -> bytes:
    """``fleet.json``: credentials redacted."""
    text = msgspec.json.format(msgspec.json.encode(typed.convert(encodable(msgspec.to_builtins(fleet)), Fleet)), indent=2).decode()
    return (redact(text) + "\n").encode()


def to_markdown(fleet: Fleet) -> str:
    """A summary for a pull request or a step summary. What does not fit is counted."""
    lines = [f"## GPU conformance of a fleet: {markdown_escape(sentence(fleet))}", ""]
    for text in (*fleet.unreadable, *fleet.notes)[:MAX_MARKDOWN_ROWS]:
        lines += [f"> {markdown_escape(text, 600)}", ""]
    lines += [f"{course(fleet.days)}.", ""] if fleet.days else []
    lines += _grid(fleet, fleet.clusters) if fleet.clusters else ["No report of a real cluster.", ""]
    if fleet.failing:
        lines += ["### What fails in most clusters", "", "| requirement | level | clusters | which |", "|---|---|---|---|"]
        for shared in fleet.failing[:20]:
            names = ", ".join(markdown_escape(name, 80) for name in shared.names[:5])
            more = f" and {shared.clusters - 5} more" if shared.clusters > 5 else ""
            what = f"{markdown_escape(shared.id)} {markdown_escape(shared.title)}"
            lines.append(f"| {what} | {shared.level.value} | {shared.clusters} | {names}{more} |")
        lines.append("")
    if fleet.simulated_clusters:
        lines += ["### Simulated clusters", "", "> [!WARNING]", "> **These are no results of real clusters.**", ""]
        lines += _grid(fleet, fleet.simulated_clusters)
    lines += _scopes((*fleet.clusters, *fleet.simulated_clusters))
    signs = ", ".join(f"{DISPLAY[verdict].letter} {WORD[verdict]}" for verdict in Verdict)
    return "\n".join([*lines, f"{signs}; empty: not asked. A number counts requirements of the area.", ""])


def to_html(fleet: Fleet) -> str:
    """The page. Pure: the same fleet gives the same bytes."""
    return page(
        "fleet.html.j2",
        fleet=fleet,
        failing=fleet.failing[:MAX_FAILING],
        groups=[
            ("Clusters", "clusters", fleet.clusters),
            ("Simulated clusters: no results of real clusters", "simulated", fleet.simulated_clusters),
        ],
        sentence=sentence(fleet),
        bars=day_bars(fleet.days),
        cells=cells,
        course=course(fleet.days),
        signs=signs,
        letter={verdict: shown.letter for verdict, shown in DISPLAY.items()},
        verdicts=list(Verdict),
    )


def page(template: str, **values: object) -> str:
    """A page without a script, in the style of the fleet's."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["name"] = lambda text: escape(one_line(text, NAME_LIMIT))
    environment.filters["cell"] = lambda text: escape(visible(text, CELL_LIMIT))
    style = (TEMPLATES / "fleet.css").read_text(encoding="utf-8").strip()
    csp = f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"
    return environment.get_template(template).render(style=Markup(style), csp=csp, word=WORD, **values)  # the style is our own file


def day_bars(days: Sequence[Day]) -> list[tuple[int, int, int, str]]:
    """Bars of a plot 60 high: x, y, height and class of each part. A day's parts stand on each other."""
    most = max((day.passed + day.not_conformant + day.others for day in days), default=1)
    found = []
    for at, day in enumerate(days):
        below = 60
        for kind, count in (("bad", day.not_conformant), ("unknown", day.others), ("good", day.passed)):
            height = round(60 * count / most)
            below -= height
            found.append((8 * at, below, height, kind))
    return found


def course(days: Sequence[Day]) -> str:
    """``2026-11-01: 12 of 14 passed; 2026-11-29: 14 of 15 passed``; empty without two days."""
    ends = (days[0], days[-1]) if len(days) > 1 else ()
    return "; ".join(f"{day.day}: {day.passed} of {day.passed + day.not_conformant + day.others} passed" for day in ends)


def cells(fleet: Fleet, one: ClusterRow) -> list[AreaVerdict | None]:
    """The row's cells in the order of the fleet's areas; None where nothing of the area was asked."""
    held = {cell.area: cell for cell in one.areas}
    return [held.get(area) for area in fleet.areas]


def signs(cell: AreaVerdict) -> list[str]:
    """``✗ 1``, ``? 2``: a sign and a number for each verdict that needs attention; the sign alone where none does."""
    return [f"{DISPLAY[verdict].letter} {number}" for verdict, number in cell.found.items()] or [DISPLAY[cell.verdict].letter]


def _simulated(one: ClusterRow) -> str:
    return " (simulated)" if one.simulated else " (some nodes simulated)" if one.partly_simulated else ""


def _scopes(rows: Sequence[ClusterRow]) -> list[str]:
    """How much each verdict rests on, as every view of a run says it."""
    if not rows:
        return []
    lines = ["### How much was judged", ""]
    for one in rows[:MAX_MARKDOWN_SCOPES]:
        lines.append(f"- {markdown_escape(one.name, 120)}{_simulated(one)}: {markdown_escape(one.scope, CELL_LIMIT)}")
    if (more := len(rows) - MAX_MARKDOWN_SCOPES) > 0:
        lines.append(f"- and {more} more clusters; see the full report.")
    return [*lines, ""]


def _grid(fleet: Fleet, rows: list[ClusterRow]) -> list[str]:
    head = ["cluster", "verdict", *(markdown_escape(area, 60) for area in fleet.areas)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in rows[:MAX_MARKDOWN_ROWS]:
        name = f"{markdown_escape(one.name, 120)}{_simulated(one)}{' (stale)' if one.stale else ''}"
        values = ["" if cell is None else " ".join(signs(cell)) for cell in cells(fleet, one)]
        lines.append("| " + " | ".join([name, markdown_escape(one.headline), *values]) + " |")
    if len(rows) > MAX_MARKDOWN_ROWS:
        lines += ["", f"**{len(rows) - MAX_MARKDOWN_ROWS} more clusters; see the full report.**"]
    return [*lines, ""]


def read(arguments: Iterable[str], unreadable: list[str]) -> Iterator[Named]:
    """Reports one by one, by path of a ``report.json`` or its folder, or ``NAME=PATH``. A path that exists is never taken apart.

    Adds a sentence to ``unreadable`` for each that could not be read. Of a folder with a history it is the newest run, and earlier
    ones are known by their lines.
    """
    for argument in arguments:
        name, path = "", Path(argument)
        if not os.path.exists(path) and "=" in argument:
            name, _, rest = argument.partition("=")
            path = Path(rest)
        try:
            entries: list[Entry] = []
            if os.path.isfile(path / NAME) and not os.path.exists(path / JSON_NAME):  # where neither may be looked at, load says so
                path, entries = newest(path)
            report = load(path)
        except ReportError as error:
            unreadable.append(str(error))
        else:
            yield Named(report, name, _experiments(path, report), tuple(entries))


def _experiments(path: Path, report: Report) -> ChaosReport | None:
    """What the same run says of its experiments, if it stands beside the report: only words of the row depend on it."""
    try:
        chaos = load_chaos(path if path.is_dir() else path.parent)
    except ReportError:
        return None
    return chaos if chaos is not None and chaos.run.id == report.run.id else None


def write(fleet: Fleet, folder: Path) -> list[Path]:
    """Write all views to a folder. Returns their paths. Raises ``ReportError``."""
    texts = {
        "fleet.json": to_json(fleet),
        "fleet.md": to_markdown(fleet).encode("utf-8", "backslashreplace"),
        "fleet.html": to_html(fleet).encode("utf-8", "backslashreplace"),
    }
    try:
        private_files.make_folder(folder)
        for name, data in texts.items():
            write_atomically(folder / name, data)
    except OSError as error:
        raise ReportError(f"{folder}: cannot write the report of the fleet: {error.strerror or error}") from error
    return [folder / name for name in texts]
