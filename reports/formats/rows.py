"""A report as CSV (RFC 4180): a row for each subject, and one for a requirement that judged none. For spreadsheets and queries."""

import csv
import io
import re

from fixtures.verdict.record import Report
from reports.phrases import by_urgency
from reports.safe_text import one_line

HEAD = (
    *("run", "started", "cluster", "simulated", "requirement", "level", "area", "verdict", "reason", "judged", "total"),
    *("kind", "namespace", "name", "subject_verdict", "cause", "observed", "expected", "message"),
)
_FORMULA = re.compile(r"(?:^|(?<=;))(?=\s*[=+@\uff1d\uff0b\uff20\uff0d-])")
"""A spreadsheet computes a cell that begins so, in signs of either width, and may send what is beside it away.

``;`` ends a cell where a comma is the sign of decimals.
"""


def render(report: Report) -> str:
    """All rows, lines ended by CR LF."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEAD)
    run = (report.run.id, report.run.started_at, report.target.cluster_uid or report.target.context, str(report.target.simulated).lower())
    for result in report.results:
        about = (
            result.id,
            result.level.value,
            result.area,
            result.verdict.value,
            result.reason_code,
            str(result.judged),
            str(result.total),
        )
        for one in by_urgency(result.subjects):
            found = (one.kind, one.namespace, one.name, one.verdict.value, one.cause, one.observed, one.expected, one.message)
            writer.writerow([_cell(value) for value in (*run, *about, *found)])
        if not result.subjects:
            writer.writerow([_cell(value) for value in (*run, *about, *[""] * 7, result.message)])
    return text.getvalue()


def _cell(value: str) -> str:
    return _FORMULA.sub("'", one_line(value, 1_000))
