"""Findings and their verdicts; and a canary: some pytest and pytest-xdist ignore ``xdist_group`` in silence (pytest-xdist#1386)."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.plugin.hooks import GROUP
from fixtures.text import limits
from fixtures.verdict.findings import MAX_PASSED_KEPT, Evidence, Finding, Outcome, advised, allowed, bad, missed, not_judged, ok, undecided
from fixtures.verdict.record import Level, Verdict
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

NODE = Subject("Node", "gpu-0")


def judged(*findings: Finding, level: Level = Level.MUST, strict: bool = False, required: bool = False) -> tuple[Verdict, str, int, int]:
    evidence = Evidence()
    evidence(findings)
    judgement = evidence.judgement(level, strict=strict, required=required)
    return judgement.verdict, judgement.reason_code, judgement.judged, judgement.total


def test_nothing_judged_never_passes() -> None:
    assert judged() == (Verdict.NOT_APPLICABLE, "NoSubjects", 0, 0)
    assert judged(not_judged(NODE, message="cordoned")) == (Verdict.NOT_APPLICABLE, "NoSubjects", 0, 1)


def test_nothing_judged_fails_when_the_policy_requires_it() -> None:
    assert judged(required=True)[:2] == (Verdict.FAILED, "RequiredButNothingJudged")


def test_what_is_only_recommended_warns_whatever_the_level_and_hides_nothing_worse() -> None:
    advice = advised(NODE, cause="NodeNotFenced", observed="kernel 6.5", expected="kernel 6.8")
    assert judged(ok(NODE), advice) == (Verdict.WARNED, "Advised", 2, 2)
    assert judged(advice, level=Level.SHOULD)[0] is Verdict.WARNED
    assert judged(advice, strict=True)[0] is Verdict.FAILED
    assert judged(advice, undecided(NODE, message="?"))[0] is Verdict.INCONCLUSIVE
    assert judged(advice, bad(NODE, cause="NodeNotFenced", observed="7", expected="8"))[0] is Verdict.FAILED
    assert judged(advice, allowed(NODE, message="by the policy"))[0] is Verdict.WARNED


def test_a_should_warns_unless_strict_or_required() -> None:
    finding = bad(NODE, cause="NodeNotFenced", observed="x", expected="y")
    assert judged(finding, level=Level.SHOULD)[0] is Verdict.WARNED
    assert judged(finding, level=Level.SHOULD, strict=True)[0] is Verdict.FAILED
    assert judged(finding, level=Level.SHOULD, required=True)[0] is Verdict.FAILED


def test_an_undecided_subject_makes_the_rest_inconclusive() -> None:
    assert judged(ok(NODE), undecided(NODE, message="log unreadable")) == (Verdict.INCONCLUSIVE, "Undecided", 1, 2)


def test_what_the_policy_allows_to_leave_out_waives_and_never_passes() -> None:
    assert judged(ok(NODE), allowed(NODE, message="cordoned")) == (Verdict.WAIVED, "AllowedByPolicy", 1, 2)
    assert judged(allowed(NODE, message="cordoned"), not_judged(NODE, message="vGPU")) == (Verdict.INCONCLUSIVE, "NothingJudged", 0, 2)
    assert judged(allowed(NODE, message="cordoned"), undecided(NODE, message="?"), ok(NODE))[0] is Verdict.INCONCLUSIVE


def test_what_was_missed_fails_and_is_not_judged() -> None:
    assert judged(
        ok(NODE), missed(NODE, cause="NodeNotFenced", observed="cordoned", expected="schedulable"), allowed(NODE, message="busy")
    ) == (
        Verdict.FAILED,
        "NotAllJudged",
        1,
        3,
    )


def test_passed_subjects_are_capped_and_counted() -> None:
    evidence = Evidence()
    evidence(ok(Subject("Pod", f"p{n}", "ns")) for n in range(MAX_PASSED_KEPT + 50))
    judgement = evidence.judgement(Level.MUST)
    assert (judgement.judged, len(judgement.subjects), judgement.subjects_omitted) == (MAX_PASSED_KEPT + 50, MAX_PASSED_KEPT, 50)


@given(st.lists(st.sampled_from(list(Outcome))))
def test_a_pass_always_has_a_good_subject_and_nothing_else_but_not_judged(outcomes: list[Outcome]) -> None:
    verdict, _, count, total = judged(*(Finding(NODE, outcome) for outcome in outcomes))
    assert total == len(outcomes)
    if verdict is Verdict.PASSED:
        assert count > 0
        assert set(outcomes) <= {Outcome.OK, Outcome.NOT_JUDGED}


# -- texts of tenants

LONG = "x" * 900_000


def test_what_a_finding_says_is_cut_and_what_was_left_out_is_counted() -> None:
    evidence = Evidence()
    evidence(bad(Subject("Pod", LONG, "a"), cause="NodeNotFenced", observed=LONG, expected=LONG, source=LONG, message=LONG))
    judgement = evidence.judgement(Level.MUST)
    [one] = judgement.subjects
    assert max(map(len, (one.name, one.observed, one.expected, one.source, one.message))) < limits.FINDING_CHARACTERS + 100
    assert f"{900_000 - limits.FINDING_CHARACTERS} more characters" in one.message
    assert len(judgement.message) < 6_000


def test_long_names_that_begin_alike_stay_two_subjects() -> None:
    evidence = Evidence()
    evidence(bad(Subject("Pod", LONG + end), cause="NodeNotFenced", observed="1", expected="2") for end in ("a", "b"))
    first, second = evidence.judgement(Level.MUST).subjects
    assert first.name != second.name


def test_why_a_requirement_ended_is_cut_too() -> None:
    for kind in (NotApplicable, Inconclusive):
        assert len(kind("Code", LONG).message) < limits.FINDING_CHARACTERS + 100


MODULE = f'''
import pathlib
import pytest

@pytest.mark.parametrize("number", range(6))
@pytest.mark.xdist_group("{GROUP}")
def test_grouped(number, worker_id):
    pathlib.Path("seen", f"{{number}}-{{worker_id}}").touch()
'''


@pytest.mark.test_all
def test_a_group_stays_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "test_canary.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    command += ["-n", "3", "--dist", "loadgroup", "test_canary.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [path.name.partition("-") for path in (tmp_path / "seen").iterdir()]
    assert len(seen) == 6
    assert len({worker for _, _, worker in seen}) == 1
