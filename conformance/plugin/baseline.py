"""``--baseline``: this run against an earlier one. What is worse fails a run that is otherwise conformant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance import causes
from conformance.plugin.options import Options
from conformance.plugin.session import Baseline
from conformance.plugin.verdict import fail
from fixtures.policy.waivers import RequirementWaivers, WaiverFile
from fixtures.system.file_search import folder_problem
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.findings import COMPARISON, Finding, Outcome
from fixtures.verdict.record import Report, Result, SubjectResult, Verdict
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
    from reports.diff import gate, runs  # imported late, as above
    from reports.diff.runs import comparison

    report.comparison = comparison(baseline, difference)
    report.regressions = [gate.sentence(change) for change in runs.regressions(difference)]
    if report.regressions:
        fail(report)
