"""From results to one verdict and one exit code (README, "exit code"). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

from fixtures.chaos_record import ChaosResult
from fixtures.record import Level, Result, Verdict


class ExitCode(IntEnum):
    """Exit codes of the suite; 0 to 5 are pytest's own."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    INTERRUPTED = 2
    INTERNAL_ERROR = 3
    USAGE = 4
    NOTHING_SELECTED = 5
    INCONCLUSIVE = 10
    RESIDUE = 11


def summarise(results: Iterable[Result]) -> dict[str, int]:
    """Number of results per verdict; every verdict is a key."""
    counts = Counter(result.verdict for result in results)
    return {str(verdict): counts[verdict] for verdict in Verdict}


def decide(
    results: list[Result],
    *,
    strict: bool,
    required: Iterable[str],
    pytest_exit: int,
    residue: bool,
    chaos: list[ChaosResult] | None = None,
    shortfalls: Iterable[str] = (),
) -> tuple[Verdict, ExitCode]:
    """Overall verdict and exit code, of requirements and of chaos experiments, whichever were judged.

    Residue outranks everything: something of ours is still in the cluster. An interrupted run keeps
    pytest's code. A SHOULD that could not be decided gates under ``strict`` or when it is required. ``shortfalls`` say what the
    run did not judge although it had to: with one of them it is not conformant.
    """
    judged = [_judge(results, strict, frozenset(required), tuple(shortfalls))] if results or not chaos else []
    judged += [judge_chaos(chaos)] if chaos else []
    verdict, code = min(judged, key=lambda one: _WORST_FIRST.index(one[0]))
    if pytest_exit in (ExitCode.INTERRUPTED, ExitCode.INTERNAL_ERROR, ExitCode.USAGE):
        verdict, code = (Verdict.ERROR if pytest_exit == ExitCode.INTERNAL_ERROR else Verdict.INCONCLUSIVE), ExitCode(pytest_exit)
    elif pytest_exit == ExitCode.INCONCLUSIVE and not results:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    elif pytest_exit == ExitCode.NOT_CONFORMANT and code is ExitCode.CONFORMANT and not _explained(results):
        verdict, code = Verdict.ERROR, ExitCode.INTERNAL_ERROR
    elif not results and not chaos:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.NOTHING_SELECTED
    if residue:
        code = ExitCode.RESIDUE
    return verdict, code


def _explained(results: list[Result]) -> bool:
    """Whether a result says why pytest saw a failure. What fails outside of them (a fixture's end, a dead worker) is the suite's own."""
    return any(result.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.ERROR) for result in results)


def _judge(results: list[Result], strict: bool, required: frozenset[str], shortfalls: tuple[str, ...]) -> tuple[Verdict, ExitCode]:
    gating = [result for result in results if strict or result.level is Level.MUST or result.id in required]
    if any(result.verdict is Verdict.ERROR for result in results):
        return Verdict.ERROR, ExitCode.INTERNAL_ERROR
    if any(result.verdict is Verdict.FAILED for result in results):
        return Verdict.FAILED, ExitCode.NOT_CONFORMANT
    if shortfalls or any(result.verdict is Verdict.INCONCLUSIVE for result in gating):
        return Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    if results and all(result.verdict is Verdict.NOT_APPLICABLE for result in results):
        return Verdict.NOT_APPLICABLE, ExitCode.INCONCLUSIVE
    return Verdict.PASSED, ExitCode.CONFORMANT


_WORST_FIRST = (Verdict.ERROR, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE, Verdict.PASSED)


def judge_chaos(results: list[ChaosResult]) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of chaos experiments: each of them gates."""
    codes = {
        Verdict.ERROR: ExitCode.INTERNAL_ERROR,
        Verdict.FAILED: ExitCode.NOT_CONFORMANT,
        Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        Verdict.PASSED: ExitCode.CONFORMANT,
    }
    found = {result.verdict for result in results}
    worst = next((verdict for verdict in codes if verdict in found), Verdict.NOT_APPLICABLE)
    return worst, codes.get(worst, ExitCode.INCONCLUSIVE)
