"""``--waivers`` in whole runs: over workers, over probes in a wave, and with files that cannot be used."""

from pathlib import Path

import pytest
import yaml

from fixtures.verdict.record import Verdict, WaiverState
from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

UNFENCED = ("--simulate", "healthy,fence-untainted-gpu-node", "--only", "FENCE-01")


def waivers(folder: Path, *subjects: str, expires: str = "2999-12-31", requirement: str = "FENCE-01") -> tuple[str, str]:
    path = folder / "waivers.yaml"
    entry = {"requirement": requirement, "subjects": list(subjects), "reason": "known", "owner": "team-a", "expires": expires}
    path.write_text(yaml.safe_dump({"waivers": [entry]}))
    return "--waivers", str(path)


def last_line(done: Finished) -> str:
    return done.output.rstrip().splitlines()[-1]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_waived_failure_passes_and_stays_visible(tmp_path: Path, workers: str) -> None:
    failed = run_for_record(tmp_path, *UNFENCED, "-n", workers)
    assert failed.code == 1, failed.output
    bad = next(one for one in failed.result("FENCE-01").subjects if one.verdict is Verdict.FAILED)
    done = run_for_record(tmp_path, *UNFENCED, "-n", workers, *waivers(tmp_path, f"Node {bad.name}"))
    assert done.code == 0, done.output
    assert done.record.verdict is Verdict.WAIVED
    assert [(one.state, one.waived) for one in done.record.waivers] == [(WaiverState.USED, 1)]
    assert "waived until 2999-12-31 by team-a: known" in " ".join(done.output.replace("|", " ").split())
    assert last_line(done).startswith("PASSED WITH WAIVERS WITHIN THE SELECTION")


def test_a_probe_in_a_wave_is_waived(tmp_path: Path) -> None:
    run = ("--simulate", "healthy,psa-toolkit-needs-root", "--only", "PSA-03,PSA-04,ISO-01", "-n0")
    assert run_for_record(tmp_path, *run).result("PSA-04").verdict is Verdict.FAILED
    done = run_for_record(tmp_path, *run, *waivers(tmp_path, "*", requirement="PSA-04"))
    assert done.result("PSA-04").verdict is Verdict.WAIVED, done.output
    assert [one.state for one in done.record.waivers] == [WaiverState.USED]
