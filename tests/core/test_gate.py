import msgspec
import pytest

from conformance.catalogue import load_catalogue
from conformance.plugin.opening import OpenTarget, WorkerHandover
from conformance.plugin.options import Options
from conformance.plugin.session import State
from conformance.plugin.verdict import ExitCode, conclude, decide, worse_of
from fixtures.policy.model import Policy
from fixtures.verdict.findings import Evidence, advised, bad
from fixtures.verdict.record import Access, Level, Result, Target, TargetKind, Verdict
from fixtures.verdict.subjects import REST, Inconclusive, NotApplicable, Subject


def a_result(verdict: Verdict, level: Level = Level.MUST, id_: str = "FENCE-01") -> Result:
    return Result(id=id_, title="t", area="FENCE", level=level, access=Access.READ, verdict=verdict)


def code(
    *results: Result,
    strict: bool = False,
    required: tuple[str, ...] = (),
    pytest_exit: int = 0,
    residue: bool = False,
    failures: bool = False,
) -> int:
    decided = decide(list(results), strict=strict, required=required, pytest_exit=pytest_exit, residue=residue, failures=failures)
    return int(decided[1])


PASSED = a_result(Verdict.PASSED)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ((PASSED,), 0),
        ((PASSED, a_result(Verdict.WARNED, Level.SHOULD)), 0),
        ((PASSED, a_result(Verdict.NOT_APPLICABLE)), 0),
        ((PASSED, a_result(Verdict.FAILED)), 1),
        ((PASSED, a_result(Verdict.FAILED), a_result(Verdict.INCONCLUSIVE)), 1),
        ((PASSED, a_result(Verdict.INCONCLUSIVE)), 10),
        ((PASSED, a_result(Verdict.INCONCLUSIVE, Level.SHOULD)), 0),
        ((PASSED, a_result(Verdict.ERROR)), 3),
        ((a_result(Verdict.NOT_APPLICABLE),), 10),
        ((), 5),
    ],
    ids=["passed", "warned", "some-na", "failed", "failed-over-inconclusive", "inconclusive", "should", "error", "all-na", "nothing"],
)
def test_exit_codes(results: tuple[Result, ...], expected: int) -> None:
    assert code(*results) == expected


def test_strict_and_required_make_an_undecided_should_gate() -> None:
    result = a_result(Verdict.INCONCLUSIVE, Level.SHOULD, "OPS-08")
    assert code(PASSED, result, strict=True) == ExitCode.INCONCLUSIVE
    assert code(PASSED, result, required=("OPS-08",)) == ExitCode.INCONCLUSIVE


def test_residue_outranks_everything_and_interruption_keeps_its_code() -> None:
    assert code(a_result(Verdict.FAILED), residue=True) == ExitCode.RESIDUE
    assert code(PASSED, pytest_exit=2) == ExitCode.INTERRUPTED
    assert code(PASSED, pytest_exit=2, residue=True) == ExitCode.RESIDUE
    assert code(PASSED, pytest_exit=3) == ExitCode.INTERNAL_ERROR


def test_a_failure_that_no_result_explains_is_the_suites_own() -> None:
    assert code(PASSED, pytest_exit=1) == ExitCode.INTERNAL_ERROR
    assert code(PASSED, a_result(Verdict.INCONCLUSIVE, Level.SHOULD), pytest_exit=1) == ExitCode.CONFORMANT
    assert code(PASSED, a_result(Verdict.FAILED), pytest_exit=1) == ExitCode.NOT_CONFORMANT


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE])
def test_a_failure_without_a_result_is_excused_by_no_result(verdict: Verdict) -> None:
    assert code(PASSED, a_result(verdict, Level.SHOULD), pytest_exit=1, failures=True) == ExitCode.INTERNAL_ERROR
    assert code(PASSED, a_result(verdict), pytest_exit=2, failures=True) == ExitCode.INTERRUPTED


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASSED])
def test_of_two_results_of_one_requirement_the_worse_counts(verdict: Verdict) -> None:
    other = a_result(verdict)
    assert [worse_of(*pair).verdict for pair in ((PASSED, other), (other, PASSED))] == [verdict, verdict]
    assert worse_of(other, PASSED).message == "judged again, and passed then"
    assert worse_of(PASSED, other).message == "passed before"


def test_a_cluster_that_could_not_be_read_is_inconclusive_and_not_an_empty_selection() -> None:
    assert code(pytest_exit=10) == ExitCode.INCONCLUSIVE


def test_what_fails_without_a_bad_subject_has_a_cause_too() -> None:
    requirement, target = load_catalogue().by_id["FENCE-01"], Target(kind=TargetKind.LIVE)
    state, warned = State(load_catalogue(), Options(require=("FENCE-01",), strict=True), "r1"), Evidence()
    state.opened = OpenTarget(target, None, Policy(), WorkerHandover(target=target, run_id="r1"))
    assert conclude(requirement, Evidence(), NotApplicable("NoNodes", "none"), 0.0, state).cause == "RequiredNotJudged"
    assert conclude(requirement, Evidence(), None, 0.0, state).cause == "RequiredNotJudged"
    warned(advised(Subject("Node", "gpu-0"), observed="x", expected="y", cause="VersionsDifferInPool"))
    found = conclude(requirement, warned, None, 0.0, state)
    assert (found.verdict, found.cause) == (Verdict.FAILED, "")


@pytest.mark.parametrize(("level", "verdict"), [(Level.MUST, Verdict.FAILED), (Level.SHOULD, Verdict.WARNED)])
def test_what_a_check_did_not_come_to_is_reported_beside_what_it_found_bad(level: Level, verdict: Verdict) -> None:
    requirement = msgspec.structs.replace(load_catalogue().by_id["FENCE-01"], level=level)
    target = Target(kind=TargetKind.LIVE)
    state, evidence = State(load_catalogue(), Options(), "r1"), Evidence()
    state.opened = OpenTarget(target, None, Policy(), WorkerHandover(target=target, run_id="r1"))
    evidence(bad(Subject("Node", "gpu-0"), cause="NodeNotFenced", observed="x", expected="y"))
    found = conclude(requirement, evidence, Inconclusive("Forbidden", "no more pods"), 0.0, state)
    assert (found.verdict, found.judged, found.total) == (verdict, 1, 2)
    assert [(one.name, one.verdict, one.message) for one in found.subjects if one.kind == REST.kind] == [
        ("the rest", Verdict.INCONCLUSIVE, "no more pods")
    ]
    cut_off = conclude(requirement, Evidence(), Inconclusive("Forbidden", "no pods"), 0.0, state)
    assert (cut_off.verdict, cut_off.message, cut_off.subjects) == (Verdict.INCONCLUSIVE, "no pods", [])
