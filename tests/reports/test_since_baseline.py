"""UPG-05: the later of two runs says of itself what is worse, what is as bad as before and what is better."""

import pytest

from conformance.plugin.baseline import compare_with
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Coverage, Level, Report, Result, SubjectResult, Verdict
from reports.diff import gate, runs
from reports.diff.since_baseline import Since, since_baseline
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import report, result, subject

OK, BAD, SILENT, UNSURE = Verdict.PASSED, Verdict.FAILED, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE
PENDING = result("UPG-05", SILENT, [])


def a_run(**verdicts: Verdict) -> Report:
    """A run that judged one node by each requirement: ``ADV_01=OK``."""
    return report([_judged(name.replace("_", "-"), verdict) for name, verdict in verdicts.items()])


def _judged(id_: str, verdict: Verdict) -> Result:
    return result(id_, verdict, [subject("a", verdict, kind="Node")] if verdict in (OK, BAD) else [])


def compared(before: Report, after: Report, *accepted: str, old: ChaosReport | None = None, new: ChaosReport | None = None) -> Result:
    return since_baseline(PENDING, before, after, gate.between(before, after, old, new, accepted)).result


def by_name(found: Result) -> dict[str, Verdict]:
    return {one.name: one.verdict for one in found.subjects}


def test_new_still_failing_fixed_and_lost_requirements_are_named() -> None:
    before = a_run(ADV_01=OK, ADV_02=BAD, ADV_03=BAD, NET_01=OK, NET_02=SILENT)
    after = a_run(ADV_01=BAD, ADV_02=BAD, ADV_03=OK, NET_01=SILENT, NET_02=SILENT)
    found = compared(before, after)
    assert (found.verdict, found.reason_code, found.judged, found.total) == (BAD, "WorseThanBaseline", 4, 5)
    assert by_name(found) == {"ADV-01": BAD, "NET-01": BAD, "ADV-02": OK, "ADV-03": OK, "NET-02": SILENT}
    stated = found.message.partition(": ")[2]
    assert stated == "new failures: ADV-01; no longer judged: NET-01; still failing: ADV-02; fixed: ADV-03"
    worst = found.subjects[0]
    assert (worst.observed, worst.expected) == ("failed", "no worse than in the baseline (passed)")
    assert worst.message == "new failure: Node a"


@pytest.mark.parametrize("id_", ["REQ_03", "DRA_07", "DRA_11"])
def test_a_stranded_allocation_fails_even_if_it_was_there_before(id_: str) -> None:
    found = compared(a_run(ADV_01=OK, **{id_: BAD}), a_run(ADV_01=OK, **{id_: BAD}))
    assert by_name(found)[id_.replace("_", "-")] is BAD
    assert found.verdict is BAD


def test_what_became_undecided_is_inconclusive_and_a_loss_may_be_accepted() -> None:
    assert compared(a_run(ADV_01=OK, NET_01=OK), a_run(ADV_01=OK, NET_01=UNSURE)).verdict is UNSURE
    before, after = a_run(ADV_01=OK, NET_01=OK), a_run(ADV_01=OK, NET_01=SILENT)
    assert compared(before, after).verdict is BAD
    assert compared(before, after, "NET").verdict is OK


def test_a_baseline_that_was_cut_short_proves_nothing() -> None:
    before = a_run(ADV_01=OK)
    before.exit_code = 2
    found = compared(before, a_run(ADV_01=OK))
    assert (found.verdict, found.reason_code) == (UNSURE, "BaselineCutShort")
    assert "it was interrupted" in found.message
    assert compared(before, a_run(ADV_01=BAD)).verdict is BAD


def test_runs_with_nothing_in_common_are_never_as_good_as_each_other() -> None:
    old, new = a_run(ADV_01=OK), a_run(NET_01=OK)
    old.scope, new.scope = Coverage(requirements=1, judged=1), Coverage(requirements=1, judged=1)
    found = compared(old, new)
    assert (found.verdict, found.reason_code) == (UNSURE, "NothingCompared")


def held(seconds: float) -> ChaosReport:
    return chaos(experiment(recovery_seconds=seconds, recovery_uncertainty=0.5))


def test_an_experiment_that_recovers_more_slowly_is_worse() -> None:
    run = a_run(ADV_01=OK)
    found = compared(run, run, old=held(4), new=held(9))
    assert (found.verdict, by_name(found)["A1"]) == (BAD, BAD)
    assert found.message.endswith("experiments that are worse: A1")
    assert compared(run, run, old=held(4), new=held(4.5)).verdict is OK
    assert compared(run, run, old=held(4), new=None).verdict is OK  # this run is not about experiments


def test_a_baseline_of_another_cluster_proves_nothing_unless_it_is_meant_to() -> None:
    before, after = a_run(ADV_01=OK), a_run(ADV_01=BAD)
    after.target.cluster_uid = "another"
    found = compared(before, after)
    assert (found.verdict, found.reason_code, found.subjects) == (UNSURE, "AnotherCluster", [])
    assert found.message.startswith("the reports are about two clusters")
    assert "--another-cluster" in found.message
    assert runs.regressions(gate.between(before, after, None, None, ())) == []
    meant = gate.between(before, after, None, None, (), another_cluster=True)
    assert "of another cluster: " in since_baseline(PENDING, before, after, meant).result.message
    assert [change.gating for change in runs.regressions(meant)] == [True]


@pytest.mark.parametrize("meant", [False, True])
@pytest.mark.parametrize("which", ["earlier", "later"])
def test_a_run_that_ended_at_another_cluster_proves_nothing(which: str, meant: bool) -> None:
    before, after = a_run(ADV_01=OK), a_run(ADV_01=BAD)
    (before if which == "earlier" else after).other_cluster_uid = "other"
    difference = gate.between(before, after, None, None, (), another_cluster=meant)
    assert runs.regressions(difference) == []
    found = since_baseline(PENDING, before, after, difference).result
    assert (found.verdict, found.reason_code) == (UNSURE, "AnotherCluster")
    assert found.message.startswith(f"the {which} run ended at another cluster")
    assert "--another-cluster" not in found.message


def test_a_comparison_is_no_part_of_another_comparison() -> None:
    before, after = a_run(ADV_01=BAD), a_run(ADV_01=OK)
    before.results.append(result("UPG-05", BAD, [subject("ADV-01", BAD, kind="Requirement")]))
    after.results.append(result("UPG-05", BAD, [subject("ADV-01", BAD, kind="Requirement")], level=Level.MUST))
    assert [change.requirement for change in runs.compare(before, after).changes] == ["ADV-01"]
    assert by_name(compared(before, after)) == {"ADV-01": OK}


def waived(before: Report, after: Report, *names: str, old: ChaosReport | None = None, new: ChaosReport | None = None) -> Since:
    def words(one: SubjectResult) -> str:
        return "waived until 2027-01-31 by team-a: known" if f"{one.kind} {one.name}" in names else ""

    return since_baseline(PENDING, before, after, gate.between(before, after, old, new, ()), words)


def test_a_waiver_of_the_comparison_covers_what_is_worse() -> None:
    before, after = a_run(ADV_01=OK, NET_01=OK, REQ_01=OK), a_run(ADV_01=BAD, NET_01=SILENT, REQ_01=OK)
    one = waived(before, after, "Requirement NET-01")
    assert (one.result.verdict, by_name(one.result)["NET-01"], by_name(one.result)["ADV-01"]) == (BAD, Verdict.WAIVED, BAD)
    assert [change.requirement for change in runs.regressions(one.difference) if isinstance(change, runs.Change)] == ["ADV-01"]
    both = waived(before, after, "Requirement NET-01", "Requirement ADV-01")
    assert (both.result.verdict, both.result.reason_code) == (Verdict.WAIVED, "Waived")
    assert runs.regressions(both.difference) == []
    assert all(one.message.endswith("(waived until 2027-01-31 by team-a: known)") for one in both.result.subjects[:2])


def test_a_waiver_of_the_comparison_never_covers_what_is_good_or_undecided() -> None:
    before, after = a_run(ADV_01=OK, NET_01=OK), a_run(ADV_01=OK, NET_01=UNSURE)
    found = waived(before, after, "Requirement ADV-01", "Requirement NET-01")
    assert found.result.verdict is UNSURE
    assert by_name(found.result) == {"NET-01": UNSURE, "ADV-01": OK}
    assert len(runs.regressions(found.difference)) == 1


def test_a_waiver_of_the_comparison_covers_an_experiment() -> None:
    found = waived(a_run(ADV_01=OK), a_run(ADV_01=OK), "Experiment A1", old=held(4), new=held(9))
    assert (found.result.verdict, runs.regressions(found.difference)) == (Verdict.WAIVED, [])


def test_the_record_says_what_is_new_fixed_and_still_failing() -> None:
    def run_of(**nodes: Verdict) -> Report:
        subjects = [subject(name, verdict, kind="Node") for name, verdict in nodes.items()]
        return report([result("FENCE-01", BAD, subjects)])

    before, after = run_of(a=BAD, b=BAD, c=OK), run_of(a=BAD, b=OK, c=BAD)
    compare_with(before, after, gate.between(before, after, None, None, ()))
    held = after.comparison
    assert held
    assert (held.run, held.counts) == (before.run.id, {"new failure": 1, "still failing": 1, "fixed": 1})
    changes = [(one.bucket, one.subject, one.gating) for one in held.changes]
    assert changes == [("new failure", "Node c", True), ("still failing", "Node a", False), ("fixed", "Node b", False)]
    assert after.verdict is BAD
