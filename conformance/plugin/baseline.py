"""``--baseline``: this run against an earlier one. What is worse fails a run that is otherwise conformant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.plugin.options import Options
from conformance.plugin.verdict import fail
from fixtures.verdict.record import Report


def read_baseline(options: Options) -> Report | None:
    """The report that ``--baseline`` names; None without the option. Raises :class:`pytest.UsageError` when it is not one."""
    from reports.folder import ReportError, load  # imported late: most runs have no baseline

    if not options.baseline:
        return None
    try:
        return load(Path(options.baseline).expanduser())
    except ReportError as error:
        raise pytest.UsageError(f"--baseline {error}") from None


def compare_with(baseline: Report, report: Report, accepted: Iterable[str]) -> None:
    """Write the regressions into ``report``. With one of them a run that passed has failed; a worse end of the run stays."""
    from reports.diff import runs  # imported late, as above

    difference = runs.accept(runs.compare(baseline, report), accepted)
    report.regressions = [runs.sentence(change) for change in runs.regressions(difference) if isinstance(change, runs.Change)]
    if report.regressions:
        fail(report)
