"""Taint fencing."""

from __future__ import annotations

from conformance.fence.checks import check_agents_reach, check_aimed, check_blanket_tolerations, check_fenced, check_intruders
from conformance.fence.device_probe import probe_devices
from conformance.fence.fence_probe import probe_fence
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence
from fixtures.probes.workspace import Workspace


@requirement("FENCE-01")
def test_every_accelerator_node_carries_the_hard_taint_of_its_pool(judge: Evidence, scope: Scope) -> None:
    """Every accelerator node carries the hard taint of its pool."""
    judge(check_fenced(scope))


@requirement("FENCE-02")
def test_every_pod_on_an_accelerator_node_asks_for_a_device_or_belongs_there(judge: Evidence, scope: Scope) -> None:
    """Every pod on an accelerator node asks for a device or belongs there."""
    judge(check_intruders(scope))


@requirement("FENCE-03")
def test_no_tenant_pod_or_template_tolerates_every_taint(judge: Evidence, scope: Scope) -> None:
    """No tenant pod or template tolerates every taint."""
    judge(check_blanket_tolerations(scope))


@requirement("FENCE-04")
def test_every_agent_has_a_pod_on_every_accelerator_node_it_serves(judge: Evidence, scope: Scope) -> None:
    """Every agent has a pod on every accelerator node it serves."""
    judge(check_agents_reach(scope))


@requirement("FENCE-05")
def test_a_pod_without_toleration_stays_pending_at_the_fence(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A CPU-only pod without toleration stays Pending for an untolerated taint."""
    judge(probe_fence(scope, workspace))


@requirement("FENCE-06")
def test_a_pod_with_toleration_affinity_and_one_device_runs(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod with toleration, affinity and one device runs on an accelerator node."""
    judge(probe_devices(scope, workspace))


@requirement("FENCE-08")
def test_device_pods_select_accelerator_nodes(judge: Evidence, scope: Scope) -> None:
    """Device pods select accelerator nodes and no others."""
    judge(check_aimed(scope))
