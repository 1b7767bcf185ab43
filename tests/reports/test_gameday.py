"""The record of experiments over several runs."""

import msgspec

from fixtures.verdict.chaos_record import ChaosFinding, ChaosReport, ChaosResult
from fixtures.verdict.record import Verdict
from reports.merge.gameday import game_days
from tests.reports.chaos_samples import chaos, experiment


def run(number: int, *experiments: ChaosResult) -> ChaosReport:
    report = chaos(*experiments)
    begun = msgspec.structs.replace(report.run, id=f"r{number}", started_at=f"2026-01-0{number}T00:00:00+00:00")
    return msgspec.structs.replace(report, run=begun)


def recovered(seconds: float) -> ChaosResult:
    return experiment(recovery_seconds=seconds)


def shown(by: str, seconds: float) -> ChaosFinding:
    return ChaosFinding(name=f"detected by {by}", verdict=Verdict.PASSED, seconds=seconds)


def test_times_to_recovery_over_runs_in_the_order_of_the_runs() -> None:
    (day,) = game_days([run(3, recovered(9.0)), run(1, recovered(3.0)), run(2, recovered(4.0)), run(2, recovered(4.0))])
    assert (day.runs, day.score) == (3, 100)
    found = day.experiments[0].recoveries
    assert found is not None
    assert (found.count, found.median, found.worst, found.last, found.trend, found.bound) == (3, 4.0, 9.0, 9.0, "slower", 30.0)
    assert "It recovered in 3 runs: median 4.00 s, worst 9.00 s, last 9.00 s, slower than the run before, bound 30 s." in (
        day.experiments[0].sentences
    )


def test_a_difference_within_the_uncertainty_is_none() -> None:
    (day,) = game_days([run(1, recovered(8.0)), run(2, recovered(8.4))])
    found = day.experiments[0].recoveries
    assert found is not None
    assert found.trend == "steady"


def test_who_showed_the_fault_and_after_how_long() -> None:
    first = experiment(findings=[shown("the exporter's metrics", 6.0), shown("a condition of the node", 5.0)])
    second = experiment(findings=[shown("the exporter's metrics", 4.5)])
    (day,) = game_days([run(1, first), run(2, second)])
    found = [(one.by, one.count, one.median) for one in day.experiments[0].detections]
    assert found == [("a condition of the node", 1, 1.0), ("the exporter's metrics", 2, 1.25)]
    shown_by = "The fault was shown by a condition of the node after 1.00 s in 1 run; the exporter's metrics after 1.25 s in 2 runs."
    assert shown_by in day.experiments[0].sentences


def test_the_advice_follows_from_the_last_run() -> None:
    broken = ChaosFinding(name="recovery", verdict=Verdict.FAILED, reason_code="SteadyStateLost", message="it did not come back")
    failed = experiment(Verdict.FAILED, id="A2", findings=[broken], recovery_seconds=None, residue=["node a"])
    silent = experiment(undo=["pods.replaced"], recovery_seconds=29.0)
    (day,) = game_days([run(1, failed, silent, experiment(Verdict.NOT_APPLICABLE, id="A3"))])
    assert day.score == 50
    assert [one.id for one in day.experiments] == ["A1", "A2"]
    close, nobody = day.experiments[0].advice
    assert "close to its bound" in close
    assert "--detect-if" in nobody
    left, repair = day.experiments[1].advice
    assert "chaos recover" in left
    assert repair == "repair this, and carry it out again: recovery [SteadyStateLost]: it did not come back"


def test_runs_without_a_judged_experiment_have_no_score() -> None:
    (day,) = game_days([run(1, experiment(Verdict.NOT_APPLICABLE))])
    assert (day.score, day.experiments) == (None, [])
