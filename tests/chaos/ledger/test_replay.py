"""Replay as a whole: order, trouble, what remains."""

from pathlib import Path
from typing import Any

import pytest

from chaos.ledger.file import Ledger, parse
from chaos.ledger.replay import Reason
from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable
from chaos.ledger.undos.workloads import PodsReplaced
from chaos.model.records import State
from fixtures.cluster.client import Cluster
from tests.chaos.ledger.simulated_cluster import Json, fetch, ledger, path_of, replay, soon
from tests.troubles import Trouble

pytestmark = pytest.mark.test_all

PRODUCT = "nvidia.com/gpu.product"


def labels(cluster: Cluster, name: str = "gpu-1") -> Json:
    return dict(fetch(cluster, "nodes", name)["metadata"]["labels"])


def strip_label(cluster: Cluster, book: Ledger, name: str = "gpu-1", ours: str | None = None) -> int:
    args = NodeLabels().args(fetch(cluster, "nodes", name), {PRODUCT: ours})
    seq = book.arm("node.labels", args)
    assert cluster.patch("nodes", name, {"metadata": {"labels": args.ours}}).ok
    book.mark(seq, State.APPLIED)
    return seq


def test_a_layer_that_is_refused_keeps_those_below_it_and_all_come_off_in_the_end(cluster: Cluster, book: Ledger, trouble: Trouble) -> None:
    for value in ("a", "b", "c"):
        strip_label(cluster, book, ours=value)
    trouble.verb, trouble.resource, trouble.status, trouble.times = "patch", "nodes", 503, 10**6
    left = replay(book, cluster, soon(1), pause=0.01)
    assert [(item.seq, item.reason) for item in left] == [(3, Reason.NOT_UNDONE), (2, Reason.NOT_UNDONE), (1, Reason.NOT_UNDONE)]
    assert "entry 3, made after it" in left[1].message
    trouble.times = 5
    assert replay(book, cluster, soon(), pause=0.01) == []
    assert labels(cluster)[PRODUCT] == "H100"


def _lines(path: Path) -> list[Any]:
    return parse(path.read_bytes(), str(path))[0]


@pytest.mark.parametrize(
    ("verb", "status"), [("get", 500), ("patch", 409), ("patch", 429), ("patch", "drop"), ("list", 503), ("watch", 429)]
)
def test_an_api_in_trouble_delays_the_undo_and_does_not_prevent_it(
    cluster: Cluster, book: Ledger, trouble: Trouble, verb: str, status: int | str
) -> None:
    strip_label(cluster, book)
    trouble.verb, trouble.resource, trouble.status, trouble.times = verb, "nodes", status, 3
    assert replay(book, cluster, soon(), pause=0.01) == []
    assert trouble.times == 0
    assert (labels(cluster)[PRODUCT], book.open_entries()) == ("H100", [])


def test_what_does_not_come_back_by_itself_keeps_nothing_older_on_its_node(cluster: Cluster, book: Ledger) -> None:
    strip_label(cluster, book)
    node = fetch(cluster, "nodes", "gpu-1")
    cordoned = book.arm("node.unschedulable", NodeUnschedulable().args(node, True))
    taints = [*node["spec"]["taints"], {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": True, "taints": taints}})  # and nobody who takes the taint away
    (left,) = replay(book, cluster, soon(2), pause=0.01)
    assert (left.seq, left.reason) == (cordoned, Reason.NOT_VERIFIED)
    assert labels(cluster)[PRODUCT] == "H100"


def test_a_replaced_node_is_residue(cluster: Cluster, book: Ledger) -> None:
    args = NodeUnschedulable().args(fetch(cluster, "nodes", "gpu-1"), True)
    book.arm("node.unschedulable", type(args)(name="gpu-1", uid="another", machine="another", prior=False, ours=True))
    (left,) = replay(book, cluster, soon(600))
    assert (left.reason, left.prior, left.current) == (Reason.REPLACED, "another", "uid-gpu-1")


def test_everything_is_undone_before_anything_is_waited_for(cluster: Cluster, book: Ledger) -> None:
    """The plugin's pod comes back only once the older entry's label is: waiting for it first would never end."""
    strip_label(cluster, book)
    pods = [fetch(cluster, "pods", name, "gpu-operator") for name in ("plugin-1", "plugin-2")]
    killed = book.arm("pods.replaced", PodsReplaced().args(pods[:1], pods, on_node=True))
    cluster.delete("pods", "plugin-1", "gpu-operator", grace_seconds=0)
    (left,) = replay(book, cluster, soon(2))
    assert (left.seq, left.reason) == (killed, Reason.NOT_VERIFIED)
    assert labels(cluster)[PRODUCT] == "H100"
    states = [(line.seq, line.state) for line in _lines(path_of(book))]
    assert states.index((1, State.UNDONE)) < states.index((1, State.VERIFIED))
    assert (2, State.VERIFIED) not in states


def test_entries_that_nobody_can_read_are_residue_and_do_not_stop_the_others(cluster: Cluster, book: Ledger) -> None:
    strip_label(cluster, book)
    book.arm("node.moon", {"name": "gpu-1"})
    book.arm("node.labels", {"nonsense": 1})
    left = replay(book, cluster, soon(600))
    assert [(item.seq, item.reason, item.what) for item in left] == [
        (3, Reason.UNREADABLE, "node.labels"),
        (2, Reason.UNREADABLE, "node.moon"),
    ]
    assert labels(cluster)[PRODUCT] == "H100"


def test_a_full_disk_does_not_keep_anything_from_being_put_back(tmp_path: Path, cluster: Cluster) -> None:
    book = ledger(tmp_path)
    strip_label(cluster, book)
    path_of(book).unlink()
    path_of(book).symlink_to("/dev/full")
    (left,) = replay(book, cluster, soon(1))
    assert labels(cluster)[PRODUCT] == "H100"
    assert "restored, but the ledger cannot say so" in left.message
