"""Requests, limits and quantities of devices."""

from functools import partial

from conformance.common_findings import unless_settling
from conformance.req.amount_probes import ask_amounts, ask_quota, counted_resource, judge_amounts, judge_quota
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted, check_whole_devices
from conformance.req.device_policy import probe_policy
from conformance.req.ending import check_ending, check_makers, check_restarted_jobs, check_services_and_jobs
from conformance.req.pod_specs import check_cpu_and_memory, check_images, check_names_together, check_priorities, check_shared_memory
from conformance.req.quotas import check_tenants_have_quotas
from conformance.req.refusal_faults import Records, read_of
from conformance.req.refused import check_refused
from conformance.req.starting import check_starting
from conformance.req.waiting import check_waiting, recheck
from conformance.req.without_pods import check_jobs_without_pods, check_workloads
from conformance.requirement import Asks, requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("REQ-01")
def test_the_api_refuses_malformed_device_amounts_and_copies_limits(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """The API refuses malformed device amounts and copies limits to requests."""
    resource = counted_resource(scope)
    judge(judge_amounts(resource, ask_amounts(workspace, scope, resource)))


@requirement("REQ-02")
def test_every_template_asks_whole_devices_with_request_equal_to_limit(judge: Evidence, scope: Scope) -> None:
    """Every pod and pod template asks for whole devices, with request equal to limit."""
    judge(check_whole_devices(scope))


@requirement("REQ-03")
def test_no_node_has_more_devices_held_than_allocatable(judge: Evidence, scope: Scope) -> None:
    """Pods bound to a node hold no more devices than the node can allocate."""
    judge(check_not_overcommitted(scope))


@requirement("REQ-04")
def test_every_pending_pod_asks_for_devices_some_node_could_offer(judge: Evidence, scope: Scope) -> None:
    """Every pending pod asks for devices that some node could offer."""
    judge(check_can_be_offered(scope))


@requirement("REQ-05")
def test_only_approved_device_names_are_in_use(judge: Evidence, scope: Scope) -> None:
    """Only approved device resource names are in use."""
    judge(check_approved_names(scope))


@requirement("REQ-06")
def test_every_tenant_namespace_with_device_pods_has_a_quota_on_them(judge: Evidence, scope: Scope) -> None:
    """Every tenant namespace with device pods has a quota on their devices."""
    judge(check_tenants_have_quotas(scope))


@requirement("REQ-07")
def test_a_quota_on_devices_is_enforced(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A quota on devices is enforced."""
    judge(judge_quota(ask_quota(workspace, scope)))


@requirement("REQ-08")
def test_every_device_pod_asks_for_cpu_and_memory(judge: Evidence, scope: Scope) -> None:
    """Every device pod of a tenant asks for CPU and memory too."""
    judge(check_cpu_and_memory(scope))


@requirement("REQ-09")
def test_the_admission_policy_refuses_device_pods_that_are_not_allowed(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """The cluster's admission policy refuses device pods that the policy does not allow, in its own words."""
    judge(probe_policy(scope, workspace))


@requirement("REQ-10")
def test_no_container_mixes_mig_and_whole_devices(judge: Evidence, scope: Scope) -> None:
    """No container mixes MIG slices and whole devices, and RDMA and huge pages are asked for in whole numbers."""
    judge(check_names_together(scope))


@requirement("REQ-11")
def test_no_kubelet_refuses_pods_with_devices(judge: Evidence, scope: Scope, now: float, asks: Asks) -> None:
    """No kubelet refuses pods with devices."""
    judge(unless_settling(scope, check_refused(scope, now, Records(scope.snapshot, partial(read_of, asks)))))


@requirement("REQ-12")
def test_no_device_pod_waits_beside_free_devices(judge: Evidence, scope: Scope, now: float, asks: Asks) -> None:
    """No device pod or workload waits too long beside free devices that fit it, or behind a forgotten gate."""
    judge(check_waiting(scope, now, recheck(asks, scope.snapshot)))
    judge(check_jobs_without_pods(scope, now))
    judge(check_workloads(scope, now))


@requirement("REQ-13")
def test_every_device_pod_that_is_bound_starts(judge: Evidence, scope: Scope, now: float) -> None:
    """Every device pod that is bound to a node starts there within the time that the policy allows."""
    judge(check_starting(scope, now))


@requirement("REQ-14")
def test_every_device_pod_ends(judge: Evidence, scope: Scope, now: float) -> None:
    """No pod that holds devices hangs in its deletion or crashes again and again."""
    judge(check_ending(scope, now))
    judge(check_restarted_jobs(scope, now))


@requirement("REQ-15")
def test_every_pod_with_several_devices_has_enough_shared_memory(judge: Evidence, scope: Scope) -> None:
    """Every pod with several devices has enough shared memory."""
    judge(check_shared_memory(scope))


@requirement("REQ-16")
def test_images_of_device_pods_are_pinned(judge: Evidence, scope: Scope) -> None:
    """Images of tenants' device pods are pinned."""
    judge(check_images(scope))


@requirement("REQ-17")
def test_device_pods_have_an_approved_priority_class(judge: Evidence, scope: Scope) -> None:
    """Every device pod of a tenant has an approved PriorityClass, and preempts only if the policy lets it."""
    judge(check_priorities(scope))


@requirement("REQ-18")
def test_services_are_ready_when_they_say_so_and_device_jobs_end(judge: Evidence, scope: Scope) -> None:
    """Device pods behind a Service have a readiness probe and time to end, and device jobs have an end."""
    judge(check_services_and_jobs(scope))


@requirement("REQ-19")
def test_every_pod_that_holds_devices_is_still_asked_for(judge: Evidence, scope: Scope, now: float) -> None:
    """Every pod that holds devices is still asked for by what made it."""
    judge(check_makers(scope, now))
