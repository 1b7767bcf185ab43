"""What judging costs grows with the cluster and no faster: work is counted, in function calls, on fleets of three sizes."""

from functools import cache

import pytest

from fixtures.model.cluster import Scope
from fixtures.simulator.config.scenario import parse_simulate
from tests.judging import READ, judge
from tests.requirements_offline import scope_of
from tests.steps import steps

SMALL, MIDDLE, LARGE = 16, 32, 64
CALLS_PER_NODE = 9_300
"""Of all requirements that read together, for a node and its ten pods."""


@cache
def fleet(nodes: int) -> Scope:
    return scope_of(parse_simulate(f"fleet:nodes={nodes}")[0])


def work(nodes: int, ids: list[str]) -> int:
    scope = fleet(nodes)
    judge(scope.snapshot, scope.policy, ids)  # what is compiled or looked up once is not counted
    return steps(lambda: judge(scope.snapshot, scope.policy, ids))


@pytest.mark.test_all
@pytest.mark.parametrize("requirement", READ)
def test_twice_as_many_more_nodes_are_twice_as_much_more_work(requirement: str) -> None:
    """Work that grows with the square would be four times as much more."""
    small, middle, large = (work(size, [requirement]) for size in (SMALL, MIDDLE, LARGE))
    assert large - middle <= 2.4 * (middle - small) + LARGE


def test_what_several_requirements_ask_of_a_node_is_found_out_once() -> None:
    ids = list(READ)
    assert (work(MIDDLE, ids) - work(SMALL, ids)) / (MIDDLE - SMALL) < CALLS_PER_NODE
