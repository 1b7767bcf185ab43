"""A record as one about some nodes, so that it can be compared with a run that is about them alone (``--nodes``, ``gate --node``)."""

from collections.abc import Container

import msgspec

from fixtures.verdict.coverage import DECIDED
from fixtures.verdict.findings import tallies_of
from fixtures.verdict.record import Report, Result, Verdict
from fixtures.verdict.subjects import causes_that_blame_nodes, node_concerned
from reports.diff.coverage import WORST_FIRST


def about_nodes(report: Report, nodes: Container[str]) -> Report:
    """The record without what it says of other nodes, of none, and of pods on these nodes that are no fault of the nodes.

    The verdict of a requirement is that of the worst subject it is left with; one that is left with none has no result.
    """
    blaming = causes_that_blame_nodes(report)
    results = [found for one in report.results if (found := _about(one, nodes, blaming)) is not None]
    return msgspec.structs.replace(report, results=results, inventory=[row for row in report.inventory if row.node in nodes])


def _about(result: Result, nodes: Container[str], blaming: Container[str]) -> Result | None:
    subjects = [one for one in result.subjects if node_concerned(one, blaming) in nodes]
    if not subjects:
        return None
    worst = min((one.verdict for one in subjects), key=WORST_FIRST.index)
    if worst is Verdict.FAILED and result.verdict is Verdict.WARNED:
        worst = Verdict.WARNED  # what a SHOULD finds wrong
    return msgspec.structs.replace(
        result,
        verdict=worst,
        subjects=subjects,
        judged=sum(one.verdict in DECIDED for one in subjects),
        total=len(subjects),
        subjects_omitted=0,
        tallies=tallies_of(subjects),
    )
