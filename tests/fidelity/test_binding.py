"""The simulated scheduler against the real kube-scheduler: where pods bind and what is said of those that do not."""

from __future__ import annotations

import pytest

from fixtures.localcluster.binaries import BinariesMissing, find
from tests.fidelity.binding import Compared, compare_binding

COUNT = 60


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    try:
        find()
    except BinariesMissing as error:
        pytest.skip(str(error))
    return compare_binding(COUNT)


def test_the_same_pods_are_bound(compared: list[Compared]) -> None:
    assert [one for one in compared if bool(one.real.node) != bool(one.simulated.node)] == []
    bound = sum(1 for one in compared if one.real.node and not one.pinned)
    assert COUNT / 6 < bound < COUNT * 5 / 6, "enough pods of either kind to compare"


def test_the_same_nodes_are_feasible(compared: list[Compared]) -> None:
    """A pod that may go to several nodes may be bound to either; pinned to each in turn it has to be taken by the same."""
    alone = [one for one in compared if one.pinned]
    assert [one for one in alone if one.real != one.simulated] == []
    assert len({one.real.node for one in alone if one.real.node}) > 3


def test_failures_are_told_alike(compared: list[Compared]) -> None:
    """Number of nodes, every reason with its count, and what preemption says: word for word."""
    failed = [one for one in compared if not one.real.node]
    assert [one for one in failed if one.real != one.simulated] == []
    assert len({text for one in failed for text, _ in one.real.reasons}) >= 5, "enough different reasons to compare"
