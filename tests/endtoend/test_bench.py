"""The bench measures what it says, on a fleet small enough for every run; its figures come from ``make bench``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endtoend.runs import ROOT, environment
from tests.kubectl import needs_kubectl

pytestmark = pytest.mark.test_all


@needs_kubectl
def test_the_bench_compares_both_readers_on_the_same_objects(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    command = [sys.executable, "-m", "tests.bench.bench", "--nodes", "20", "--rounds", "1", "--pod-start", "2", "--out", str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=200, check=False)
    assert file.is_file(), done.stdout + done.stderr
    found = json.loads(file.read_bytes())
    (size,), run = found["sizes"], found["fullRun"]
    assert set(size) >= {"nodes", "pods", "suiteSeconds", "kubectlSeconds", "ratio", "cpuRatio", "peakRssMiB", "requests"}
    assert size["nodes"] >= 20
    assert size["pods"] >= 200
    assert size["ratio"] == pytest.approx(size["suiteSeconds"] / size["kubectlSeconds"], rel=0.05)
    assert 0 < size["requests"] < 80
    assert 0 < size["cpuRatio"] == pytest.approx(size["suiteCpuSeconds"] / size["kubectlCpuSeconds"], rel=0.05)
    assert run["podStartSeconds"] == 2
    assert run["seconds"] > 2
    assert run["judged"] > 50
