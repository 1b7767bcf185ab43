import os
import stat
from pathlib import Path

import pytest

from chaos.ledger.file import Ledger
from chaos.model.errors import LedgerError
from chaos.model.ledger_lines import State, decode
from tests.chaos.ledger.simulated_cluster import RUN, ledger

ARGS = {"name": "gpu-1"}


def test_an_armed_entry_is_on_disk_before_arming_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    book = ledger(tmp_path)
    assert synced == [stat.S_IFREG, stat.S_IFDIR]  # the file and its folder, at creation
    seq = book.arm("node.labels", ARGS)
    assert synced[2:] == [stat.S_IFREG]
    assert book.path is not None
    line = decode(book.path.read_bytes().rstrip(b"\n"))
    assert (line.seq, line.state, line.entry and line.entry.args, line.entry and line.entry.run_id) == (seq, State.ARMED, ARGS, RUN)


def test_the_file_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    assert book.path is not None
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    book.arm("node.labels", ARGS)
    with pytest.raises(LedgerError, match="File exists"):
        ledger(tmp_path)
    assert len(book.path.read_bytes().splitlines()) == 1


def test_a_torn_last_line_is_left_out_and_reported(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.arm("node.labels", ARGS)
    assert book.path is not None
    whole = book.path.read_bytes()
    for length in range(1, len(whole)):
        book.path.write_bytes(whole + whole[:length])
        again = Ledger.open(book.path)
        assert again.torn
        assert [entry.seq for entry in again.open_entries()] == [1]
        assert book.path.read_bytes() == whole + whole[:length]  # whoever only reads leaves it: somebody may be writing it
    again.mark(1, State.VERIFIED)
    assert book.path.read_bytes().startswith(whole)
    once_more = Ledger.open(book.path)
    assert (once_more.torn, once_more.open_entries()) == (False, [])


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b"{}\n", "line 1 cannot be read"),
        (b"not json\n", "line 1 cannot be read"),
        (b'{"seq":1,"state":"armed","at":"x"}\n', "an entry comes with 'armed'"),
        (b'{"seq":1,"state":"forgotten","at":"x"}\n', "Invalid enum value"),
        (b'{"seq":7,"state":"verified","at":"x"}\n', "never armed"),
        (b"\n", "line 1 cannot be read"),
    ],
)
def test_anything_else_that_is_malformed_is_an_error(tmp_path: Path, broken: bytes, said: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(broken)
    with pytest.raises(LedgerError, match=said):
        Ledger.open(path)


def test_an_entry_armed_twice_is_an_error(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.arm("node.labels", ARGS)
    assert book.path is not None
    book.path.write_bytes(book.path.read_bytes() * 2)
    with pytest.raises(LedgerError, match="armed twice"):
        Ledger.open(book.path)


def test_what_was_never_armed_cannot_be_marked_and_nothing_is_armed_by_marking(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    seq = book.arm("node.labels", ARGS)
    with pytest.raises(LedgerError, match="no entry 9"):
        book.mark(9, State.APPLIED)
    with pytest.raises(LedgerError, match=r"by arm\(\) only"):
        book.mark(seq, State.ARMED)


def test_a_full_disk_refuses_the_act(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    assert book.path is not None
    book.path.unlink()
    book.path.symlink_to("/dev/full")
    with pytest.raises(LedgerError, match="No space left"):
        book.arm("node.labels", ARGS)
    assert book.open_entries() == []
