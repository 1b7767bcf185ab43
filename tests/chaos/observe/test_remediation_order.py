"""The states of a repair are read now and then: one that was missed is no disorder."""

from __future__ import annotations

import pytest

from chaos.observe.signals.registry import SIGNALS
from fixtures.model.nodes.cordons import STATE_LABEL
from tests.chaos.observe.made_up_cluster import Read, World, node, plan


@pytest.mark.parametrize(
    ("states", "ordered"),
    [
        ([""], True),
        (["quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded", ""], True),
        (["draining", "draining", "remediating", "remediation-succeeded"], True),
        (["draining", "quarantined"], False),
        (["draining", "drain-succeeded", "draining"], False),
        (["quarantined", "draining", "drain-failed"], False),
    ],
)
def test_states_in_order(states: list[str], ordered: bool) -> None:
    read = Read(World(nodes=[node("a")]), plan())
    for state in states:
        read = read.again(World(nodes=[node("a", labels={STATE_LABEL: state} if state else {})]))
        found = SIGNALS["remediation.in.order"](read)  # type: ignore[arg-type]
    assert found is ordered
