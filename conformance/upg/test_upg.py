"""UPG: what an upgrade would meet, and a run beside the run before it."""

from conformance.probes.server_metrics import server_metrics
from conformance.requirement import Asks, requirement
from conformance.upg.checks import check_drains, check_members, check_removed_apis, check_roll_outs, check_support
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import AT_THE_END, Evidence
from fixtures.verdict.subjects import NotApplicable


@requirement("UPG-01")
def test_nothing_uses_an_api_that_the_next_version_removes(judge: Evidence, scope: Scope, asks: Asks) -> None:
    """Nothing uses an API that the next Kubernetes version removes."""
    judge(check_removed_apis(scope, lambda: server_metrics(asks)))


@requirement("UPG-02")
def test_no_budget_keeps_an_accelerator_node_from_being_drained(judge: Evidence, scope: Scope) -> None:
    """No PodDisruptionBudget keeps an accelerator node from being drained."""
    judge(check_drains(scope))


@requirement("UPG-03")
def test_the_control_plane_can_lose_a_member(judge: Evidence, scope: Scope) -> None:
    """The control plane can lose a member."""
    judge(check_members(scope))


@requirement("UPG-04")
def test_parts_of_the_stack_support_the_kubernetes_version_that_is_next(judge: Evidence, scope: Scope) -> None:
    """Parts of the stack support the Kubernetes version that is next, and each other."""
    judge(check_support(scope))


@requirement("UPG-05")
def test_nothing_is_worse_than_in_the_baseline(has_baseline: bool) -> None:
    """Nothing that held in the baseline is worse now, and no allocation of devices is stranded."""
    if not has_baseline:
        raise NotApplicable("NoBaseline", "no --baseline was given")
    raise NotApplicable(AT_THE_END, "judged at the end of the run, over the results of all other requirements")


@requirement("UPG-06")
def test_each_pool_keeps_its_share_of_devices_while_drivers_are_replaced(judge: Evidence, scope: Scope) -> None:
    """While drivers are replaced, each pool keeps its share of devices, and one pool changes at a time."""
    judge(check_roll_outs(scope))
