"""``--waivers``: reads the file before the cluster is opened, and accounts for every waiver at the end of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from conformance.catalogue import Catalogue, CatalogueError
from conformance.plugin.options import Options
from conformance.plugin.verdict import fail
from fixtures.policy.waivers import Waiver, WaiverError, WaiverFile, read_waiver_file
from fixtures.text.sentences import listed
from fixtures.verdict.coverage import is_judged
from fixtures.verdict.record import Access, AppliedWaiver, Cause, Report, Result, Verdict, WaiverState, WaiverUse


def read_waivers(options: Options, catalogue: Catalogue, started: float) -> WaiverFile:
    """The file that ``--waivers`` names; no waivers without the option. Raises :class:`pytest.UsageError` with one line."""
    if not options.waivers:
        return WaiverFile()
    path = Path(options.waivers).expanduser()
    try:
        file = read_waiver_file(path, started)
    except WaiverError as error:
        raise pytest.UsageError(f"--waivers {error}") from None
    for number, waiver in file.numbered():
        try:
            catalogue.get(waiver.requirement)
        except CatalogueError as error:
            raise pytest.UsageError(f"--waivers {path}: waiver {number}: {error}") from None
    return file


def account_for_waivers(file: WaiverFile, report: Report) -> None:
    """Write what became of every waiver into ``report``. A run that passed has failed if one of them is expired or unused."""
    results = {result.id: result for result in report.results}
    causes = {one.id: one.cause for one in report.scope.not_judged} if report.scope else {}
    for number, waiver in file.numbered():
        result = results.get(waiver.requirement)
        uses = [use for use in result.waivers if use.waiver == number] if result else []
        idle = list(_idle(result, causes.get(waiver.requirement), uses))
        waived = sum(use.waived for use in uses)
        state = _state(file, waiver, waived, idle)
        report.waivers.append(_applied(waiver, state, waived))
        if state in (WaiverState.EXPIRED, WaiverState.UNUSED):
            report.waiver_problems.append(f"waiver {number}, {waiver.requirement}: {_problem(waiver, state, idle)}")
    if report.waiver_problems:
        fail(report)


def _state(file: WaiverFile, waiver: Waiver, waived: int, idle: list[WaiverUse]) -> WaiverState:
    if file.is_expired(waiver):
        return WaiverState.EXPIRED
    if idle:
        return WaiverState.UNUSED
    return WaiverState.USED if waived else WaiverState.NOT_TRIED


def _idle(result: Result | None, cause: Cause | None, uses: Iterable[WaiverUse]) -> Iterator[WaiverUse]:
    """Globs that waive nothing, as far as the run can tell.

    A requirement that was not judged says nothing of its waivers, unless the cluster has nothing that it judges. A probe reaches
    some nodes only: a glob none of whose subjects it met may name another one. Where a waiver covers what could not be judged, the
    subjects are known, and the other globs can be told from it.
    """
    if result is None or not (cause is Cause.ABSENT or is_judged(result) or result.verdict is Verdict.WAIVED):
        return
    for use in uses:
        if not use.waived and (use.passed or result.access is Access.READ):
            yield use


def _problem(waiver: Waiver, state: WaiverState, idle: list[WaiverUse]) -> str:
    if state is WaiverState.EXPIRED:
        return f"expired on {waiver.expires.isoformat()}; {waiver.owner} has to renew or remove it ({waiver.reason})"
    passed = [use.subjects for use in idle if use.passed]
    absent = [use.subjects for use in idle if not use.passed]
    words = [f"nothing fails that {listed(passed)} names"] if passed else []
    words += [f"{listed(absent)} names no subject"] if absent else []
    return f"{', and '.join(words)}; remove it"


def _applied(waiver: Waiver, state: WaiverState, waived: int) -> AppliedWaiver:
    return AppliedWaiver(
        requirement=waiver.requirement,
        subjects=list(waiver.subjects),
        reason=waiver.reason,
        owner=waiver.owner,
        expires=waiver.expires.isoformat(),
        state=state,
        waived=waived,
    )
