"""The embedded cluster as a process: it starts in time, stock clients read it, and it never outlives who started it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.simulator.config.scenario import ScenarioError
from fixtures.simulator.process import child
from fixtures.simulator.process.child import ROOT, EmbeddedCluster, ForkedSimulator
from fixtures.simulator.running_cluster import StartError
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start("healthy", tmp_path_factory.mktemp("healthy")) as cluster:
        yield cluster


def get(cluster: EmbeddedCluster, path: str) -> dict[str, object]:
    with urllib.request.urlopen(cluster.server + path, timeout=PATIENCE) as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


def gone(pid: int, seconds: float = PATIENCE) -> bool:
    """Whether a process that is not our child ends within ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_what_the_plugin_needs(healthy: EmbeddedCluster) -> None:
    assert healthy.kubeconfig.stat().st_mode & 0o777 == 0o600
    config = json.loads(healthy.kubeconfig.read_text())
    assert len({user["user"]["token"] for user in config["users"]}) == 2


def test_the_command_line_says_one_line_and_exits_4() -> None:
    command = [sys.executable, "-m", "fixtures.simulator", "healthy:nodes=3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "scenario 'healthy' does not scale: nodes= is for scenarios like 'fleet'\n"


@pytest.fixture(params=["python", "fork", "forkserver"])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """All ways to start it, and what its process is then."""
    monkeypatch.delenv(child.PREPARED, raising=False)
    if request.param == "python":
        return subprocess.Popen
    monkeypatch.setenv(child.PREPARED, f"{os.getpid()} {request.param}")
    return ForkedSimulator


def test_it_is_forked_where_that_was_prepared_only(started: type, tmp_path: Path) -> None:
    with EmbeddedCluster.start("amd", tmp_path) as cluster:
        assert isinstance(cluster.process, started)
        assert os.getsid(cluster.process.pid) == cluster.process.pid
        assert get(cluster, "/api/v1/nodes")["items"]
    asked = subprocess.run(
        [sys.executable, "-c", "from fixtures.simulator.process import child; print(child.prepared())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert asked.stdout == "None\n", "a child of one that was prepared"


@pytest.mark.usefixtures("started")
def test_a_process_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="was not ready after 0 s"):
        EmbeddedCluster.start("healthy", tmp_path, ready_seconds=0.01)


@pytest.mark.usefixtures("started")
def test_one_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").mkdir()
    with pytest.raises(ScenarioError, match="Is a directory"):
        EmbeddedCluster.start("amd", tmp_path)


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    cluster = EmbeddedCluster.start("amd", tmp_path)
    cluster.process.send_signal(number)
    assert cluster.process.wait(timeout=PATIENCE) == 0
    cluster.stop()


@pytest.mark.parametrize("method", ["", "fork", "forkserver"])
def test_it_does_not_outlive_who_started_it(method: str, tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from fixtures.simulator.process import child\n"
        f"{method and f'child.prepare_forks({method!r})'}\n"
        "from fixtures.simulator.process.child import EmbeddedCluster\n"
        f"cluster = EmbeddedCluster.start('amd', pathlib.Path({str(tmp_path)!r}))\n"
        "print(cluster.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))
