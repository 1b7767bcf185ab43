"""The summary at the end of a run on a terminal: what was judged, counts per area, what needs attention, the verdict.

A run of chaos experiments has a table of these; a run of nothing else has no table of areas.

With ``colour`` it is drawn by rich with box lines; without, it is plain ASCII, fit for logs and files. Text from the
cluster cannot move the cursor, set the title or colour anything: control characters are spelled out.
"""

import io

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from fixtures.verdict import coverage
from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Cause, Report, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.causes import Found, found_causes, need_words
from reports.safe_text import NAME_LIMIT, ascii_only, one_line, visible
from reports.verdicts import DISPLAY, WORD, column

MIN_WIDTH = 60
MAX_SYMPTOMS = 12
MAX_COMMANDS = 2
MAX_ROWS = 200
MAX_SENTENCES = 10

FULL_WORDS_WIDTH = 100
ALL_VERDICTS_WIDTH = 76

MAX_FINDINGS = 5


def summary(report: Report, *, width: int, colour: bool, report_path: str, chaos: ChaosReport | None = None, wraps: bool = False) -> str:
    """The whole summary, ending in a newline. ``width`` is in columns; the last line names verdict, exit code and path.

    ``wraps``: sentences outside of tables go on in a next line too, which programs that search a pipe for them would miss.
    """
    buffer = io.StringIO()
    console = _console(buffer, width, colour)
    for line in _header(report, colour):
        console.print(line)
    if not chaos_phrases.only_chaos(report, chaos):
        _print_requirements(console, report, width, colour)
    if chaos is not None and chaos.experiments:
        _print_experiments(console, chaos, width, colour)
    if wording := _scope(report, colour):
        console.print()
        console.print(wording, soft_wrap=not wraps)
    if report.residue:
        console.print()
        console.print(_residue(report, chaos, colour))
    console.print()
    if chaos is not None and report.results:
        console.print(_chaos_line(report, chaos, colour), soft_wrap=not wraps)
    console.print(_last_line(report, chaos, report_path, colour), soft_wrap=True)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def verdict_line(report: Report, *, width: int, colour: bool, report_path: str, chaos: ChaosReport | None = None) -> str:
    """The last line of :func:`summary` alone, for a terminal on which nobody wants the rest. ``width``: where it wraps, 0 for nowhere."""
    buffer = io.StringIO()
    console = _console(buffer, width, colour)
    line = _last_line(report, chaos, report_path, colour)
    if 0 < width < len(line):  # the path stays whole, so that it can be copied
        sentence, line = line.divide([len(line) - len(plain(report_path, 2_000, colour))])
        console.print(sentence)
    console.print(line, soft_wrap=True)
    return "\n".join(one.rstrip() for one in buffer.getvalue().rstrip().splitlines())


def _console(file: io.StringIO, width: int, colour: bool) -> Console:
    return Console(
        file=file,
        width=max(width, MIN_WIDTH),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,
        _environ={},
    )


def _print_requirements(console: Console, report: Report, width: int, colour: bool) -> None:
    console.print()
    console.print(_areas(report, colour, width))
    if lines := _not_applicable(report):
        console.print()
        for line in lines:
            console.print(plain(line, 10_000, colour))
    rows = found_causes(report)
    if rows:
        console.print()
        console.print(_findings(rows[:MAX_ROWS], colour))
    if len(rows) > MAX_ROWS:
        console.print(f"... and {len(rows) - MAX_ROWS} more causes; see the report.")


def _not_applicable(report: Report) -> list[str]:
    """Requirements with nothing to judge, all of them by their reasons, which the last line has in short."""
    applicable = {result.id for result in report.results if result.verdict is not Verdict.NOT_APPLICABLE}
    lines = []
    for group in coverage.groups(report.scope) if report.scope is not None else []:
        ids = [one.id for one in group.requirements if one.id not in applicable]
        if ids and group.cause not in (Cause.SELECTION, Cause.NODES):
            lines.append(one_line(f"Not applicable, because {group.because}: {', '.join(ids)}", 8_000))
    return lines


def _print_experiments(console: Console, chaos: ChaosReport, width: int, colour: bool) -> None:
    console.print()
    console.print(_experiments(chaos.experiments, width, colour))
    if len(chaos.experiments) > MAX_ROWS:
        console.print(f"... and {len(chaos.experiments) - MAX_ROWS} more experiments; see the report.")
    rows = chaos_phrases.attention(chaos.experiments)
    if rows:
        console.print()
        console.print(_experiment_findings(rows, colour))
    if len(rows) > MAX_ROWS:
        console.print(f"... and {len(rows) - MAX_ROWS} more experiments; see the report.")


def _header(report: Report, colour: bool) -> list[Text]:
    target = report.target
    cluster = one_line(target.context or target.server or target.cluster_uid, NAME_LIMIT) or "not named"
    version = one_line(target.kubernetes_version, NAME_LIMIT) or "unknown"
    nodes = f", {need_words(report)}" if report.inventory else ""
    took = phrases.duration_words(report.run.duration_seconds)
    lines = [
        f"Cluster {cluster} ({phrases.target_name(target)}), Kubernetes {version}{nodes}",
        f"Run {one_line(report.run.id, NAME_LIMIT)}, {took}, {report.requests.count} requests, "
        f"{phrases.size_words(report.requests.bytes)} received",
    ]
    if devices := phrases.published_devices(report):
        lines.append(one_line(devices, 1_500))
    if presets := phrases.presets(report):
        lines.append("Presets " + one_line("; ".join(presets), 1_500))
    if tables := phrases.tables(report):
        lines.append(f"Judged by {one_line(tables, 1_500)}")
    texts = [plain(line, 2_000, colour) for line in lines]
    warning = phrases.banner(target)
    if warning:
        banner = plain(warning, 2_000, colour)
        banner.stylize("bold black on yellow")
        texts.insert(0, banner)
    return texts


def _areas(report: Report, colour: bool, width: int) -> Table:
    """Counts by area. A narrow terminal has no room for verdicts that nothing has."""
    table = grid(colour, footer=True)
    rows, counts = phrases.areas(report), phrases.counts(report)
    verdicts = [one for one in Verdict if width >= ALL_VERDICTS_WIDTH or counts[one] or one in (Verdict.PASSED, Verdict.FAILED)]
    if width < ALL_VERDICTS_WIDTH and len(verdicts) > 5:
        table.padding = 0  # rich would drop the first column
    table.add_column("area", "all", overflow="fold", min_width=5, max_width=20)
    for verdict in verdicts:
        word = column(verdict, wide=width >= FULL_WORDS_WIDTH)
        table.add_column(word, _count(verdict, counts[verdict]), justify="right", no_wrap=True, min_width=len(word))
    table.add_column("judged/total", f"{sum(r.judged for r in rows)}/{sum(r.total for r in rows)}", justify="right", no_wrap=True)
    for row in rows:
        cells = [_count(verdict, row.counts[verdict]) for verdict in verdicts]
        table.add_row(plain(one_line(row.area, 40), 100, colour), *cells, Text(f"{row.judged}/{row.total}"))
    return table


def _count(verdict: Verdict, number: int) -> Text:
    return Text(str(number), style=DISPLAY[verdict].style if number else "dim")


def _findings(rows: list[Found], colour: bool) -> Table:
    table = grid(colour, lines=True)
    table.add_column("shown by", overflow="fold", max_width=14)
    table.add_column("level", no_wrap=True, min_width=6)
    table.add_column("verdict", no_wrap=True, min_width=12)
    table.add_column("what, where and what to do", overflow="fold", ratio=1)
    for one in rows:
        names = [one_line(result.id, 40) for result in one.requirements]
        more = [f"and {len(names) - MAX_SYMPTOMS} more"] if len(names) > MAX_SYMPTOMS else []
        table.add_row(
            plain("\n".join(names[:MAX_SYMPTOMS] + more), 1_000, colour),
            Text(one.level.value),
            Text(WORD[one.verdict], style=DISPLAY[one.verdict].style),
            Group(*(plain(line, 2_000, colour) for line in _explanation(one))),
        )
    return table


def _explanation(one: Found) -> list[str]:
    lines, sentences = [one_line(one.title, NAME_LIMIT)], one.sentences(400)
    lines += [one_line(fact, 600) for fact in one.facts]
    lines += [f"- {sentence}" for sentence in sentences[: one.most_shown]]
    if len(sentences) > one.most_shown:
        lines.append(f"- and {len(sentences) - one.most_shown} more")
    if one.advice:
        lines.append(f"Do: {visible(one.advice, 400)}")
    reading = [line for command in one.commands if not command.does for line in command.lines]
    lines += [f"$ {one_line(line, 400)}" for line in reading[:MAX_COMMANDS]]
    for command in (command for command in one.commands if command.does):
        lines.append(f"This changes the cluster, {one_line(command.does, 200)}:")
        lines += [f"$ {one_line(line, 400)}" for line in command.lines[:MAX_COMMANDS]]
    return lines


def _residue(report: Report, chaos: ChaosReport | None, colour: bool) -> Text:
    lines = [f"RESIDUE: {len(report.residue)} left behind (run {chaos_phrases.residue_advice(chaos)})"]
    lines += [f"- {one_line(item, NAME_LIMIT)}" for item in report.residue[:20]]
    if len(report.residue) > 20:
        lines.append(f"- and {len(report.residue) - 20} more")
    text = plain("\n".join(lines), 10_000, colour)
    text.stylize("bold red")
    return text


def _scope(report: Report, colour: bool) -> Text | None:
    """What was not judged although it had to be, and what else to know of the scope."""
    missing, notes = phrases.shortfalls(report), phrases.notes(report)
    blockers = phrases.blockers(report)
    if not missing and not notes and not blockers:
        return None
    lines = [f"NOT JUDGED: {one_line(text, 600)}" for text in missing[:MAX_ROWS]]
    for blocker in blockers:
        lines += [f"{blocker.title.upper()}: {one_line(text, 600)}" for text in blocker.sentences[:MAX_SENTENCES]]
        if (more := len(blocker.sentences) - MAX_SENTENCES) > 0:
            lines.append(f"{blocker.title.upper()}: {more} more; see the report")
    lines += [f"Note: {one_line(text, 3_000)}" for text in notes[:MAX_ROWS]]
    text = plain("\n".join(lines), 200_000, colour)
    if missing or blockers:
        text.stylize("bold yellow")
    return text


def _chaos_line(report: Report, chaos: ChaosReport, colour: bool) -> Text:
    line = Text("CHAOS", style=DISPLAY[chaos.verdict].style)
    line.append(plain(f": {chaos_phrases.tally_words(chaos)}", 4_000, colour))
    return line.append(f" [{phrases.target_name(report.target)}]" if phrases.banner(report.target) else "")


def _last_line(report: Report, chaos: ChaosReport | None, report_path: str, colour: bool) -> Text:
    meaning = f" ({chaos_phrases.exit_meaning(report, chaos)})"
    if chaos is not None and not report.results:
        line = _chaos_line(report, chaos, colour)
        meaning = "" if report.exit_code == 0 else meaning
        line.append(",")
    else:
        line = Text(chaos_phrases.overall(report, chaos).upper(), style=DISPLAY[report.verdict].style)
        line.append(f" [{phrases.target_name(report.target)}]" if phrases.banner(report.target) else "")
        line.append(plain(f": {phrases.scope_words(report)};", 4_000, colour))
    line.append(plain(f" exit code {report.exit_code}{meaning}, report ", 2_000, colour))
    return line.append(plain(report_path, 2_000, colour))


def grid(colour: bool, *, lines: bool = False, footer: bool = False) -> Table:
    """An empty table. ``lines`` separates the rows of one without colour, for cells of several lines."""
    return Table(
        box=box.SIMPLE_HEAD if colour else box.ASCII2,
        pad_edge=not colour,
        show_lines=lines and not colour,
        show_footer=footer,
        safe_box=not colour,
    )


def plain(text: str, limit: int, colour: bool) -> Text:
    """Text for a cell; made ASCII before layout when not in colour, so that escapes do not break the lines of a table."""
    shown = visible(text, limit)
    return Text(shown if colour else ascii_only(shown))


def _experiments(results: list[ChaosResult], width: int, colour: bool) -> Table:
    """A row per experiment: what it was, how real, its verdict, and its times in seconds with what is not known of them."""
    wide = width >= FULL_WORDS_WIDTH
    made = grid(colour)
    made.add_column("id", overflow="fold", max_width=14)
    made.add_column("level" if wide else "L", no_wrap=True)
    made.add_column("fidelity", overflow="fold", max_width=14)
    made.add_column("verdict", no_wrap=True)
    made.add_column("detected, s" if wide else "detect", overflow="fold", justify="right", max_width=15)
    made.add_column("recovered, s" if wide else "recover", overflow="fold", justify="right", max_width=20)
    made.add_column("target", overflow="fold", ratio=1)
    for result in results[:MAX_ROWS]:
        made.add_row(
            plain(one_line(result.id, 40), 100, colour),
            Text(chaos_phrases.level_words(result) if wide else str(result.level)),
            _fidelity(result, colour),
            Text(column(result.verdict, wide=wide), style=DISPLAY[result.verdict].style),
            _span(chaos_phrases.detection(result), wide, colour),
            _recovery(result, wide, colour),
            plain(chaos_phrases.targets(result, 120), 600, colour),
        )
    return made


def _experiment_findings(results: list[ChaosResult], colour: bool) -> Table:
    """What needs attention, a row per experiment."""
    made = grid(colour, lines=True)
    made.add_column("id", overflow="fold", max_width=14)
    made.add_column("level", no_wrap=True, min_width=6)
    made.add_column("verdict", no_wrap=True, min_width=12)
    made.add_column("what was seen", overflow="fold", ratio=1)
    for result in results[:MAX_ROWS]:
        lines = [one_line(result.title, NAME_LIMIT)]
        wording = ": ".join(part for part in (chaos_phrases.reason(result), one_line(result.message, 400)) if part)
        lines += [wording] if wording else []
        lines += [f"- {line}" for line in chaos_phrases.details(result, MAX_FINDINGS)]
        lines += [f"- artefacts: {one_line(result.artefacts, NAME_LIMIT)}"] if result.artefacts else []
        made.add_row(
            plain(one_line(result.id, 40), 100, colour),
            Text(chaos_phrases.level_words(result)),
            Text(column(result.verdict), style=DISPLAY[result.verdict].style),
            Group(*(plain(line, 2_000, colour) for line in lines)),
        )
    return made


def _is_simulated(result: ChaosResult) -> bool:
    """Whether the fault was not one of a real cluster."""
    return result.target_kind not in (TargetKind.LIVE, TargetKind.SNAPSHOT)


def _fidelity(result: ChaosResult, colour: bool) -> Text:
    text = plain(chaos_phrases.fidelity(result, 40), 100, colour)
    if _is_simulated(result):
        text.stylize("black on yellow")
    return text


def _recovery(result: ChaosResult, wide: bool, colour: bool) -> Text:
    """Like the table of the other reports; without the room for it, one digit each and the word on a line of its own."""
    span = chaos_phrases.recovery(result)
    if wide or span is None:
        return plain(chaos_phrases.recovery_cell(result) or "-", 60, colour)
    text = _span(span, wide, colour)
    return text.append("\n(undo)") if result.recovery_from == "undo" else text


def _span(span: chaos_phrases.Span | None, wide: bool, colour: bool) -> Text:
    if span is None:
        return Text("-")
    if not wide and span.uncertainty is not None:  # one digit each, so that the columns fit into eighty
        return plain(f"{span.seconds:.1f}±{span.uncertainty:.1f}", 60, colour)
    return plain(span.words(), 60, colour)
