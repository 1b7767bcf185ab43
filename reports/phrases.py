"""Words that all report writers share for verdicts, exit codes and targets, and counts per area."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

import msgspec

from fixtures.verdict import coverage
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Report, Result, SubjectResult, Target, TargetKind, Verdict
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import DISPLAY

MAX_NOTES = 10
"""Notes on a target that a banner shows; the record has all."""

ATTENTION = (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.WARNED, Verdict.WAIVED)
"""Verdicts a reader has to look at, most urgent first."""

SUBJECT_ORDER = (*ATTENTION, Verdict.NOT_APPLICABLE, Verdict.PASSED)

EXIT_MEANING: dict[int, str] = {
    0: "conformant: no gating requirement failed",
    1: "not conformant: at least one gating requirement failed",
    2: "interrupted before the run was complete",
    3: "internal error of the suite",
    4: "usage error: an option, policy, waiver file or kubeconfig is wrong",
    5: "nothing was selected, so nothing was judged",
    10: "inconclusive: at least one requirement could not be judged",
    11: "residue: something the run created or changed could not be restored",
}

TARGET_NAME: dict[TargetKind, str] = {
    TargetKind.LIVE: "live cluster",
    TargetKind.SNAPSHOT: "snapshot",
    TargetKind.SIMULATED: "simulated cluster",
    TargetKind.LOCAL: "local control plane",
    TargetKind.SIMULATED_NODES: "cluster with simulated nodes",
}
"""Names of kinds alone; :func:`target_name` is the name of a target."""


class AreaRow(msgspec.Struct, kw_only=True):
    """Counts of one area: requirements by verdict, and subjects judged of those seen."""

    area: str
    counts: dict[Verdict, int]
    judged: int
    total: int

    @property
    def requirements(self) -> int:
        """Number of requirements in the area."""
        return sum(self.counts.values())


def headline(report: Report) -> str:
    """The run's verdict in a few words. A verdict about a part never says that the cluster is conformant."""
    if not report.results and report.verdict in (Verdict.PASSED, Verdict.WARNED, Verdict.WAIVED):
        return DISPLAY[Verdict.NOT_APPLICABLE].requirements  # a run about experiments, whose own record has their words
    waived = " with waivers" if report.verdict is Verdict.WAIVED else ""
    if report.verdict in (Verdict.PASSED, Verdict.WAIVED) and (within := _within(report)):
        return f"Passed{waived} within the {within[0]}"
    return DISPLAY[report.verdict].requirements


def _within(report: Report) -> tuple[str, str] | None:
    """What the verdict is limited to, and how a good end of the run is said then; None where it is one about the cluster."""
    if coverage.about_nodes(report.scope):
        return "chosen nodes", "failed for the nodes that --nodes names"
    if coverage.within_selection(report.scope):
        return "selection", "of the selection failed"
    if coverage.within_snapshot(report.scope):
        return "snapshot", "failed among those that the snapshot can answer"
    return ("access", "failed among those that the access of this run allows") if coverage.within_access(report.scope) else None


def scope_words(report: Report) -> str:
    """How much the verdict rests on: ``49 of 57 requirements judged; not judged: …, because …``.

    For a record without a scope (schema 1.0), only its results.
    """
    if report.scope is not None:
        return one_line(report.scope.sentence or coverage.sentence(report.scope), 4_000)
    if not report.results:
        return "no requirement judged"
    judged = sum(coverage.is_judged(result) for result in report.results)
    return f"{judged} of the {len(report.results)} requirements in this record judged"


def shortfalls(report: Report) -> list[str]:
    """What the run did not judge although it had to, a sentence each."""
    return report.scope.shortfalls if report.scope is not None else []


class Blocker(msgspec.Struct, frozen=True):
    """What fails a run beside its requirements. ``kind`` is one word for machines."""

    kind: str
    title: str
    sentences: list[str]


def blockers(report: Report) -> list[Blocker]:
    """What fails the run beside its requirements; those without a sentence are left out.

    The comparison with a baseline is a requirement too: where its result says what is worse, it is not said again.
    """
    stated = any(result.id == COMPARISON and result.verdict is Verdict.FAILED for result in report.results)
    found = (
        Blocker("baseline", "Worse than the baseline", [] if stated else report.regressions),
        Blocker("waivers", "Waivers to renew or remove", report.waiver_problems),
    )
    return [one for one in found if one.sentences]


def notes(report: Report) -> list[str]:
    """What a reader of the scope should know and that gates nothing, a sentence each."""
    return report.scope.notes if report.scope is not None else []


def presets(report: Report) -> list[str]:
    """The presets that were laid below the owner's policy, each with what chose it."""
    return [f"{preset.name} ({preset.why})" for preset in report.run.presets]


def tables(report: Report) -> str:
    """``tables of 2026-11``, with those of the user's own; empty for a record that names none."""
    dates = sorted({one.date for one in report.run.tables if not one.own})
    own = ", ".join(f"{one.name} of {one.date}" for one in report.run.tables if one.own)
    words = f"tables of {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    return "; ".join(part for part in (words, f"your own: {own}" if own else "") if part)


def blocker_words(blocker: Blocker) -> str:
    """``worse than the baseline in 3 respects``."""
    count = len(blocker.sentences)
    if blocker.kind == "baseline":
        return f"worse than the baseline in {count} {'respect' if count == 1 else 'respects'}"
    return f"{count} {'waiver is' if count == 1 else 'waivers are'} expired or unused"


def exit_meaning(code: int) -> str:
    """What an exit code says."""
    return EXIT_MEANING.get(code, "not an exit code of this suite")


def target_name(target: Target) -> str:
    """What kind of target it is, and how much of its nodes is simulated where a run did not simulate them itself."""
    if not target.simulated_nodes or target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL):
        return TARGET_NAME[target.kind]
    what = "snapshot" if target.kind is TargetKind.SNAPSHOT else "cluster"
    if target.partly_simulated:
        return f"{what} with {target.simulated_nodes} of {target.nodes} nodes simulated"
    return f"{what} of simulated nodes"


def banner(target: Target) -> str:
    """The warning every output carries when the target is not a live cluster; "" when it is one."""
    if target.simulated and target.kind in (TargetKind.SIMULATED_NODES, TargetKind.SNAPSHOT):
        return _simulated_nodes(target)
    if target.kind is TargetKind.SIMULATED:
        return f"SIMULATED CLUSTER: {simulation(target)}. This is not a real cluster's result."
    if target.kind is TargetKind.LOCAL:
        nodes = f"simulated GPU nodes, {simulation(target)}"
        notes = "".join(f" {one_line(note, NAME_LIMIT)}." for note in target.notes[:MAX_NOTES])
        wording = f" Not as in the scenario:{notes}" if notes else ""
        programs = "".join(f" {one_line(component, NAME_LIMIT)}." for component in target.components[:MAX_NOTES])
        wording = (f" Beside the simulated nodes:{programs}" if programs else "") + wording
        return f"LOCAL CONTROL PLANE: real Kubernetes processes with {nodes}. This is not a real cluster's result.{wording}"
    if target.kind is TargetKind.SNAPSHOT:
        return "SNAPSHOT: judged offline from saved objects. Only requirements that read could be judged, as of the time it was taken."
    return ""


def _simulated_nodes(target: Target) -> str:
    saved = target.kind is TargetKind.SNAPSHOT
    title = "SNAPSHOT OF SIMULATED NODES" if saved else "SIMULATED NODES"
    most = "Some nodes" if target.simulated_nodes is None else f"{target.simulated_nodes} of {target.nodes} nodes"
    reported = f"{title}: {most} say that they are simulated, on a control plane that may be real. "
    reported += (
        "What was judged on them is not a real cluster's result." if target.partly_simulated else "This is not a real cluster's result."
    )
    return reported + (" Judged offline from saved objects." if saved else "")


def simulation(target: Target) -> str:
    """``scenario x, defects y`` of a target whose nodes are simulated. One that a kubeconfig leads to tells neither."""
    if not target.scenario:
        return "scenario and defects not known"
    scenario = one_line(target.scenario, NAME_LIMIT)
    defects = ", ".join(one_line(d, NAME_LIMIT) for d in target.defects[:50]) or "none"
    return f"scenario {scenario}, defects {defects}"


def run_meaning(report: Report) -> str:
    """What the exit code says of this run's requirements."""
    if report.exit_code == 0 and (within := _within(report)):
        return f"no gating requirement {within[1]}"
    if report.exit_code == 1 and (found := blockers(report)) and not any(result.verdict is Verdict.FAILED for result in report.results):
        return f"not conformant: {', and '.join(blocker_words(one) for one in found)}"
    if report.exit_code == 10 and (missing := shortfalls(report)):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return f"inconclusive: {one_line(missing[0], 400)}{more}"
    return exit_meaning(report.exit_code)


def counts(report: Report) -> dict[Verdict, int]:
    """Requirements by verdict, counted from the results themselves so that no view can disagree with its rows."""
    return tally(report.results)


def areas(report: Report) -> list[AreaRow]:
    """One row per area in the order of first appearance."""
    grouped = by_area(report.results)
    return [
        AreaRow(area=area, counts=tally(results), judged=sum(r.judged for r in results), total=sum(r.total for r in results))
        for area, results in grouped.items()
    ]


def by_area(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results grouped by area, areas and results in the order they came."""
    grouped: dict[str, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.area, []).append(result)
    return grouped


class _Judged(Protocol):
    @property
    def verdict(self) -> Verdict:
        """What it was judged as."""


_J = TypeVar("_J", bound=_Judged)


def by_urgency(found: Iterable[_J], verdicts: Sequence[Verdict] = SUBJECT_ORDER) -> list[_J]:
    """Those with one of the verdicts, in their order, else in the order in which they came."""
    rank = {verdict: index for index, verdict in enumerate(verdicts)}
    return sorted((one for one in found if one.verdict in rank), key=lambda one: rank[one.verdict])


def attention(report: Report) -> list[Result]:
    """Results a reader has to look at, most urgent first, else in the order of the report."""
    return by_urgency(report.results, ATTENTION)


def troubled(result: Result) -> list[SubjectResult]:
    """Subjects that need attention, most urgent first."""
    return by_urgency(result.subjects, ATTENTION)


def subject_name(subject: SubjectResult, limit: int = NAME_LIMIT) -> str:
    """``kind namespace/name``, safe to show."""
    path = f"{one_line(subject.namespace, limit)}/{one_line(subject.name, limit)}" if subject.namespace else one_line(subject.name, limit)
    return f"{one_line(subject.kind, limit)} {path}".strip()


def subject_sentence(subject: SubjectResult, limit: int = 400) -> str:
    """One line about a subject: its name, then :func:`subject_detail`."""
    name, detail = subject_name(subject), subject_detail(subject, limit)
    return f"{name}: {detail}" if detail else name


def subject_detail(subject: SubjectResult, limit: int = 400) -> str:
    """What was found of a subject, on one line: its message behind what was observed, else what was expected.

    A clause of what was observed is left out where the message has all of its words: ``no taints``, ``the node has no taint``.
    """
    if subject.message:
        told = _words(subject.message)
        new = "; ".join(part for part in subject.observed.split("; ") if not _words(part) <= told)
        return ": ".join(one_line(text, limit) for text in (new, subject.message) if text)
    found = [one_line(subject.observed, limit)] if subject.observed else []
    found += [f"expected {one_line(subject.expected, limit)}"] if subject.expected else []
    return "; ".join(found)


def _words(text: str) -> set[str]:
    """The words and values of a text, in small letters; a plural is the word itself."""
    return {word.removesuffix("s") for word in _WORD.findall(text.lower())}


_WORD = re.compile(r"[\w./@+-]*\w")


SKEW = timedelta(hours=1)
"""How far the clock of a run may be ahead. One dated further ahead has no known time: it would never be stale, and replace all others."""


def started(report: Report) -> datetime | None:
    """When the run started, in UTC; None when the record does not say so in RFC 3339."""
    return moment(report.run.started_at)


def moment(text: str) -> datetime | None:
    """A time in RFC 3339, in UTC; None for any other text."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def device_hours(devices: int, since: datetime, now: datetime) -> str:
    """Devices times how long it is so now: the most that a cause on their nodes can have cost. Empty without devices."""
    return f"{devices * max(0.0, (now - since).total_seconds() / 3600):,.0f}" if devices else ""


def target_words(target: Target) -> str:
    """``simulated cluster, scenario x, defects y``: the target in one phrase for plain outputs."""
    name = target_name(target)
    return f"{name}, {simulation(target)}" if target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL) else name


def size_words(size: int) -> str:
    """``size`` bytes in words: ``512 B``, ``1.4 MB`` (decimal units)."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration_words(seconds: float) -> str:
    """``seconds`` for people: ``12 ms``, ``3.4 s``, ``2 min 05 s``; what is no length of time is ``unknown``."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s"


def tally(results: Iterable[_Judged]) -> dict[Verdict, int]:
    """How many have each verdict."""
    found = Counter(result.verdict for result in results)
    return {verdict: found[verdict] for verdict in Verdict}


def published_devices(report: Report) -> str:
    """Devices that DRA drivers publish, how many of them claims hold and how many are tainted; empty where there are none."""
    slices = [entry for row in report.inventory for entry in row.slices]
    devices = [device for entry in slices for device in entry.devices]
    if not devices:
        return ""
    drivers = ", ".join(sorted({entry.driver for entry in slices}))
    more = sum(entry.left_out for entry in slices)
    unread = any(device.claims is None for device in devices)
    held = "claims not read" if unread else f"{sum(bool(device.claims) for device in devices)} held by claims"
    tainted = sum(bool(device.taint) for device in devices)
    where = f"{len(slices)} slice{'s' if len(slices) > 1 else ''} of {drivers}"
    return f"Devices by DRA: {len(devices) + more} in {where}; {held}, {tainted} tainted"
