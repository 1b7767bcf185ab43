"""Shortfalls: sentences about what a run had to judge and did not. Each leads to exit code 10. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fixtures.text.sentences import listed
from fixtures.verdict.coverage import MAX_NAMED
from fixtures.verdict.record import Cause, Coverage, Result, Verdict

FORBIDDEN = "Forbidden"
"""Reason code of a requirement that the API server refused something."""


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What must be judged at least. ``source`` names the option or the policy's key that says how many."""

    minimum: int = 0
    areas: tuple[str, ...] = ()
    source: str = ""


def shortfalls(coverage: Coverage, results: Iterable[Result], floor: Floor) -> Iterator[str]:
    """Every shortfall that results and policy show, a sentence each."""
    yield from _cut_short(coverage)
    yield from _missing_rights(results)
    yield from _below(coverage, floor)


def _cut_short(coverage: Coverage) -> Iterator[str]:
    ids = [one.id for one in coverage.not_judged if one.cause is Cause.CUT_SHORT]
    if ids:
        yield f"the run ended before it had judged {listed(ids, MAX_NAMED)}"


def _missing_rights(results: Iterable[Result]) -> Iterator[str]:
    """A refusal is said at any level of the requirement: who runs the suite can get the right."""
    for result in results:
        if result.verdict is Verdict.INCONCLUSIVE and result.reason_code == FORBIDDEN:
            yield f"{result.id} was refused: {result.message}"


def _below(coverage: Coverage, floor: Floor) -> Iterator[str]:
    if coverage.judged < floor.minimum:
        yield f"{coverage.judged} requirements were judged, and {floor.source} asks for {floor.minimum}"
    judged = {row.area for row in coverage.areas if row.judged}
    missing = [area for area in floor.areas if area not in judged]
    if missing:
        yield f"no requirement of {' and none of '.join(missing)} was judged, and gate.areas asks for one of each"
