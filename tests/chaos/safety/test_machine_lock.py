"""One run a cluster on one machine, and no file left of it."""

import os
from pathlib import Path

import pytest

from chaos.model.records import LeaseRefused
from chaos.safety.lease import MachineLock


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("chaos.safety.lease.tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_cluster_has_one_run_at_a_time_and_others_do_not_wait_for_it(folder: Path) -> None:
    first, second, elsewhere = MachineLock("https://a uid"), MachineLock("https://a uid"), MachineLock("https://b uid")
    first.take()
    elsewhere.take()
    with pytest.raises(LeaseRefused, match="one run acts on a cluster at a time"):
        second.take()
    second.let_go()  # it had nothing, and takes nothing away
    with pytest.raises(LeaseRefused):
        second.take()
    first.let_go()
    second.take()
    for lock in (first, second, elsewhere, second):
        lock.let_go()
    assert list(folder.iterdir()) == []


def test_a_file_that_is_removed_while_it_is_opened_locks_nobody_out_and_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder lets go between the other's open and its flock: the other must not hold a file that nobody finds."""
    holder, late, third = (MachineLock("c") for _ in range(3))
    holder.take()
    opened = os.open

    def open_and_let_go(*arguments: object, **more: object) -> int:
        descriptor: int = opened(*arguments, **more)  # type: ignore[arg-type]
        holder.let_go()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_let_go)
    late.take()
    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(LeaseRefused):
        third.take()
    late.let_go()


def test_a_file_that_is_anothers_by_now_is_left_to_it() -> None:
    """Somebody cleaned the temporary folder while the first one held its file."""
    first, second, third = (MachineLock("f") for _ in range(3))
    first.take()
    first.path.unlink()
    second.take()
    first.let_go()
    with pytest.raises(LeaseRefused):
        third.take()
    second.let_go()


def test_another_user_s_file_is_not_taken_for_a_run_s(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = MachineLock("g")
    lock.path.write_bytes(b"")
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="another user's file"):
        lock.take()
