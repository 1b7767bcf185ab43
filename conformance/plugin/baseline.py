"""``--baseline`` and ``--waivers``: what is worse than in an earlier run, and waivers that are expired or unused, fail a conformant run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from conformance import causes
from conformance.catalogue import Catalogue, CatalogueError
from conformance.plugin.options import Options
from conformance.plugin.session import Baseline
from conformance.plugin.verdict import fail
from fixtures.policy.waivers import RequirementWaivers, Waiver, WaiverError, WaiverFile, read_waiver_file
from fixtures.system.file_search import folder_problem
from fixtures.text.sentences import listed
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.coverage import is_judged
from fixtures.verdict.findings import COMPARISON, Finding, Outcome
from fixtures.verdict.record import Access, AppliedWaiver, Cause, Report, Result, SubjectResult, Verdict, WaiverState, WaiverUse
from fixtures.verdict.subjects import Subject

if TYPE_CHECKING:
    from reports.diff.runs import Difference
    from reports.diff.since_baseline import Since

_OUTCOME = {Verdict.FAILED: Outcome.BAD, Verdict.PASSED: Outcome.OK}


def read_baseline(options: Options) -> Baseline | None:
    """What ``--baseline`` names; None without the option. Raises :class:`pytest.UsageError` when it is no report."""
    from reports.folder import ReportError, load_run  # imported late: most runs have no baseline

    if not options.baseline:
        return None
    path = Path(options.baseline).expanduser()
    folder = path.parent if folder_problem(path) else path
    if options.report_dir and folder.resolve() == Path(options.report_dir).expanduser().resolve():
        raise pytest.UsageError(f"--baseline {path} is in the folder of --report-dir, where this run writes its own report")
    try:
        return Baseline(*load_run(path))
    except ReportError as error:
        raise pytest.UsageError(f"--baseline {error}") from None


def of_nodes(baseline: Baseline, nodes: frozenset[str], left_out: Container[str]) -> Baseline:
    """What the baseline says of these nodes, without the requirements that a run about nodes leaves out."""
    from reports.diff.of_nodes import about_nodes  # imported late, as above

    found = about_nodes(baseline.report, nodes)
    results = [one for one in found.results if one.id not in left_out]
    return msgspec.structs.replace(baseline, report=msgspec.structs.replace(found, results=results))


def difference_from(
    baseline: Baseline, report: Report, chaos: ChaosReport | None, accepted: Iterable[str], *, another_cluster: bool = False
) -> Difference:
    """What changed since the baseline. A run that is about no experiments is not compared with those of its baseline."""
    from reports.diff import gate  # imported late, as above

    return gate.between(baseline.report, report, baseline.chaos, chaos, accepted, another_cluster=another_cluster)


def judge_comparison(pending: Result, baseline: Report, report: Report, difference: Difference, file: WaiverFile) -> Since:
    """The result of UPG-05 for a run whose other results are in ``report``, and the difference that its waivers leave."""
    from reports.diff.since_baseline import since_baseline

    waivers = RequirementWaivers.of(COMPARISON, file)
    if waivers is None:
        found = since_baseline(pending, baseline, report, difference)
    else:
        found = since_baseline(pending, baseline, report, difference, lambda subject: waivers.words(_finding(subject)))
        found.result.waivers = waivers.uses()
    if found.result.verdict is Verdict.FAILED:
        found.result.cause = "WorseThanBaseline"
        found.result.remediation = causes.met([found.result.cause])[0].text
        for subject in found.result.subjects:
            subject.cause = found.result.cause if subject.verdict is Verdict.FAILED else ""
    return found


def _finding(subject: SubjectResult) -> Finding:
    outcome = _OUTCOME.get(subject.verdict, Outcome.UNDECIDED)
    return Finding(Subject(subject.kind, subject.name, subject.namespace), outcome)


def compare_with(baseline: Report, report: Report, difference: Difference) -> None:
    """Write the comparison into ``report``. With a regression a run that passed has failed; a worse end of the run stays."""
    from reports.diff import runs  # imported late, as above

    report.comparison = runs.comparison(baseline, difference)
    report.regressions = [runs.sentence(change) for change in runs.regressions(difference)]
    if report.regressions:
        fail(report)


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
