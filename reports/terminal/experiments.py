"""Chaos experiments on a terminal: a table of all, and what is wrong with those that did not pass."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import TargetKind
from reports import chaos_phrases
from reports.safe_text import NAME_LIMIT, one_line
from reports.terminal.tables import grid, plain
from reports.verdicts import DISPLAY, column

MAX_ROWS = 200
MAX_FINDINGS = 5
WIDE = 100


def table(results: list[ChaosResult], width: int, colour: bool) -> Table:
    """A row per experiment: what it was, how real, its verdict, and its times in seconds with what is not known of them."""
    wide = width >= WIDE
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


def findings(results: list[ChaosResult], colour: bool) -> Table:
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


def simulated(result: ChaosResult) -> bool:
    """Whether the fault was not one of a real cluster."""
    return result.target_kind not in (TargetKind.LIVE, TargetKind.SNAPSHOT)


def _fidelity(result: ChaosResult, colour: bool) -> Text:
    text = plain(chaos_phrases.fidelity(result, 40), 100, colour)
    if simulated(result):
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
