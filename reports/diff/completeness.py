"""Whether a run came to its end. One that did not says nothing good of a cluster, whatever it had judged until then."""

from __future__ import annotations

from fixtures.text.sentences import listed
from fixtures.verdict.record import Cause, Report

ENDED_EARLY = {2: "it was interrupted", 3: "it ended in an error of its own", 5: "nothing was selected"}
"""Exit codes of runs that ended before they had judged what was selected, and what each means."""


def cut_short(report: Report) -> str:
    """Why a run says less than it was asked for, as a clause; empty when it came to its end."""
    reasons = [f"exit code {report.exit_code}: {ENDED_EARLY[report.exit_code]}"] if report.exit_code in ENDED_EARLY else []
    missed = [one.id for one in report.scope.not_judged if one.cause is Cause.CUT_SHORT] if report.scope else []
    reasons += [f"it did not reach {listed(missed)}"] if missed else []
    return "; ".join(reasons)
