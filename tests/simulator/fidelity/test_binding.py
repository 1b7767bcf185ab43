"""The simulated scheduler against the real kube-scheduler: where pods bind and what is said of those that do not."""

from collections import Counter

import pytest

from fixtures.localcluster.control_plane.control_plane import ControlPlane
from tests.simulator.fidelity.amounts import TESTED
from tests.simulator.fidelity.binding import Compared, Outcome, compare_binding
from tests.simulator.fidelity.comparison import Comparison, add_binding

pytestmark = [pytest.mark.xdist_group("fidelity"), pytest.mark.test_all]


@pytest.fixture(scope="module")
def compared(plane: ControlPlane) -> list[Compared]:
    return compare_binding(plane, TESTED.pods)


def test_the_same_pods_are_bound(compared: list[Compared]) -> None:
    assert [one for one in compared if bool(one.real.node) != bool(one.simulated.node)] == []
    bound = sum(1 for one in compared if one.real.node and not one.pinned)
    assert TESTED.pods / 6 < bound < TESTED.pods * 5 / 6, "enough pods of either kind to compare"


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


def test_a_pod_that_may_go_anywhere_may_differ_in_its_node_and_in_nothing_else() -> None:
    comparison = Comparison(version="v1.37.2", compared=Counter(), differences=[])
    pod = {"metadata": {"namespace": "binding"}, "spec": {}}
    short = Outcome("", 2, (("Insufficient cpu", 2),), "preemption: none")
    add_binding(
        comparison,
        [
            Compared(pod, Outcome("a"), Outcome("b"), False),
            Compared(pod, Outcome("a"), Outcome("b"), True),
            Compared(pod, Outcome("a"), short, False),
            Compared(pod, short, Outcome("", 2, (("Insufficient cpu", 1),), "preemption: none"), False),
            Compared(pod, short, Outcome("", 2, short.reasons, "other"), False),
            Compared(pod, short, short, False),
        ],
    )
    assert [one.aspect for one in comparison.differences] == ["reason", "status", "causes", "reason"]
    assert len(comparison.unexplained) == 4
    assert comparison.document()["byKind"] == {"binding": {"compared": 6, "agreed": 2}}
