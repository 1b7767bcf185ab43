"""The history of clusters as text for a terminal and as one self-contained page without a script."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from tabulate import tabulate

from reports import phrases
from reports.merge.history import Cluster, Course, Entry, Histories, clusters
from reports.merge.views import page
from reports.safe_text import NAME_LIMIT, ascii_only, one_line
from reports.verdicts import WORD

MAX_RUNS, MAX_ROWS = 10, 30
"""Of a table in the terminal."""
MAX_BARS = 60
MAX_PAGE_ROWS = 500


def age(since: datetime, now: datetime) -> str:
    """``3 d``, ``5 h``: how long ago, as short as a column of the table has to be."""
    hours = max(0, int((now - since).total_seconds() // 3600))
    return f"{hours // 24} d" if hours >= 48 else f"{hours} h"


def signs(course: Course, most: int) -> str:
    """A sign for each of the last runs: ``x`` it was so, ``.`` it was not, ``?`` the run does not say."""
    return "".join("?" if count is None else "x" if count else "." for count in course.counts[-most:])


def to_text(found: Histories, now: datetime, width: int) -> str:
    """Runs, causes and nodes of each cluster, in lines that fit."""
    lines = [f"Note: {one_line(problem)}" for problem in found.problems]
    for cluster in clusters(found.entries):
        lines += ["", *_text_of(cluster, now, width)]
    return ascii_only("\n".join(lines).strip("\n")) + "\n"


def _text_of(cluster: Cluster, now: datetime, width: int) -> Iterator[str]:
    yield f"{one_line(cluster.name, NAME_LIMIT)}{' (SIMULATED)' if cluster.entries[-1].simulated else ''}: {len(cluster.entries)} runs"
    rows = [
        (
            one_line(entry.started_at[:16]),
            WORD[entry.verdict],
            f"{len(entry.judged)}/{entry.requirements}",
            str(len(entry.causes)),
            attention(entry),
        )
        for entry in cluster.entries[-MAX_RUNS:]
    ]
    yield tabulate(rows, headers=("run", "verdict", "judged", "causes", "nodes that need attention"), disable_numparse=True)
    for what, courses in (("cause", cluster.causes), ("node", cluster.nodes)):
        yield ""
        if not courses:
            yield f"No {what} in these runs."
            continue
        table = [_row(course, now) for course in courses[:MAX_ROWS]]
        head = (what, "now", "for", "first", "last", "back", "device-h", "runs")
        left = max(14, width - 68)
        yield tabulate(table, headers=head, disable_numparse=True, maxcolwidths=[left, *[None] * 7])
        if len(courses) > MAX_ROWS:
            yield f"and {len(courses) - MAX_ROWS} more; --html has them"


def attention(entry: Entry) -> str:
    """``54 of 1,000``."""
    return f"{len(entry.nodes):,} of {entry.accelerator_nodes:,}"


def device_hours(course: Course, now: datetime) -> str:
    """Those of a cause that is so now."""
    return phrases.device_hours(course.devices, course.since, now) if course.now else ""


def _row(course: Course, now: datetime) -> tuple[str, ...]:
    name = one_line(course.name, NAME_LIMIT) + (f": {one_line(course.title, 120)}" if course.title != course.name else "")
    dates = (course.first.strftime("%y-%m-%d"), course.last.strftime("%y-%m-%d"))
    return (
        name,
        "yes" if course.now else "no",
        age(course.since, now),
        *dates,
        str(course.returns or ""),
        device_hours(course, now),
        signs(course, 10),
    )


def to_html(found: Histories, now: datetime) -> str:
    """The page."""
    return page(
        "history.html.j2",
        clusters=clusters(found.entries),
        problems=found.problems,
        age=lambda since: age(since, now),
        device_hours=lambda course: device_hours(course, now),
        attention=attention,
        bars=bars,
        trends=trends,
        course_words=course_words,
        most=MAX_PAGE_ROWS,
    )


class Trend(msgspec.Struct, frozen=True):
    """A number of each run; None where the run was about some nodes alone."""

    name: str
    counts: list[int | None]

    @property
    def known(self) -> list[int]:
        """Of the runs that are shown and say it."""
        return [count for count in self.counts[-MAX_BARS:] if count is not None]


def trends(cluster: Cluster) -> list[Trend]:
    """How many nodes needed attention in each run, and how many causes there were of each verdict that any run has."""
    runs = cluster.entries
    found = [Trend("nodes that need attention", [None if entry.about else len(entry.nodes) for entry in runs])]
    for verdict in phrases.ATTENTION:
        counts = [None if entry.about else sum(cause.verdict is verdict for cause in entry.causes) for entry in runs]
        found += [Trend(f"causes: {WORD[verdict]}", counts)] if any(counts) else []
    return [one for one in found if one.known]


def course_words(course: Course | Trend) -> str:
    """A course for whoever cannot view its bars."""
    known = [count for count in course.counts[-MAX_BARS:] if count is not None]
    return f"{sum(map(bool, known))} of the last {len(known)} runs that say, most at once {max(known)}"


def bars(counts: Sequence[int | None]) -> list[tuple[int, int, int, str]]:
    """Bars of the last runs in a plot 30 high: x, y, height and class of each."""
    shown = counts[-MAX_BARS:]
    most = max((count for count in shown if count), default=1)
    found = []
    for at, count in enumerate(shown):
        height = 2 if not count else max(4, round(30 * count / most))
        found.append((6 * at, 30 - height, height, "unknown" if count is None else "bad" if count else "good"))
    return found
