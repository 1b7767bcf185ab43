"""Pools of accelerator nodes that grow and shrink."""

from conformance.requirement import requirement
from conformance.scale.checks import check_autoscaling, check_growth, check_node_pools
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Evidence


@requirement("SCALE-01")
def test_pools_of_gpu_nodes_are_fenced_limited_and_can_go_to_zero(judge: Evidence, scope: Scope) -> None:
    """Pools that an autoscaler makes GPU nodes from are fenced, limited, and can go to zero."""
    judge(check_node_pools(scope))


@requirement("SCALE-02")
def test_autoscalers_can_make_gpu_groups_grow_and_shrink(judge: Evidence, scope: Scope) -> None:
    """Autoscalers can make groups of GPU nodes grow for pending pods, and take idle nodes away."""
    judge(check_growth(scope))


@requirement("SCALE-03")
def test_autoscalers_of_device_pods_can_go_up_and_come_down(judge: Evidence, scope: Scope) -> None:
    """Autoscalers of pods with devices can go up and come down."""
    judge(check_autoscaling(scope))
