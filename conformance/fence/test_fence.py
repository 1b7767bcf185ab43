"""Taint fencing."""

from conformance.fence.admission_probes import probe_node_name, probe_tolerations
from conformance.fence.births import check_birth_fences
from conformance.fence.checks import check_agents_reach, check_aimed, check_blanket_tolerations, check_fenced, check_intruders
from conformance.fence.holds import check_quarantined, check_temporary, check_validated
from conformance.fence.probes import probe_devices, probe_fence
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.model.nodes.work import maybe_held
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.managed_fields import ReadFields
from fixtures.verdict.findings import Evidence


@requirement("FENCE-01")
def test_every_accelerator_node_carries_the_hard_taint_of_its_pool(judge: Evidence, scope: Scope) -> None:
    """Every accelerator node carries the hard taint of its pool."""
    judge(check_fenced(scope))


@requirement("FENCE-02")
def test_every_pod_on_an_accelerator_node_asks_for_a_device_or_belongs_there(judge: Evidence, scope: Scope) -> None:
    """Every pod on an accelerator node asks for a device or is allowed there without one."""
    judge(check_intruders(scope))


@requirement("FENCE-03")
def test_no_tenant_pod_or_template_tolerates_every_taint(judge: Evidence, scope: Scope) -> None:
    """No tenant pod or workload template tolerates every taint."""
    judge(check_blanket_tolerations(scope))


@requirement("FENCE-04")
def test_every_agent_has_a_pod_on_every_accelerator_node_it_serves(judge: Evidence, scope: Scope) -> None:
    """Every agent has a pod on every accelerator node it serves."""
    judge(check_agents_reach(scope))


@requirement("FENCE-05", devices=0)
def test_a_pod_without_toleration_stays_pending_at_the_fence(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A CPU-only pod without a toleration for the fence taint stays Pending."""
    judge(probe_fence(scope, workspace))


@requirement("FENCE-06", devices=1)
def test_a_pod_with_toleration_affinity_and_one_device_runs(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod with toleration, affinity and one device runs on an accelerator node."""
    judge(probe_devices(scope, workspace))


@requirement("FENCE-07")
def test_admission_gives_device_pods_their_toleration_or_does_not(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A device pod without a toleration gets it from admission, or stays out, as the policy says."""
    judge(probe_tolerations(scope, workspace))


@requirement("FENCE-08")
def test_device_pods_select_accelerator_nodes(judge: Evidence, scope: Scope) -> None:
    """Device pods select accelerator nodes and no others."""
    judge(check_aimed(scope))


@requirement("FENCE-09")
def test_a_node_with_a_fault_is_out_of_service(judge: Evidence, scope: Scope, node_fields: ReadFields) -> None:
    """An accelerator node with a fault is out of service, and a repaired one is back in service."""
    judge(check_quarantined(scope, node_fields(maybe_held(scope))))


@requirement("FENCE-10")
def test_no_temporary_taint_or_cordon_outlives_its_purpose(judge: Evidence, scope: Scope, node_fields: ReadFields) -> None:
    """No cordon and no temporary taint keeps an accelerator node from work for longer than the policy allows."""
    judge(check_temporary(scope, node_fields(maybe_held(scope))))


@requirement("FENCE-11")
def test_no_pod_bypasses_the_scheduler_by_naming_its_node(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """No pod gets past the scheduler to an accelerator node by naming the node itself."""
    judge(probe_node_name(scope, workspace))


@requirement("FENCE-12")
def test_a_node_that_came_back_from_a_quarantine_was_validated(judge: Evidence, scope: Scope) -> None:
    """Every accelerator node that came back from a quarantine has been validated since it began."""
    judge(check_validated(scope))


@requirement("FENCE-13")
def test_new_nodes_are_fenced_until_their_devices_are_ready(judge: Evidence, scope: Scope, node_fields: ReadFields) -> None:
    """New accelerator nodes are fenced until their devices are ready, where the policy or a rule asks for it."""
    judge(check_birth_fences(scope, node_fields(maybe_held(scope))))
