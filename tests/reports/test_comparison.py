from __future__ import annotations

from conformance.plugin.baseline import compare_with
from fixtures.verdict.record import Report, Verdict
from reports.diff import gate
from tests.reports.sample_report import report, result, subject


def run_of(*failed: str, passed: tuple[str, ...] = ()) -> Report:
    subjects = [subject(name, Verdict.FAILED, kind="Node", message="no taint") for name in failed]
    subjects += [subject(name, kind="Node") for name in passed]
    return report([result("FENCE-01", Verdict.FAILED if failed else Verdict.PASSED, subjects)])


def test_the_record_says_what_is_new_fixed_and_still_failing() -> None:
    before, after = run_of("a", "b", passed=("c",)), run_of("a", "c", passed=("b",))
    compare_with(before, after, gate.between(before, after, None, None, ()))
    assert after.comparison
    assert after.comparison.run == before.run.id
    assert after.comparison.counts == {"new failure": 1, "still failing": 1, "fixed": 1}
    assert [(one.bucket, one.subject) for one in after.comparison.changes] == [
        ("new failure", "Node c"),
        ("still failing", "Node a"),
        ("fixed", "Node b"),
    ]
    assert [one.gating for one in after.comparison.changes] == [True, False, False]
    assert after.verdict is Verdict.FAILED
