"""What CNCF's programme asks for, by release, which requirements of this suite show it, and what a run shows of it.

Nothing is ``N/A`` here: that a platform need not do something is its vendor's word, not a test's.

The ids, sections and levels are docs/facts/cncf-ai-conformance.md#requirements-per-release.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from fixtures.text import yaml_text
from fixtures.verdict.record import Report, Result, TargetKind, Verdict
from reports import phrases
from reports.safe_text import one_line
from reports.verdicts import WORD

RELEASES = ("1.35", "1.36", "1.37", "1.38")

IMPLEMENTED, PARTLY, NOT_IMPLEMENTED, UNKNOWN = "Implemented", "Partially Implemented", "Not Implemented", ""

_ENDED = (0, 1, 10, 11)
"""Exit codes of runs that came to their end."""
_SHOWS_NOT = (Verdict.FAILED, Verdict.WARNED, Verdict.WAIVED)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement of the programme. ``levels`` go with ``RELEASES``; "" where the release does not have it.

    Each of ``ways`` is a list of the suite's requirements that show it if all of them pass. ``beyond`` is the part of it that the suite
    does not judge: then it is shown in part at most. Without ways, ``beyond`` says why the suite shows nothing. ``missed`` is a defect of
    the simulated cluster that one of the ways finds and the programme's own test does not, for the reason in ``why``.
    """

    section: str
    id: str
    levels: tuple[str, str, str, str]
    ways: tuple[tuple[str, ...], ...] = ()
    beyond: str = ""
    missed: str = ""
    why: str = ""

    def level(self, release: str) -> str:
        """``MUST``, ``SHOULD``, or "" where the release does not have the requirement."""
        return self.levels[RELEASES.index(release)]


ITEMS = yaml_text.packaged(Path(__file__).with_name("programme.yaml"), tuple[Item, ...])


class CncfError(Exception):
    """The report shows nothing to CNCF. The message is one line that says why."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the run shows of one item. ``results`` are those that the status rests on; ``status`` is "" where nothing is shown."""

    item: Item
    level: str
    status: str
    notes: str
    results: list[Result]


def release_of(report: Report) -> str:
    """The Kubernetes release of a report that may speak for a product: a whole run on a live cluster of a known release.

    Raises :class:`CncfError`.
    """
    target = report.target
    if target.kind is not TargetKind.LIVE or target.simulated:
        raise CncfError(f"the report is about a {phrases.target_name(target)}: only a run on a live cluster shows what a product does")
    if target.nodes is None:
        raise CncfError("the report does not say whether nodes are simulated: expected a run that could list the nodes, of this version")
    if report.other_cluster_uid:
        raise CncfError("the run ended at another cluster than it began with: which of them its results are about is not known")
    if report.exit_code not in _ENDED:
        raise CncfError(f"the run did not come to its end (exit code {report.exit_code}: {phrases.exit_meaning(report.exit_code)})")
    if not report.results:
        raise CncfError("the report has no requirement: it is about chaos experiments alone")
    version = one_line(report.target.kubernetes_version, 60)
    release = ".".join(version.removeprefix("v").split(".")[:2])
    if release not in RELEASES:
        raise CncfError(f"the cluster has Kubernetes {version or 'of an unknown version'}, known checklists are of {', '.join(RELEASES)}")
    return release


def shown(report: Report, release: str) -> list[Shown]:
    """What a report shows of each requirement that the release's checklist has, in its order."""
    results = {result.id: result for result in report.results}
    return [_shown(item, release, results) for item in ITEMS if item.level(release)]


def _shown(item: Item, release: str, results: Mapping[str, Result]) -> Shown:
    level = item.level(release)
    if not item.ways:
        return Shown(item=item, level=level, status=UNKNOWN, notes=f"Not judged: {item.beyond}.", results=[])
    tried = [(_rank(way, results), way) for way in item.ways]
    rank, way = min(tried, key=lambda one: one[0])
    found = [results[id_] for id_ in way if id_ in results]
    status = (PARTLY if item.beyond else IMPLEMENTED, PARTLY, NOT_IMPLEMENTED, UNKNOWN)[rank]
    words = [f"{id_} {_words(results.get(id_))}" for id_ in way]
    notes = f"gpu-conformance: {'; '.join(words)}."
    if item.beyond:
        notes += f" Not judged: {item.beyond}."
    return Shown(item=item, level=level, status=status, notes=notes, results=found)


def _rank(way: tuple[str, ...], results: Mapping[str, Result]) -> int:
    """0 where all of a way passed, 1 where some passed and some does not hold, 2 where nothing holds, 3 where that is not known."""
    verdicts = [results[id_].verdict if id_ in results else Verdict.NOT_APPLICABLE for id_ in way]
    passed, bad = verdicts.count(Verdict.PASSED), sum(verdict in _SHOWS_NOT for verdict in verdicts)
    if passed == len(way):
        return 0
    if not bad:
        return 3
    return 1 if passed else 2


def _words(result: Result | None) -> str:
    """The verdict without the message, which may name nodes and tenants: notes are published."""
    if result is None:
        return "was not judged"
    counted = f"{result.judged} of {result.total} judged"
    if result.verdict is Verdict.PASSED:
        return f"passed, {counted}"
    reason = f" ({one_line(result.reason_code, 60)})" if result.reason_code else ""
    return f"{WORD[result.verdict]}{reason}, {counted}"
