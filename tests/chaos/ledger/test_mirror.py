"""The ledger: a file of the run and a copy in the cluster, and an entry is in both before arming returns."""

import os
import stat
from pathlib import Path

import pytest

from chaos.cluster import namespaces
from chaos.ledger import authentic, config_maps
from chaos.ledger import config_maps as module
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.model.records import LedgerError, MirrorRefused, State, decode
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import RUN, Denied, fetch, ledger, path_of, soon, world
from tests.tables import each_row
from tests.troubles import Trouble

ARGS = {"name": "gpu-1"}
NAME = f"gpu-conformance-chaos-{RUN}"


def test_the_cluster_holds_an_entry_before_arming_returns(cluster: Cluster, book: Ledger) -> None:
    seq = book.arm("node.labels", ARGS)
    (run,) = authentic.read_ledgers(cluster).runs
    assert (run.run_id, [entry.args for entry in run.open_entries]) == (RUN, [ARGS])
    stored = fetch(cluster, "configmaps", NAME, namespaces.SHARED)
    assert stored["metadata"]["labels"].items() >= owned.labels(RUN).items()
    assert owned.RUN_LABEL not in fetch(cluster, "namespaces", namespaces.SHARED)["metadata"]["labels"]
    assert book.state(seq) is State.ARMED


def test_verified_entries_are_kept_as_numbers_only(cluster: Cluster, book: Ledger) -> None:
    for _ in range(5):
        seq = book.arm("node.labels", ARGS)
        if seq != 4:
            book.mark(seq, State.VERIFIED)
    data = fetch(cluster, "configmaps", NAME, namespaces.SHARED)["data"]
    assert data["A1.verified"] == "1-3,5"
    assert len(data["A1.jsonl"].splitlines()) == 1
    assert Mirror.open(cluster, RUN, "A1").next_seq() == 6


def test_a_refused_mirror_refuses_the_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ARM_SECONDS", 0.5)
    with world(tmp_path, Trouble("patch", "configmaps", 503, 1000)) as (cluster, _):
        book = ledger(tmp_path, cluster)
        with pytest.raises(MirrorRefused, match="503"):
            book.arm("node.labels", ARGS)
        assert [entry.seq for entry in book.open_entries()] == [1]  # on disk, so it is looked at; nothing was done


@pytest.mark.parametrize("denied", ["create", "patch", "get"])
def test_missing_rights_refuse_at_once(tmp_path: Path, denied: str) -> None:
    with world(tmp_path, authorizer=Denied([(denied, "", "configmaps", "")])) as (cluster, _):
        with pytest.raises(MirrorRefused, match="configmaps"):
            ledger(tmp_path, cluster).arm("node.labels", ARGS)


def test_it_is_bounded(cluster: Cluster, book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    with pytest.raises(MirrorRefused, match="2000 is the most"):
        book.arm("node.labels", {"name": "x" * 2000})
    seq = book.arm("node.labels", ARGS)
    assert [entry.seq for entry in authentic.read_ledgers(cluster).open_entries] == [seq]


def test_a_ledger_that_somebody_else_writes_refuses_the_act(cluster: Cluster, book: Ledger) -> None:
    book.arm("node.labels", ARGS)
    cluster.patch("configmaps", NAME, {"data": {"A1.jsonl": "", "A1.verified": "1"}}, namespaces.SHARED)
    with pytest.raises(MirrorRefused, match="another machine may be recovering"):
        book.arm("node.labels", ARGS)


def test_a_mark_that_could_not_be_written_goes_with_the_next(cluster: Cluster, book: Ledger, trouble: Trouble) -> None:
    first, second = book.arm("node.labels", ARGS), book.arm("node.labels", ARGS)
    trouble.verb, trouble.resource, trouble.status, trouble.times = "patch", "configmaps", 503, 1
    book.mark(first, State.VERIFIED)
    assert (trouble.times, len(authentic.read_ledgers(cluster).open_entries)) == (0, 2)
    book.mark(second, State.VERIFIED)
    assert authentic.read_ledgers(cluster).open_entries == []
    assert book.flush(soon())


@each_row
def test_a_malformed_copy_is_an_error(tmp_path: Path, cluster: Cluster, data: dict[str, str]) -> None:
    ledger(tmp_path, cluster)
    cluster.patch("configmaps", NAME, {"data": data}, namespaces.SHARED)
    with pytest.raises(LedgerError):
        config_maps.parse_run(fetch(cluster, "configmaps", NAME, namespaces.SHARED))


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
    line = decode(path_of(book).read_bytes().rstrip(b"\n"))
    assert (line.seq, line.state, line.entry and line.entry.args, line.entry and line.entry.run_id) == (seq, State.ARMED, ARGS, RUN)


def test_the_file_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    assert stat.S_IMODE(path_of(book).stat().st_mode) == 0o600
    book.arm("node.labels", ARGS)
    with pytest.raises(LedgerError, match="File exists"):
        ledger(tmp_path)
    assert len(path_of(book).read_bytes().splitlines()) == 1


def test_a_torn_last_line_is_left_out_and_reported(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.arm("node.labels", ARGS)
    whole = path_of(book).read_bytes()
    for length in range(1, len(whole)):
        path_of(book).write_bytes(whole + whole[:length])
        again = Ledger.open(path_of(book))
        assert again.torn
        assert [entry.seq for entry in again.open_entries()] == [1]
        assert path_of(book).read_bytes() == whole + whole[:length]  # whoever only reads leaves it: somebody may be writing it
    again.mark(1, State.VERIFIED)
    assert path_of(book).read_bytes().startswith(whole)
    once_more = Ledger.open(path_of(book))
    assert (once_more.torn, once_more.open_entries()) == (False, [])


@pytest.mark.parametrize(
    ("broken", "reported"),
    [
        (b"{}\n", "line 1 cannot be read"),
        (b"not json\n", "line 1 cannot be read"),
        (b'{"seq":1,"state":"armed","at":"x"}\n', "an entry comes with 'armed'"),
        (b'{"seq":1,"state":"forgotten","at":"x"}\n', "Invalid enum value"),
        (b'{"seq":7,"state":"verified","at":"x"}\n', "never armed"),
        (b"\n", "line 1 cannot be read"),
    ],
)
def test_anything_else_that_is_malformed_is_an_error(tmp_path: Path, broken: bytes, reported: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(broken)
    with pytest.raises(LedgerError, match=reported):
        Ledger.open(path)


def test_an_entry_armed_twice_is_an_error(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.arm("node.labels", ARGS)
    path_of(book).write_bytes(path_of(book).read_bytes() * 2)
    with pytest.raises(LedgerError, match="armed twice"):
        Ledger.open(path_of(book))


def test_what_was_never_armed_cannot_be_marked_and_nothing_is_armed_by_marking(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    seq = book.arm("node.labels", ARGS)
    with pytest.raises(LedgerError, match="no entry 9"):
        book.mark(9, State.APPLIED)
    with pytest.raises(LedgerError, match=r"by arm\(\) only"):
        book.mark(seq, State.ARMED)


def test_a_full_disk_refuses_the_act(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    path_of(book).unlink()
    path_of(book).symlink_to("/dev/full")
    with pytest.raises(LedgerError, match="No space left"):
        book.arm("node.labels", ARGS)
    assert book.open_entries() == []
