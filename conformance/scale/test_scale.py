"""Pools of accelerator nodes that grow and shrink."""

from __future__ import annotations

from conformance.requirement import requirement
from conformance.scale.node_pools import check_node_pools
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Evidence


@requirement("SCALE-01")
def test_pools_of_gpu_nodes_are_fenced_limited_and_can_go_to_zero(judge: Evidence, scope: Scope) -> None:
    """Pools that an autoscaler makes GPU nodes from are fenced, limited, and can go to zero."""
    judge(check_node_pools(scope))
