"""API trouble during a run is retried, or makes what depends on it inconclusive; it never passes or fails anything."""

from pathlib import Path

import pytest

from fixtures.verdict.record import Verdict
from tests.endtoend.runs import Finished, run_for_record
from tests.simulated import simulated
from tests.troubles import Trouble

pytestmark = pytest.mark.test_all


PROBES = "fence or req or psa or iso or obs"


def probed_under(folder: Path, *troubles: Trouble) -> Finished:
    """Requirements that create things, judged while the API troubles the suite (and not the cluster's own programs)."""
    policy = folder / "policy.yaml"
    policy.write_text("probes: {windowSeconds: 1, startSeconds: 20}\n")
    with simulated(folder, "healthy", *troubles) as kubeconfig:
        return run_for_record(folder, "--kubeconfig", str(kubeconfig), "--policy", str(policy), "-k", PROBES)


@pytest.mark.parametrize(
    "troubles",
    [
        (Trouble("watch", "pods", "drop", 4),),
        (Trouble("watch", "pods", 410, 3),),
        (Trouble("create", "pods", 429, 3, 0), Trouble("list", "pods", 500, 2)),
        (Trouble("delete", "pods", 429, 2, 0), Trouble("get", "pods", 503, 2)),
    ],
    ids=["dropped watches", "expired watches", "throttled", "unavailable"],
)
def test_probes_ride_out_passing_trouble(tmp_path: Path, troubles: tuple[Trouble, ...]) -> None:
    done = probed_under(tmp_path, *troubles)
    assert done.code == 0, done.output
    assert done.result("FENCE-05").verdict is Verdict.PASSED


@pytest.mark.parametrize("status", [403, 500], ids=str)
def test_probes_that_may_not_create_pods_are_inconclusive(tmp_path: Path, status: int) -> None:
    done = probed_under(tmp_path, Trouble("create", "pods", status, 10_000))
    verdicts = {result.id: result.verdict for result in done.record.results}
    assert {verdicts[id_] for id_ in ("FENCE-05", "FENCE-06", "PSA-04", "ISO-01", "OBS-06")} == {Verdict.INCONCLUSIVE}, done.output
    assert Verdict.ERROR not in verdicts.values()
    assert [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED] == []
    assert done.record.residue == []
    assert done.code == 10, done.output
