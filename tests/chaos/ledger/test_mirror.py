from pathlib import Path

import pytest

from chaos.cluster import namespaces
from chaos.ledger import authentic, config_maps
from chaos.ledger import mirror as module
from chaos.ledger.file import Ledger
from chaos.ledger.mirror import Mirror
from chaos.model.errors import LedgerError, MirrorRefused
from chaos.model.ledger_lines import State
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.simulator.config.rights import Rights
from tests.chaos.ledger.simulated_cluster import RUN, fetch, ledger, soon, world
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
    class Denied(Rights):
        def allowed(self, user: str, *words: str) -> bool:
            return super().allowed("gpu-conformance", *words)

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


def test_a_mark_that_could_not_be_written_goes_with_the_next(tmp_path: Path) -> None:
    trouble = Trouble("patch", "configmaps", 503, 0)
    with world(tmp_path, trouble) as (cluster, _):
        book = ledger(tmp_path, cluster)
        first, second = book.arm("node.labels", ARGS), book.arm("node.labels", ARGS)
        trouble.times = 1
        book.mark(first, State.VERIFIED)
        assert (trouble.times, len(authentic.read_ledgers(cluster).open_entries)) == (0, 2)
        book.mark(second, State.VERIFIED)
        assert authentic.read_ledgers(cluster).open_entries == []
        assert book.flush(soon())


@pytest.mark.parametrize(
    "data",
    [
        {"A1.jsonl": "{}\n"},
        {"A1.jsonl": '{"seq":1,"state":"applied","at":"x"}\n'},
        {"A1.jsonl": '{"seq":1'},
        {"A1.verified": "1-x"},
        {"A1.verified": "1-999999999"},
    ],
)
def test_a_malformed_copy_is_an_error(tmp_path: Path, cluster: Cluster, data: dict[str, str]) -> None:
    ledger(tmp_path, cluster)
    cluster.patch("configmaps", NAME, {"data": data}, namespaces.SHARED)
    with pytest.raises(LedgerError):
        config_maps.parse_run(fetch(cluster, "configmaps", NAME, namespaces.SHARED))
