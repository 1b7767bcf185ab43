"""Whatever is done in whatever order, and wherever it is cut off: after replay the cluster is as it was."""

import contextlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.ledger.file import Ledger
from chaos.model.records import State
from fixtures.cluster.client import Cluster
from tests.chaos.ledger.acts import NAMESPACE, Act, prepare
from tests.chaos.ledger.simulated_cluster import Json, ledger, path_of, replay, soon, world

NODES = st.sampled_from(["gpu-1", "gpu-2"])
VALUES = st.sampled_from([None, "a", "b"])
KEYS = st.sampled_from(["nvidia.com/gpu.product", "team"])


class Cut(BaseException):
    """The end of the process, in the model."""


ACTS = st.one_of(
    st.builds(Act, st.just("labels"), NODES, KEYS, VALUES),
    st.builds(Act, st.just("unschedulable"), NODES, value=st.booleans()),
    st.builds(Act, st.just("replicas"), value=st.integers(0, 3)),
    st.builds(Act, st.just("create"), key=st.sampled_from(["canary-1", "canary-2"])),
    st.builds(Act, st.just("delete")),
)


def possible(cluster: Cluster, act: Act) -> bool:
    """An object is created where none is, and deleted where one is: activities do not try otherwise."""
    name = {"create": act.key, "delete": "operand"}.get(act.kind)
    return name is None or cluster.get("configmaps", name, NAMESPACE).ok == (act.kind == "delete")


def perform(cluster: Cluster, book: Ledger, acts: list[Act], cut: int) -> None:
    """Act after act, cut off after ``cut`` steps: an entry armed and an act done are a step each."""
    steps = itertools.count()
    for act in acts:
        if not possible(cluster, act):
            continue
        name, args, do = prepare(cluster, act)
        seq = book.arm(name, args)
        if next(steps) == cut:
            return
        do()
        if next(steps) == cut:
            return
        book.mark(seq, State.APPLIED)


def snapshot(cluster: Cluster) -> list[Json]:
    """All that the acts can change, without what the server writes. Taints are a set."""
    found = []
    for key, namespace in (("nodes", ""), ("apps/deployments", NAMESPACE), ("configmaps", NAMESPACE)):
        for item in cluster.request("GET", cluster.path(key, namespace)).json()["items"]:
            meta = item["metadata"]
            spec = dict(item.get("spec") or {})
            if "taints" in spec:
                spec["taints"] = sorted((t["key"], t["effect"], t.get("value", "")) for t in spec["taints"])
            maps = {name: meta.get(name) or {} for name in ("labels", "annotations")}
            found.append({"key": key, "name": meta["name"], **maps, "spec": {k: v for k, v in spec.items() if v}, "data": item.get("data")})
    return found


@pytest.mark.test_all
def test_after_replay_the_cluster_is_as_it_was(tmp_path: Path) -> None:
    numbers = itertools.count()

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(acts=st.lists(ACTS, max_size=7), cut=st.integers(0, 14), stops=st.lists(st.integers(0, 6), max_size=2))
    def holds(acts: list[Act], cut: int, stops: list[int]) -> None:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        with world(folder) as (cluster, _):
            before = snapshot(cluster)
            book = ledger(folder)
            perform(cluster, book, acts, cut)
            path = path_of(book)
            for stop in stops:  # replay itself is cut off, and begun again from the file
                book = Ledger.open(path)
                interrupt(book, stop)
                with contextlib.suppress(Cut):
                    replay(book, cluster, soon(5), pause=0.01)
            book = Ledger.open(path)
            assert replay(book, cluster, soon(), pause=0.01) == []
            assert snapshot(cluster) == before
            assert book.open_entries() == []

    holds()


def interrupt(book: Ledger, after: int) -> None:
    """Cut the process off at a line of the ledger, before it is written."""
    real, steps = book.mark, itertools.count()

    def mark(seq: int, state: State, detail: Mapping[str, Any] | None = None) -> None:
        if next(steps) == after:
            raise Cut
        real(seq, state, detail)

    book.mark = mark  # type: ignore[method-assign]
