"""Shortfalls: sentences about what a run had to judge and did not. Each leads to exit code 10. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fixtures.text.sentences import listed
from fixtures.verdict.coverage import MAX_NAMED
from fixtures.verdict.floor import Floor, missed
from fixtures.verdict.record import Cause, Coverage, Result, Verdict

FORBIDDEN = "Forbidden"
"""Reason code of a requirement that the API server refused something."""


def shortfalls(coverage: Coverage, results: Iterable[Result], floor: Floor) -> Iterator[str]:
    """Every shortfall that results and policy show, a sentence each."""
    found = list(results)
    yield from _cut_short(coverage)
    yield from _left_out(coverage, floor)
    yield from _missing_rights(found)
    yield from missed(found, floor)


def _cut_short(coverage: Coverage) -> Iterator[str]:
    ids = [one.id for one in coverage.not_judged if one.cause is Cause.CUT_SHORT]
    if ids:
        yield f"the run ended before it had judged {listed(ids, MAX_NAMED)}"


def _left_out(coverage: Coverage, floor: Floor) -> Iterator[str]:
    for one in coverage.not_judged:
        if one.id in floor.required and one.cause in (Cause.SELECTION, Cause.ACCESS, Cause.SNAPSHOT):
            why = f"it was {one.because}" if one.cause is Cause.SELECTION else one.because
            yield f"{one.id} has to be judged (required of the policy), and {why}"


def _missing_rights(results: Iterable[Result]) -> Iterator[str]:
    """A refusal is said at any level of the requirement: who runs the suite can get the right."""
    for result in results:
        if result.verdict is Verdict.INCONCLUSIVE and result.reason_code == FORBIDDEN:
            yield f"{result.id} was refused: {result.message}"
