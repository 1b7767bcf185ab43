"""API trouble during a run is retried, or makes what depends on it inconclusive; it never passes or fails anything."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.record import Verdict
from fixtures.simulator.assembly import initial_objects
from fixtures.simulator.scenario import load_scenario
from fixtures.simulator.server.troubles import Trouble
from tests.endtoend.runs import Finished, run_suite
from tests.served import served


def judged_under(folder: Path, *troubles: Trouble) -> Finished:
    objects = initial_objects(load_scenario("healthy"), [], datetime.now(UTC))
    with served(folder, objects, troubles) as (cluster, _):
        del cluster
        return run_suite(folder, "--kubeconfig", str(folder / "kubeconfig"), "--read-only")


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("list", "pods", 429, 2, 0),
        Trouble("list", "nodes", 500, 2),
        Trouble("list", "apps/daemonsets", "drop", 1),
        Trouble("list", "pods", 503, 1),
    ],
    ids=["429", "500", "drop", "503"],
)
def test_passing_trouble_changes_no_verdict(tmp_path: Path, trouble: Trouble) -> None:
    done = judged_under(tmp_path, trouble)
    assert done.code == 0, done.output


@pytest.mark.parametrize("status", [403, 500, 429], ids=str)
def test_lasting_trouble_with_pods_makes_what_reads_them_inconclusive(tmp_path: Path, status: int) -> None:
    done = judged_under(tmp_path, Trouble("list", "pods", status, 10_000, 0 if status == 429 else None))
    assert done.report is not None, done.output
    verdicts = {result.id: result.verdict for result in done.report.results}
    assert verdicts["FENCE-02"] is Verdict.INCONCLUSIVE
    assert verdicts["REQ-03"] is Verdict.INCONCLUSIVE
    assert verdicts["FENCE-01"] is Verdict.PASSED
    assert Verdict.FAILED not in verdicts.values()
    assert Verdict.ERROR not in verdicts.values()
    assert done.code == 10, done.output
    assert "Traceback" not in done.output
