"""A PriorityClass that looks like a run's proof and cannot be read: another version of the suite may have written it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.recover import preview, status
from chaos.ledger.residue import Reason
from chaos.ledger.undos.nodes import NodeLabels
from fixtures.cluster.client import Cluster
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, PROOF
from fixtures.ownership.read_proofs import living, read_proofs
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, fetch, ledger, recover, world

OTHER = "20261121-140000-cafe"
CLASS = f"{CHAOS_PREFIX}-{OTHER}"
PRODUCT = "nvidia.com/gpu.product"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def spoil(cluster: Cluster, how: str) -> None:
    """Another run's class, with a record that this version cannot read."""
    record = fetch(cluster, PRIORITY_CLASSES, CLASS)["metadata"]["annotations"][PROOF]
    newer = msgspec.json.encode({**msgspec.json.decode(record), "version": 2}).decode()
    text = {"newer": newer, "garbage": "{", "none": None, "another's": record.replace(OTHER, RUN)}[how]
    assert cluster.patch(PRIORITY_CLASSES, CLASS, {"metadata": {"annotations": {PROOF: text}}}).ok


@pytest.mark.parametrize("how", ["newer", "garbage", "none", "another's"])
def test_it_keeps_nobody_from_recovering_and_is_told(cluster: Cluster, tmp_path: Path, how: str) -> None:
    Proof.open(cluster, OTHER, prefix=CHAOS_PREFIX, renewing=False)
    own = namespaces.ensure_run(cluster, OTHER)
    spoil(cluster, how)
    book = ledger(tmp_path, cluster)
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok
    for line in (status(cluster).lines[-1], preview(cluster, terms=ANYTHING)[1].unreadable[0]):
        assert CLASS in line
    done = recover(cluster)
    assert (done.runs, done.restored, done.clean) == ((RUN,), 1, False)
    assert f"PriorityClass {CLASS}: this version of the suite cannot read the proof of run {OTHER}" in done.unreadable[0]
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"
    assert fetch(cluster, "namespaces", own)
    assert fetch(cluster, PRIORITY_CLASSES, CLASS)
    assert cluster.get("namespaces", namespaces.SHARED).status == 404  # what runs share went as ever


def test_its_run_is_not_known_to_have_ended(cluster: Cluster) -> None:
    Proof.open(cluster, OTHER, prefix=CHAOS_PREFIX, renewing=False)
    spoil(cluster, "newer")
    view = read_proofs(cluster)[OTHER]
    assert view.alive() is None
    assert living(cluster, [view]) == {OTHER}


def test_a_file_does_not_stand_in_for_it(cluster: Cluster, tmp_path: Path) -> None:
    book = ledger(tmp_path, cluster, run_id=OTHER)
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok
    spoil(cluster, "newer")
    done = recover(cluster, tmp_path)
    assert [one.reason for one in done.residue] == [Reason.UNPROVEN]
    assert "cannot be read" in done.residue[0].message
    assert PRODUCT not in fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]
