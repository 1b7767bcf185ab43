"""What a fleet's report says: one row for each cluster, worst first, with a verdict for each area. Data alone, from records alone.

Clusters that are simulated, wholly or in their nodes, are a list of their own. They count nowhere among real ones.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import msgspec

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Level, Record, Report, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.merge.history import Entry, judged_whole
from reports.safe_text import NAME_LIMIT, one_line

FLEET_SCHEMA_VERSION = "1.0"
MAX_AREAS = 40
MAX_DAYS = 90
MAX_ATTENTION = 100
MAX_CLUSTERS_NAMED = 50

_EXIT_RANK = (1, 11, 3, 2, 10, 4, 5, 0)
"""Exit codes from worst to best. One that the suite does not know counts as an internal error."""


class AreaVerdict(Record, kw_only=True):
    """The worst verdict among the requirements of one area, how many of them need attention, and how many have each such verdict."""

    area: str
    verdict: Verdict
    requirements: int
    attention: int
    found: dict[Verdict, int] = msgspec.field(default_factory=dict)


class Concern(Record, kw_only=True):
    """A requirement that needs attention in one cluster."""

    id: str
    title: str
    level: Level
    verdict: Verdict
    message: str = ""


class ClusterRow(Record, kw_only=True):
    """One cluster's run. ``simulated`` says that it is no result of a real cluster; ``stale`` that the run is older than asked for.

    ``partly_simulated``: some nodes are simulated. The cluster stays among the real ones, so that a mark hides no failure, and never
    passes. ``in_part``: the run says nothing of the whole cluster, because it judged a selection, a snapshot that lacks what a MUST
    reads, or experiments alone, ended early or at another cluster, or does not say what it left out.
    """

    name: str
    kind: TargetKind
    simulated: bool
    partly_simulated: bool
    target: str
    kubernetes_version: str
    cluster_uid: str
    run_id: str
    started_at: str
    stale: bool
    verdict: Verdict
    exit_code: int
    headline: str
    scope: str
    in_part: bool
    areas: list[AreaVerdict]
    attention: list[Concern]
    attention_omitted: int


class Shared(Record, kw_only=True):
    """A requirement that fails in real clusters: in how many, and which. Those of most clusters come first."""

    id: str
    title: str
    level: Level
    clusters: int
    names: list[str]


class Day(Record, kw_only=True):
    """How the real clusters stood at the end of a day (UTC): each by its newest run of all of it until then."""

    day: str
    passed: int = 0
    not_conformant: int = 0
    others: int = 0


class Fleet(Record, kw_only=True):
    """The whole of ``fleet.json``. ``unreadable`` are sentences about reports that could not be read, ``notes`` about what was left out.

    ``days`` run from the first run that was given to the last, at most 90; none where all runs are of one day.
    """

    schema_version: str = FLEET_SCHEMA_VERSION
    clusters: list[ClusterRow]
    simulated_clusters: list[ClusterRow]
    areas: list[str]
    failing: list[Shared]
    days: list[Day] = msgspec.field(default_factory=list)
    unreadable: list[str]
    notes: list[str]


class Named(msgspec.Struct, frozen=True):
    """A record with the name that its owner gave the cluster; without one, the record's own words name it."""

    report: Report
    name: str = ""
    chaos: ChaosReport | None = None
    history: tuple[Entry, ...] = ()


def merge(named: Iterable[Named], *, unreadable: Iterable[str] = (), now: datetime, max_age: timedelta | None = None) -> Fleet:
    """The fleet. A run that judged a whole cluster replaces the earlier ones, which ``notes`` name. Older than ``max_age`` is stale.

    ``unreadable`` is read last: whoever reads the records one by one may still add to it.
    """
    notes: list[str] = []
    rows: list[ClusterRow] = []
    entries: list[Entry] = []
    for one in named:  # one record at a time is in memory
        rows.append(row(one, now=now, max_age=max_age))
        entries += one.history
    course = days(rows, entries)
    rows = _latest(rows, notes)
    _tell_apart(rows)
    rows.sort(key=_rank)
    real, simulated = [one for one in rows if not one.simulated], [one for one in rows if one.simulated]
    areas = list(dict.fromkeys(cell.area for one in (*real, *simulated) for cell in one.areas))
    if len(areas) > MAX_AREAS:
        notes.append(f"{len(areas) - MAX_AREAS} of {len(areas)} areas are not shown")
    return Fleet(
        clusters=real,
        simulated_clusters=simulated,
        areas=areas[:MAX_AREAS],
        failing=failing(real),
        days=course,
        unreadable=[one_line(text) for text in unreadable],
        notes=notes,
    )


def row(one: Named, *, now: datetime, max_age: timedelta | None) -> ClusterRow:
    """One report in a row."""
    report, target = one.report, one.report.target
    begun = phrases.started(report)
    if begun is not None and begun - now > phrases.SKEW:
        begun = None
    concerns = phrases.attention(report)
    return ClusterRow(
        name=one_line(one.name or _own_name(report), NAME_LIMIT),
        kind=target.kind,
        simulated=target.simulated and not target.partly_simulated,
        partly_simulated=target.partly_simulated,
        target=phrases.target_words(target),
        kubernetes_version=one_line(target.kubernetes_version, NAME_LIMIT),
        cluster_uid=one_line(target.cluster_uid, NAME_LIMIT),
        run_id=one_line(report.run.id, NAME_LIMIT),
        started_at=begun.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if begun else "",
        stale=max_age is not None and (begun is None or now - begun > max_age),
        verdict=report.verdict,
        exit_code=report.exit_code,
        headline=chaos_phrases.overall(report, one.chaos),
        scope=phrases.scope_words(report),
        in_part=not judged_whole(report),
        areas=[_area(counts) for counts in phrases.areas(report)],
        attention=[
            Concern(
                id=one_line(r.id, NAME_LIMIT), title=one_line(r.title), level=r.level, verdict=r.verdict, message=one_line(r.message, 200)
            )
            for r in concerns[:MAX_ATTENTION]
        ],
        attention_omitted=max(0, len(concerns) - MAX_ATTENTION),
    )


def days(rows: Iterable[ClusterRow], entries: Iterable[Entry]) -> list[Day]:
    """The days between the first run and the last, rows and earlier runs together."""
    codes: dict[str, dict[str, tuple[str, int]]] = {}
    runs: list[ClusterRow | Entry] = [*rows, *entries]
    for one in runs:
        begun = phrases.moment(one.started_at)
        if begun is None or one.simulated or one.in_part:
            continue
        cluster = one.cluster_uid or (one.name if isinstance(one, ClusterRow) else one.cluster)
        at, until = begun.isoformat(), codes.setdefault(begun.date().isoformat(), {})
        until[cluster] = max(until.get(cluster, ("", 0)), (at, one.exit_code))
    if len(codes) < 2:
        return []
    found: list[Day] = []
    standing: dict[str, int] = {}
    day = date.fromisoformat(min(codes))
    while day <= date.fromisoformat(max(codes)):
        standing.update({cluster: code for cluster, (_, code) in codes.get(day.isoformat(), {}).items()})
        counts = Counter("passed" if code == 0 else "not_conformant" if code == 1 else "others" for code in standing.values())
        found.append(Day(day=day.isoformat(), **counts))
        day += timedelta(days=1)
    return found[-MAX_DAYS:]


def failing(rows: Iterable[ClusterRow]) -> list[Shared]:
    """Requirements that failed, those that fail in most clusters first."""
    found: dict[str, Shared] = {}
    for one in rows:
        for concern in one.attention:
            if concern.verdict in (Verdict.FAILED, Verdict.ERROR):
                shared = found.setdefault(concern.id, Shared(id=concern.id, title=concern.title, level=concern.level, clusters=0, names=[]))
                shared.clusters += 1
                if shared.clusters <= MAX_CLUSTERS_NAMED:
                    shared.names.append(one.name)
    return sorted(found.values(), key=lambda shared: (-shared.clusters, shared.id))


def code(fleet: Fleet) -> int:
    """The exit code of a gate over the fleet: that of its worst real cluster.

    10 if a report is unreadable or stale, if a cluster or some of its nodes are simulated, if no run judged a cluster as a whole, or if
    there is no cluster: what was not judged is no pass.
    """
    codes = {one.exit_code for one in fleet.clusters}
    if (
        not fleet.clusters
        or fleet.simulated_clusters
        or fleet.unreadable
        or any(one.stale or one.partly_simulated for one in fleet.clusters)
        or any(all(one.in_part for one in runs) for runs in by_cluster(fleet.clusters))
    ):
        codes.add(10)
    return min((code if code in _EXIT_RANK else 3 for code in codes), key=_EXIT_RANK.index)


def by_cluster(rows: Iterable[ClusterRow]) -> list[list[ClusterRow]]:
    """The rows of each cluster, which has more than one where a run of a part found something bad. Without a UID each is another."""
    found: dict[str | int, list[ClusterRow]] = {}
    for at, one in enumerate(rows):
        found.setdefault(one.cluster_uid or at, []).append(one)
    return list(found.values())


def _area(counts: phrases.AreaRow) -> AreaVerdict:
    held = [verdict for verdict in phrases.SUBJECT_ORDER if counts.counts[verdict]]
    judged = [verdict for verdict in held if verdict is not Verdict.NOT_APPLICABLE]  # one that judged outweighs those with nothing to judge
    return AreaVerdict(
        area=one_line(counts.area, 60),
        verdict=(judged or held)[0],
        requirements=counts.requirements,
        attention=sum(counts.counts[verdict] for verdict in phrases.ATTENTION),
        found={verdict: counts.counts[verdict] for verdict in phrases.ATTENTION if counts.counts[verdict]},
    )


def _own_name(report: Report) -> str:
    target = report.target
    if target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL):
        return f"simulated {target.scenario or 'cluster'}"
    return target.context or target.server or target.cluster_uid or report.run.id or "unnamed"


def _latest(rows: list[ClusterRow], notes: list[str]) -> list[ClusterRow]:
    """Of each cluster UID the latest run that judged the whole cluster, or the latest if none did.

    A run of a part cannot take back what another one found: it replaces none that is not good, and stays beside the others if it is not
    good itself. So does a run of no known time. Rows without a UID all stay, and so do simulated clusters: each is another.
    """
    kept = [one for one in rows if not one.cluster_uid or one.simulated]
    for runs in by_cluster(one for one in rows if one.cluster_uid and not one.simulated):
        runs.sort(key=lambda one: one.started_at)
        whole = max((at for at, one in enumerate(runs) if not one.in_part), default=-1)
        place = whole if whole >= 0 else len(runs) - 1
        for at, one in enumerate(runs):
            again = any(other.run_id == one.run_id for other in runs[at + 1 :])
            if at == place or (one.exit_code and not again and (at > whole or not one.started_at)):
                kept.append(one)
            elif at < place:
                notes.append(f"run {one.run_id} of {one.name} is left out: run {runs[place].run_id} judged the same cluster later")
            else:
                notes.append(f"run {one.run_id} of {one.name} is left out: it judged a part, of which nothing is bad")
    return kept


def _tell_apart(rows: list[ClusterRow]) -> None:
    """No two rows have one name: the second gets its run's id, or a number."""
    taken: set[str] = set()
    for one in rows:
        name, number = one.name, 2
        if name in taken:
            name = f"{one.name} ({one.run_id})"
        while name in taken:
            name, number = f"{one.name} ({number})", number + 1
        one.name = name
        taken.add(name)


def _rank(one: ClusterRow) -> tuple[int, int, int, str]:
    place = _EXIT_RANK.index(one.exit_code if one.exit_code in _EXIT_RANK else 3)
    must = sum(concern.level is Level.MUST and concern.verdict in (Verdict.FAILED, Verdict.ERROR) for concern in one.attention)
    return place, -must, phrases.SUBJECT_ORDER.index(one.verdict), one.name
