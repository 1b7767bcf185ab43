"""Probes of a run with workers: one worker has them all, or they wait for each other."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.endtoend.runs import Finished, run_for_record

pytestmark = pytest.mark.test_all

ASKED = ("--simulate", "healthy", "--only", "ISO,REQ")
PROBES = {
    "test_a_pod_sees_exactly_the_devices_it_asked_for",
    "test_a_pod_that_asked_for_nothing_sees_no_device",
    "test_pods_that_run_together_hold_different_devices",
    "test_a_quota_on_devices_is_enforced",
    "test_the_api_refuses_malformed_device_amounts_and_copies_limits",
}
TOLD = "gives probes to several workers"


def judged(folder: Path, *options: str) -> tuple[Finished, dict[str, list[tuple[float, float]]]]:
    """The run, and by worker when its probes began and ended. Each probe is judged."""
    done = run_for_record(folder, *ASKED, "-p", "tests.endtoend.workers_shown", "-n", "2", *options)
    assert done.code == 0, done.output
    spans: dict[str, list[tuple[float, float]]] = {}
    names = set()
    for line in (folder / "workers.txt").read_text(encoding="utf-8").splitlines():
        name, worker, start, stop = line.split()
        if name in PROBES:
            names.add(name)
            spans.setdefault(worker, []).append((float(start), float(stop)))
    assert names == PROBES
    return done, spans


@pytest.mark.parametrize("options", [(), ("--dist", "load"), ("--dist", "loadgroup")], ids=["alone", "load", "loadgroup"])
def test_one_worker_has_all_probes(tmp_path: Path, options: tuple[str, ...]) -> None:
    done, spans = judged(tmp_path, *options)
    assert len(spans) == 1
    assert TOLD not in done.output


def test_a_dist_that_spreads_probes_is_kept_and_told_and_they_wait_for_each_other(tmp_path: Path) -> None:
    done, spans = judged(tmp_path, "--dist", "each")
    assert f"--dist each {TOLD}" in done.output
    assert len(spans) == 2
    for (_, one), (_, other) in combinations(spans.items(), 2):
        assert not [(a, b) for a in one for b in other if a[0] < b[1] and b[0] < a[1]]


def test_a_dist_that_spreads_only_readers_is_nothing_to_tell(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--only", "FENCE", "--read-only", "-n", "2", "--dist", "worksteal")
    assert done.code == 0, done.output
    assert TOLD not in done.output
