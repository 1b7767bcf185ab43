"""Real processes. ``GPU_CONFORMANCE_LOCAL_STARTS`` sets how many starts and stops in a row are tried (20 in a thorough run)."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.components import HOST
from fixtures.localcluster.control_plane.control_plane import ControlPlane, LocalClusterError
from fixtures.localcluster.control_plane.processes import Identity, Record, Running, alive
from fixtures.localcluster.install.release import Binaries, BinariesMissing, find, minors
from tests.simulator.localcluster.fakes import fake_set

pytestmark = pytest.mark.test_all

ROOT = Path(__file__).resolve().parents[3]
STARTS = int(os.environ.get("GPU_CONFORMANCE_LOCAL_STARTS") or 3)

KILLED_RUN = """
import sys
from pathlib import Path
from fixtures.localcluster.install.release import find
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.control_plane.processes import Running
plane = ControlPlane.start(sys.argv[1], running=Running(Path(sys.argv[2])))
print(plane.layout.port, plane.folder, flush=True)
sys.stdin.read()
"""


def binaries_of(minor: str) -> Binaries:
    try:
        return find(minor)
    except BinariesMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    return binaries_of(minors()[0])


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "running")


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def identities(running: Running) -> list[Identity]:
    return [
        identity for path in running.folder.glob("*.json") for identity in msgspec.json.decode(path.read_bytes(), type=Record).processes
    ]


def answers(plane: ControlPlane, binaries: Binaries) -> Cluster:
    """Its client, once it has shown that it is a whole control plane of that version."""
    cluster = Cluster.from_kubeconfig(plane.kubeconfig)
    assert cluster.probe() == plane.version == binaries.version
    assert plane.gang_api
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}).status == 201
    rejected = cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Tenant"}})
    assert (rejected.status, rejected.reason) == (422, "Invalid")
    assert cluster.get("serviceaccounts", "default", "default").status == 200
    return cluster


@pytest.mark.parametrize("minor", minors()[1:])
def test_a_control_plane_of_an_older_minor_answers_with_its_version(minor: str, running: Running, tmp_path: Path) -> None:
    binaries = binaries_of(minor)
    with ControlPlane.start(minor, tmp_path / "run", binaries=binaries, running=running) as plane:
        answers(plane, binaries)
        assert plane.folder.parent == tmp_path / "run"
    assert not plane.folder.exists()


def test_two_of_the_newest_minor_at_once_answer_with_its_version_and_do_not_meet(
    binaries: Binaries, running: Running, tmp_path: Path
) -> None:
    folders = tmp_path / "first", tmp_path / "second"
    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(ControlPlane.start, binaries.minor, folder, binaries=binaries, running=running) for folder in folders]
        first, second = (start.result() for start in starts)
    with first, second:
        assert first.server != second.server
        assert (first.folder.parent, second.folder.parent) == folders
        here, there = (answers(plane, binaries) for plane in (first, second))
        name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}}
        assert here.create("namespaces", name).status == 201
        assert there.get("namespaces", "only-here").status == 404
    assert not first.folder.exists()
    assert not second.folder.exists()


def test_starts_and_stops_in_a_row_leave_nothing_nor_does_a_run_killed_before_them(binaries: Binaries, running: Running) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN, binaries.minor, str(running.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    port, folder = run.stdout.readline().split()
    killed = identities(running)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert len(killed) == 4
    assert all(alive(identity) for identity in killed), "the processes outlive the run that was killed"
    assert listens(int(port))
    for _ in range(STARTS):
        with ControlPlane.start(binaries=binaries, running=running) as plane:
            assert not [identity for identity in killed if alive(identity)]
            assert plane.layout.port == int(port) or not listens(int(port))
            assert not Path(folder).exists()
            left = identities(running)
            assert len(left) == 4
            assert all(alive(identity) for identity in left)
            plane.stop()
        assert not [identity for identity in left if alive(identity)]
        assert not listens(plane.layout.port)
        assert not plane.folder.exists()
        assert list(running.folder.iterdir()) == []


def test_a_run_killed_while_it_starts_leaves_nothing(binaries: Binaries, running: Running) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN, binaries.minor, str(running.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    while not identities(running):
        assert run.poll() is None
    left = identities(running)
    run.kill()
    run.communicate()
    assert len(running.reap_stale()) == 1
    assert not [identity for identity in left if alive(identity)]
    assert list(running.folder.iterdir()) == []


def test_a_component_that_fails_is_named_and_nothing_is_left(running: Running, tmp_path: Path) -> None:
    folder = fake_set(tmp_path / "bin")
    with pytest.raises(LocalClusterError, match=r"^local control plane of \S+ v1\.37\.2: kube-apiserver ended with exit status 0; its"):
        ControlPlane.start("1.37", tmp_path / "run", folder, running=running)
    assert list(running.folder.iterdir()) == []
    assert not (tmp_path / "run/control-plane").exists()
