"""What became of a cluster from run to run: each cause and each node, since when, and how often it came back. From records alone.

A run is one line of ``history.jsonl``, beside its report folder. ``run`` and ``job --to folder=DIR`` append it, so that it outlives that
folder. A file that is full becomes ``history.1.jsonl``, in the place of an older one. Folders of runs without a line are read from their
records.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from fixtures.system import private_files
from fixtures.text import json_text, users_files
from fixtures.text.json_text import NotJson
from fixtures.verdict.coverage import about_nodes, is_cut_down, is_judged
from fixtures.verdict.record import Record, Report, Verdict
from reports import phrases
from reports.causes import found_causes
from reports.diff.coverage import cut_short
from reports.folder import JSON_NAME, ReportError, load
from reports.safe_text import NAME_LIMIT, one_line

NAME = "history.jsonl"
OLDER = "history.1.jsonl"
VERSION = "1.0"
MAX_BYTES = 128 << 20
"""Of each of the two files: 26 kB for each of the runs that are shown."""
MAX_BYTES_AT_ONCE = 16 << 20
"""Of the newest lines, by which a run says since when its causes hold."""
MAX_RUNS = 5_000
"""That are shown: five years of three runs a day."""
MAX_CAUSES = 200
MAX_NODES = 2_000
"""Of one cause, that are named."""


class CauseMet(Record, kw_only=True):
    """A cause in one run. ``key`` is its code, or the id of a requirement that stands for itself; ``nodes`` are at most 2,000.

    ``devices`` are all of its nodes'.
    """

    key: str
    title: str
    verdict: Verdict
    requirements: list[str]
    subjects: int
    nodes: list[str] = msgspec.field(default_factory=list)
    devices: int = 0


class Entry(Record, kw_only=True):
    """One run: a line of the file. ``judged`` are requirements with a yes or a no: of the others' causes the run says nothing.

    ``in_part``: the run did not judge the whole cluster. ``about``: the nodes that it was about (``--nodes``); none where about all.
    """

    schema_version: str = VERSION
    run_id: str
    started_at: str
    cluster: str
    cluster_uid: str = ""
    simulated: bool = False
    suite_version: str = ""
    kubernetes_version: str = ""
    verdict: Verdict
    exit_code: int
    in_part: bool = False
    about: list[str] = msgspec.field(default_factory=list)
    judged: list[str]
    requirements: int = 0
    accelerator_nodes: int = 0
    causes: list[CauseMet] = msgspec.field(default_factory=list)

    @property
    def whose(self) -> tuple[bool, str]:
        """What runs of one cluster share: its UID, else its name. Simulated ones are no clusters, and come last."""
        return self.simulated, self.cluster if self.simulated else self.cluster_uid or self.cluster

    @property
    def nodes(self) -> set[str]:
        """Nodes that need attention."""
        return {node for cause in self.causes for node in cause.nodes}


def entry_of(report: Report) -> Entry:
    """The line of a run."""
    target = report.target
    about = report.scope.nodes if report.scope and about_nodes(report.scope) else []
    return Entry(
        run_id=one_line(report.run.id, NAME_LIMIT),
        started_at=one_line(report.run.started_at, NAME_LIMIT),
        cluster=one_line(target.context or target.server or target.scenario or "unnamed", NAME_LIMIT),
        cluster_uid=one_line(target.cluster_uid, NAME_LIMIT),
        simulated=target.simulated,
        suite_version=one_line(report.suite.version, NAME_LIMIT),
        kubernetes_version=one_line(target.kubernetes_version, NAME_LIMIT),
        verdict=report.verdict,
        exit_code=report.exit_code,
        in_part=not judged_whole(report),
        about=[one_line(name, NAME_LIMIT) for name in about[:MAX_NODES]],
        judged=[one_line(result.id, 60) for result in report.results if is_judged(result)],
        requirements=report.scope.requirements if report.scope else len(report.results),
        accelerator_nodes=len(report.inventory),
        causes=[
            CauseMet(
                key=one_line(one.key, 100),
                title=one_line(one.title, 300),
                verdict=one.verdict,
                requirements=[one_line(result.id, 60) for result in one.requirements],
                subjects=len(one.symptoms),
                nodes=sorted({one_line(name, NAME_LIMIT) for name in one.nodes})[:MAX_NODES],
                devices=one.devices,
            )
            for one in found_causes(report)[:MAX_CAUSES]
        ],
    )


def judged_whole(report: Report) -> bool:
    """Whether the run came to its end and judged all requirements that the cluster gives something to judge."""
    if report.other_cluster_uid:
        return False
    return bool(report.results) and report.scope is not None and not is_cut_down(report.scope) and not cut_short(report)


def append(report: Report, folder: Path) -> None:
    """Add the run's line to the history in the folder, below what a process that was killed left there. Raises ``OSError``.

    A file that has no room for it is renamed first. One process writes at a time.
    """
    line = msgspec.json.encode(entry_of(report)) + b"\n"
    while not _appended(folder, line):
        pass


def _appended(folder: Path, line: bytes) -> bool:
    """Add a line to the file, or rename it where it has no room. False where that, or another process that did it, asks for another try."""
    path = folder / NAME
    with private_files.open_new(path, append=True) as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return False
        except FileNotFoundError:
            return False
        size = file.seek(0, os.SEEK_END)
        if size and size + len(line) > MAX_BYTES:
            path.replace(folder / OLDER)
            return False
        file.write(b"\n" * (size > 0 and _last_byte(path, size) != b"\n") + line)
        return True


def _last_byte(path: Path, size: int) -> bytes:
    with users_files.opened(path) as file:
        file.seek(size - 1)
        return file.read(1)


class Histories(msgspec.Struct):
    """Runs of a folder, oldest first, and sentences about what could not be read or has no time."""

    entries: list[Entry]
    problems: list[str]


def read(folder: Path) -> Histories:
    """The runs of a folder: its lines, and the records in it and right below it that have none. Raises :class:`ReportError`."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder")
    found: dict[str, Entry] = {}
    problems: list[str] = []
    for entry in _lines(_files(folder), problems, MAX_BYTES):
        found[entry.run_id] = entry
    for path in sorted({path.parent.resolve() for pattern in (JSON_NAME, f"*/{JSON_NAME}") for path in folder.glob(pattern)}):
        if path.name in found:
            continue
        try:
            entry = entry_of(load(path))
        except ReportError as error:
            problems.append(str(error))
        else:
            found.setdefault(entry.run_id, entry)
    timed = [(moment, entry) for entry in found.values() if (moment := phrases.moment(entry.started_at)) is not None]
    if len(timed) < len(found):
        problems.append(f"{len(found) - len(timed)} runs do not say when they began, and are left out")
    timed.sort(key=lambda one: (one[0], one[1].run_id))
    return Histories([entry for _, entry in timed[-MAX_RUNS:]], problems)


def newest(folder: Path) -> tuple[Path, list[Entry]]:
    """The report folder of the newest run that still has one, in a folder with a history, and all runs. Raises :class:`ReportError`."""
    problems: list[str] = []
    entries = sorted(_lines(_files(folder), problems, MAX_BYTES), key=lambda entry: entry.started_at)
    for entry in reversed(entries):
        path = folder / entry.run_id
        if path.resolve().parent == folder.resolve() and (path / JSON_NAME).is_file():
            return path, entries
    raise ReportError(f"{folder}: no run of its history has a report any more")


def held_since(report: Report, folder: Path | None, baseline: Report | None) -> dict[str, str]:
    """``causes_since`` of a run, by its baseline and the newest lines of both files of the history in ``folder``.

    What cannot be read is not known.
    """
    this, now, before = entry_of(report), phrases.started(report), phrases.started(baseline) if baseline else None
    found: dict[str, Entry] = {}
    for path in _files(folder) if folder is not None else ():
        with contextlib.suppress(ReportError):
            found.update((entry.run_id, entry) for entry in _lines((path,), [], most=MAX_BYTES_AT_ONCE))
    if baseline is not None:
        found[baseline.run.id] = entry_of(baseline)
    about = set(this.about)
    runs = [
        msgspec.structs.replace(entry, causes=[one for one in entry.causes if not about or about & set(one.nodes)])
        for entry in found.values()
        if entry.whose == this.whose and (moment := phrases.moment(entry.started_at)) and now and moment < now
    ]
    runs.sort(key=lambda entry: phrases.moment(entry.started_at) or datetime.min)
    told = {course.name: course.since for course in _causes([*runs, this]) if course.now and now and course.since < now}
    older = baseline.causes_since if baseline else {}
    return {key: older.get(key, since.isoformat()) if since == before else since.isoformat() for key, since in told.items()}


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / OLDER, folder / NAME


def _lines(paths: Iterable[Path], problems: list[str], most: int) -> Iterator[Entry]:
    """The runs of files, and sentences about lines that are left out. Of a file of more than ``most`` bytes its newest lines are read."""
    for path in paths:
        try:
            with users_files.opened(path) as file:
                before = max(file.seek(0, os.SEEK_END) - most, 0)
                file.seek(before)
                lines = file.read(most).split(b"\n")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ReportError(f"{path}: {error.strerror or error}") from error
        if before:
            problems.append(f"{path}: it is longer than {most >> 20} MiB, and its oldest runs are left out")
        broken = 0
        for line in filter(None, lines[1 if before else 0 :]):
            try:
                yield json_text.decode(line, Entry)
            except NotJson:
                broken += 1  # the last line of a process that was killed, for one
        if broken:
            problems.append(f"{path}: {broken} lines are no runs, and are left out")


class Course(msgspec.Struct, kw_only=True):
    """A cause or a node from run to run. ``counts`` has for each run how many subjects, or causes, it had; None where it says nothing.

    ``since`` is when what is so now began, a run that says nothing not counted; ``returns`` is how often it came back after it was gone.
    ``devices`` are those of a cause's nodes.
    """

    name: str
    title: str
    verdict: Verdict
    counts: list[int | None]
    first: datetime
    last: datetime
    since: datetime
    returns: int
    devices: int = 0

    @property
    def now(self) -> bool:
        """Whether it is so, as far as the newest runs say."""
        return next((bool(count) for count in reversed(self.counts) if count is not None), False)


class Cluster(msgspec.Struct, kw_only=True):
    """The runs of one cluster, oldest first, and what follows from them. What is so now comes first, the oldest before the others."""

    name: str
    entries: list[Entry]
    causes: list[Course]
    nodes: list[Course]


def clusters(entries: Iterable[Entry]) -> list[Cluster]:
    """The clusters of a history by UID, else by name. Simulated ones come last."""
    found: dict[tuple[bool, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.whose, []).append(entry)
    return [
        Cluster(name=runs[-1].cluster, entries=runs, causes=_causes(runs), nodes=_nodes(runs))
        for _, runs in sorted(found.items(), key=lambda one: one[0])
    ]


def _causes(runs: Sequence[Entry]) -> list[Course]:
    met: dict[str, list[CauseMet]] = {}
    for entry in runs:
        for cause in entry.causes:
            met.setdefault(cause.key, []).append(cause)
    found = []
    for key, causes in met.items():
        shown_by = {name for cause in causes for name in cause.requirements}
        counts = [_count(entry, key, shown_by) for entry in runs]
        last = causes[-1]
        found.append(_course(runs, counts, name=key, title=last.title, verdict=last.verdict, devices=last.devices))
    return _in_order(found)


def _count(entry: Entry, key: str, shown_by: set[str]) -> int | None:
    """How many subjects the cause has in a run; None if the run judged nothing that shows it, or showed it of no node that it was about."""
    found = next((max(cause.subjects, 1) for cause in entry.causes if cause.key == key), 0)
    return found if found or (not entry.about and shown_by & set(entry.judged)) else None


def _nodes(runs: Sequence[Entry]) -> list[Course]:
    shown_by: dict[str, set[str]] = {}
    for entry in runs:
        for cause in entry.causes:
            for node in cause.nodes:
                shown_by.setdefault(node, set()).update(cause.requirements)
    found = []
    for node, requirements in shown_by.items():
        met = [[cause for cause in entry.causes if node in cause.nodes] for entry in runs]
        counts = [
            len(causes) if causes or (requirements <= set(entry.judged) and node in (entry.about or [node])) else None
            for causes, entry in zip(met, runs, strict=True)
        ]
        last = next(causes for causes in reversed(met) if causes)
        found.append(_course(runs, counts, name=node, title="; ".join(cause.title for cause in last), verdict=last[0].verdict))
    return _in_order(found)


def _course(runs: Sequence[Entry], counts: list[int | None], *, name: str, title: str, verdict: Verdict, devices: int = 0) -> Course:
    moments = [phrases.moment(entry.started_at) for entry in runs]
    known = [(moment, bool(count)) for moment, count in zip(moments, counts, strict=True) if count is not None and moment is not None]
    times = [moment for moment, so in known if so]
    since, returns, gone = times[0], 0, False
    for at, (moment, so) in enumerate(known):
        if at and so is not known[at - 1][1]:
            since = moment
            returns += so and gone
        gone = gone or (not so and moment > times[0])
    return Course(
        name=name,
        title=title,
        verdict=verdict,
        counts=counts,
        first=times[0],
        last=times[-1],
        since=since,
        returns=returns,
        devices=devices,
    )


def _in_order(found: list[Course]) -> list[Course]:
    return sorted(found, key=lambda one: (not one.now, one.since, one.name))
