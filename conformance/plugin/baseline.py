"""``--baseline``: this run against an earlier one. What is worse fails a run that is otherwise conformant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.plugin.gate import ExitCode
from conformance.plugin.options import Options
from fixtures.record import Report, Verdict


def read_baseline(options: Options) -> Report | None:
    """The report that ``--baseline`` names; None without the option. Raises :class:`pytest.UsageError` when it is none."""
    from reports.write import ReportError, load  # imported late: most runs have no baseline

    if not options.baseline:
        return None
    try:
        return load(Path(options.baseline).expanduser())
    except ReportError as error:
        raise pytest.UsageError(f"--baseline {error}") from None


def compare_with(baseline: Report, report: Report, accepted: Iterable[str]) -> None:
    """Write the regressions into ``report``. With one of them a run that passed has failed; a worse end of the run stays."""
    from reports import diff  # imported late, as above

    difference = diff.accept(diff.compare(baseline, report), accepted)
    report.regressions = [diff.sentence(change) for change in diff.regressions(difference) if isinstance(change, diff.Change)]
    if report.regressions and report.verdict is Verdict.PASSED:
        report.verdict = Verdict.FAILED
        if report.exit_code == ExitCode.CONFORMANT:
            report.exit_code = int(ExitCode.NOT_CONFORMANT)
