import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.plugin.opening import open_target
from conformance.plugin.options import Options
from fixtures.localcluster.control_plane.processes import (
    FOLDER_MARK,
    GARBAGE_PERCENT,
    MARK,
    Identity,
    Process,
    ProcessFailed,
    Record,
    Running,
    alive,
    end,
    identity_of,
    marked,
)
from fixtures.simulator.config.scenario import ScenarioError
from tests.simulator.localcluster.fakes import sleeper
from tests.watching import PATIENCE

NOBODY = Identity(2**22 + 17, "another boot:1")


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "running")


@pytest.fixture
def victims() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def abandoned(running: Running, folder: Path, processes: list[Identity]) -> Record:
    """What a killed run leaves: a record whose owner is gone."""
    claimed = running.claim(folder)
    record = Record(id=claimed.id, folder=claimed.folder, owner=NOBODY, processes=processes)
    running.write(record)
    return record


def identity(process: subprocess.Popen[str]) -> Identity:
    found = identity_of(process.pid)
    assert found is not None
    return found


def test_what_a_killed_run_left_is_ended_and_removed(running: Running, tmp_path: Path, victims: list[subprocess.Popen[str]]) -> None:
    victims += [sleeper(), sleeper()]
    folder = tmp_path / "gpu-conformance-killed/control-plane"
    abandoned(running, folder, [identity(process) for process in victims])
    (folder / "etcd/member").mkdir(parents=True)
    (folder / "etcd/member/wal").write_text("data")
    assert running.reap_stale() == [str(folder)]
    assert [process.wait(PATIENCE) for process in victims] == [-15, -15]
    assert not folder.parent.exists(), "the run's temporary folder goes when nothing else is in it"
    assert list(running.folder.iterdir()) == []
    assert running.reap_stale() == []


def test_a_process_that_ignores_sigterm_is_killed(victims: list[subprocess.Popen[str]]) -> None:
    victims.append(sleeper(stubborn=True))
    assert end(identity(victims[0]), 0.2)
    assert victims[0].wait(PATIENCE) == -9


def test_a_process_that_was_started_but_not_recorded_is_found_by_its_mark(
    running: Running, tmp_path: Path, victims: list[subprocess.Popen[str]]
) -> None:
    record = abandoned(running, tmp_path / "plane", [])
    victims.append(sleeper(environment={**os.environ, MARK: record.id}))
    victims.append(sleeper(environment={**os.environ, MARK: record.id + "0"}))
    assert [found.pid for found in marked(record.id)] == [victims[0].pid]
    running.reap_stale()
    assert victims[0].wait(PATIENCE) == -15
    assert victims[1].poll() is None, "another control plane's process is left alone"


def test_a_control_plane_whose_owner_runs_is_left_alone(running: Running, tmp_path: Path, victims: list[subprocess.Popen[str]]) -> None:
    victims.append(sleeper())
    record = running.claim(tmp_path / "plane")
    record.processes.append(identity(victims[0]))
    running.write(record)
    assert running.reap_stale() == []
    assert victims[0].poll() is None
    assert (tmp_path / "plane" / FOLDER_MARK).read_text() == record.id
    running.forget(record)
    assert not (tmp_path / "plane").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": "x"}', b'{"id":"other","folder":"/","owner":[1,"x"],"processes":[]}'])
def test_a_record_that_cannot_be_read_removes_nothing(running: Running, tmp_path: Path, content: bytes) -> None:
    running.folder.mkdir()
    (running.folder / "x.json").write_bytes(content)
    keep = tmp_path / "keep"
    keep.mkdir()
    assert running.reap_stale() == []
    assert keep.is_dir()


def test_a_folder_without_the_mark_is_never_removed(running: Running, tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    abandoned(running, folder, [])
    (folder / FOLDER_MARK).write_text("another id")
    (folder / "precious").write_text("data")
    running.reap_stale()
    assert (folder / "precious").read_text() == "data"


def test_a_claimed_folder_must_be_new_and_is_private(running: Running, tmp_path: Path) -> None:
    record = running.claim(tmp_path / "plane")
    assert (tmp_path / "plane").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        running.claim(tmp_path / "plane")
    running.forget(record)


def test_a_runs_temporary_folder_is_made_with_its_record(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed before it starts a process leaves nothing that no later start removes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def start(minor: str, scenario: str, folder: Path, *_: object, **__: object) -> None:
        assert list(tmp_path.iterdir()) == []
        running.claim(folder / "control-plane")
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        raise ScenarioError("killed here")

    monkeypatch.setattr("conformance.plugin.opening.localcluster.start", start)
    with pytest.raises(pytest.UsageError, match="killed here"):
        open_target(Options(local="1.37"), "run")
    assert list(tmp_path.glob("gpu-conformance-*")) == []


def test_an_ended_process_has_no_identity() -> None:
    process = sleeper()
    process.kill()
    deadline = time.monotonic() + 60
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and still to be collected
    assert identity_of(process.pid) is None
    process.communicate()
    assert identity_of(process.pid) is None
    assert not alive(NOBODY)
    assert end(NOBODY, 0.1)
    assert time.monotonic() < deadline


def test_a_component_that_cannot_be_run_or_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match=r"^etcd: /none/etcd cannot be run: No such file or directory$"):
        Process.start("etcd", ["/none/etcd"], tmp_path, "mark")
    process = Process.start("etcd", [sys.executable, "-c", "print('disk \\x1b[31mfull'); raise SystemExit(7)"], tmp_path, "mark")
    with pytest.raises(ProcessFailed, match=r"^etcd ended with exit status 7; its last words:\ndisk \[31mfull$"):
        process.until(lambda: False, PATIENCE)


def test_a_component_that_is_not_ready_in_time_is_named(tmp_path: Path) -> None:
    process = Process.start("etcd", [sys.executable, "-c", "import signal; signal.pause()"], tmp_path, "mark")
    try:
        with pytest.raises(ProcessFailed, match=r"^etcd was not ready after 0 s"):
            process.until(lambda: False, 0.1)
    finally:
        process.stop(5)
    assert process.ended
    process.stop(5)


def test_components_get_neither_proxies_nor_a_kubeconfig_nor_other_knobs(tmp_path: Path) -> None:
    environment = {
        "PATH": "/bin",
        "GOGC": "off",
        "HTTPS_PROXY": "http://proxy",
        "KUBECONFIG": "/home/config",
        "ETCD_NAME": "x",
        "HOME": "/root",
    }
    process = Process.start("env", ["/usr/bin/env"], tmp_path, "the-id", environment)
    with pytest.raises(ProcessFailed, match="ended with exit status 0"):
        process.until(lambda: False, PATIENCE)
    lines = set((tmp_path / "env.log").read_text().splitlines())
    assert {"PATH=/bin", "HOME=/root", f"{MARK}=the-id", f"GOGC={GARBAGE_PERCENT}"} <= lines
    assert "GOGC=off" not in lines
    assert not any(line.startswith(("HTTPS_PROXY", "KUBECONFIG", "ETCD")) for line in lines)
