"""Computes the timeline of a chaos experiment for the HTML report: where marks and signals go. Pure.

Times on the page count from the injection. Everything that is drawn is said in words as well.
"""

import math
from dataclasses import dataclass, field

from msgspec.structs import replace

from fixtures.verdict.chaos_record import ChaosMark, ChaosResult, ChaosSeries, ChaosStep
from reports.safe_text import one_line

LEFT, RIGHT, WIDTH = 190.0, 930.0, 1000.0
LINE, BELOW_RAIL, ROW, AXIS = 16.0, 10.0, 34.0, 30.0
MAX_MARKS = 12
MAX_SERIES = 8
MAX_WORDS = 8
NAME_CHARS = 26
_CHAR = 6.9
"""Width of a character of a label, on the wide side, so that two labels of a line keep apart in any font."""
_MOST = 1e15
_WORDS = {"inject": "injected", "detect": "detected", "contained": "contained", "recovered": "recovered", "undo": "undo begins"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkView:
    """One mark: its line at ``x``, a bar from ``left`` to ``x`` for what is not known, its label ``level`` lines down.

    ``kind`` is the mark's name when it is one this page knows, ``other`` otherwise.
    """

    name: str
    kind: str
    x: float
    left: float
    level: int
    anchor: str
    seconds: float
    uncertainty: float
    at: str

    @property
    def label_y(self) -> float:
        """Where its label stands."""
        return 14.0 + LINE * self.level

    @property
    def label(self) -> str:
        """What it says."""
        return _label(self.name, self.seconds)

    @property
    def bar_width(self) -> float:
        """Width of the bar of what is not known, wide enough to be seen."""
        return max(self.x - self.left, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """One signal: ``path`` of its steps, ``gaps`` without data as (x, width), ``changed`` stretches of a state as (x, width)."""

    name: str
    top: float
    kind: str
    path: str
    gaps: list[tuple[float, float]]
    changed: list[tuple[float, float]]
    high: str
    low: str
    words: str

    @property
    def middle(self) -> float:
        """Height of its name."""
        return self.top + ROW / 2 + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All that one drawing holds. Marks sit on a rail at the height ``rail``. ``ticks``: (x, text)."""

    height: float
    rail: float
    bottom: float
    marks: list[MarkView] = field(default_factory=list)
    rows: list[RowView] = field(default_factory=list)
    ticks: list[tuple[float, str]] = field(default_factory=list)
    words: str = ""


def timeline(result: ChaosResult) -> Timeline | None:
    """The drawing of one experiment; None when nothing was measured."""
    given = [mark for mark in (*result.marks[:MAX_MARKS], *_undo(result)) if _drawable(mark.seconds)]
    drawn = [replace(series, steps=_steps(series)) for series in result.series[:MAX_SERIES]]
    drawn = [series for series in drawn if series.steps]
    times = [step.seconds for series in drawn for step in series.steps] + [mark.seconds for mark in given]
    if not times:
        return None
    zero = next((mark.seconds for mark in given if mark.name == "inject"), min(times))
    ended = result.ended_seconds if _drawable(result.ended_seconds) else zero
    scale = _Scale(start=min([*times, zero - 0.5]), end=max([*times, ended, zero + 1.0]), zero=zero)
    marks = _marks(given, scale)
    rail = 20.0 + LINE * max((mark.level + 1 for mark in marks), default=1)
    rows = [_row(series, rail + BELOW_RAIL + ROW * index, scale) for index, series in enumerate(drawn)]
    bottom = rail + BELOW_RAIL + ROW * len(rows)
    return Timeline(height=bottom + AXIS, rail=rail, bottom=bottom, marks=marks, rows=rows, ticks=_ticks(scale), words=_words(marks))


def _undo(result: ChaosResult) -> list[ChaosMark]:
    """When the undo began, where the recovery counts from there. No recovery after it, no such moment in the record."""
    recovered = next((mark for mark in result.marks if mark.name == "recovered"), None)
    if recovered is None or result.recovery_from != "undo" or not result.recovery_seconds or result.recovery_seconds < 0:
        return []
    return [ChaosMark(name="undo", seconds=recovered.seconds - result.recovery_seconds, uncertainty=0.0)]


def _drawable(number: float) -> bool:
    """Whether a number of a record, which anybody may have written, has a place on the page."""
    return math.isfinite(number) and abs(number) < _MOST


def _steps(series: ChaosSeries) -> list[ChaosStep]:
    """The steps in the order of time; what has no place is left out, what has no value has no data."""
    kept = [step for step in series.steps if _drawable(step.seconds)]
    values = [replace(step, value=step.value if step.value is not None and _drawable(step.value) else None) for step in kept]
    return sorted(values, key=lambda step: step.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    start: float
    end: float
    zero: float

    def x(self, seconds: float) -> float:
        share = (min(max(seconds, self.start), self.end) - self.start) / (self.end - self.start)
        return round(LEFT + share * (RIGHT - LEFT), 2)


def _marks(marks: list[ChaosMark], scale: _Scale) -> list[MarkView]:
    found: list[MarkView] = []
    ends: list[float] = []  # where the last label of each line of labels ends
    for mark in sorted(marks, key=lambda mark: mark.seconds):
        x = scale.x(mark.seconds)
        width = 4 + _CHAR * len(_label(_WORDS.get(mark.name, mark.name), mark.seconds - scale.zero))
        anchor = "end" if x + width > WIDTH else "start"
        begin = x - width if anchor == "end" else x
        level = next((index for index, end in enumerate(ends) if begin >= end), len(ends))
        ends[level:] = [begin + width, *ends[level + 1 :]]
        uncertainty = mark.uncertainty if _drawable(mark.uncertainty) else scale.end - scale.start
        found.append(
            MarkView(
                name=_WORDS.get(mark.name, mark.name),
                kind=mark.name if mark.name in _WORDS else "other",
                x=x,
                left=scale.x(mark.seconds - uncertainty),
                level=level,
                anchor=anchor,
                seconds=mark.seconds - scale.zero,
                uncertainty=uncertainty,
                at=mark.at,
            )
        )
    return found


def _label(name: str, seconds: float) -> str:
    shown = one_line(name)
    shown = shown if len(shown) <= NAME_CHARS else f"{shown[: NAME_CHARS - 1]}…"
    return f"{shown} {seconds:+.1f} s"


def _row(series: ChaosSeries, top: float, scale: _Scale) -> RowView:
    values = [step.value for step in series.steps if step.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    if series.kind != "number":
        low, high = 0.0, 1.0
    spans = _spans(series.steps, scale)

    def y(value: float) -> float:
        share = 0.5 if high == low else (value - low) / (high - low)
        return round(top + ROW - 7 - share * (ROW - 14), 2)

    path, pen = [], False
    for x, width, value in spans:
        if value is None:
            pen = False
            continue
        path.append(f"{'L' if pen else 'M'}{x} {y(value)}H{round(x + width, 2)}")
        pen = True
    return RowView(
        name=series.signal,
        top=top,
        kind=series.kind,
        path="".join(path),
        gaps=[(x, width) for x, width, value in spans if value is None],
        changed=[(x, width) for x, width, value in spans if value == 0.0] if series.kind == "state" else [],
        high=f"{high:g}" if series.kind == "number" else "as before",
        low=f"{low:g}" if series.kind == "number" else "changed",
        words=_stated(series, scale),
    )


def _spans(steps: list[ChaosStep], scale: _Scale) -> list[tuple[float, float, float | None]]:
    """Each step as (x, width, value) up to the next one."""
    found = []
    for index, step in enumerate(steps):
        end = steps[index + 1].seconds if index + 1 < len(steps) else scale.end
        x = scale.x(step.seconds)
        found.append((x, round(max(scale.x(end) - x, 0.0), 2), step.value))
    return found


def _stated(series: ChaosSeries, scale: _Scale) -> str:
    """The steps in words, the first few of many."""
    parts = [f"{step.text or 'no data'} from {step.seconds - scale.zero:+.2f} s" for step in series.steps[:MAX_WORDS]]
    more = len(series.steps) - len(parts) + series.steps_omitted
    return "; ".join(parts) + (f"; and {more} more changes" if more else "")


def _words(marks: list[MarkView]) -> str:
    wording = [f"{mark.name} at {mark.seconds:+.2f} s, known to {mark.uncertainty:.2f} s" for mark in marks]
    return "; ".join(wording) if wording else "no marks"


def _ticks(scale: _Scale) -> list[tuple[float, str]]:
    """About eight round times, counted from the injection."""
    span = scale.end - scale.start
    raw = span / 8
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil((scale.start - scale.zero) / step)
    last = math.floor((scale.end - scale.zero) / step)
    return [(scale.x(scale.zero + number * step), f"{number * step:+g} s" if number else "0 s") for number in range(first, last + 1)]
