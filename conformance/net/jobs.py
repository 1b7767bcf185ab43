"""NET-10: jobs that span nodes ask for the fabric."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.gang.jobs import GangJob, gang_jobs
from conformance.net.advertising import allocatable, fabric_resources, offering_nodes
from conformance.scope import Scope, whole
from fixtures.evidence import Finding, NotApplicable, bad, not_judged, ok
from fixtures.models import Pod

SOURCE = "pod.spec.containers[].resources"


def check_jobs(scope: Scope) -> Iterator[Finding]:
    """NET-10: every member of a multi-node device job asks for a fabric resource. Raises :class:`NotApplicable` without RDMA nodes."""
    names = fabric_resources(scope)
    offering = {node.name for node in offering_nodes(scope)}
    if not offering:
        raise NotApplicable("NoRdmaNodes", "no node offers an RDMA resource")
    for job in gang_jobs(scope):
        spans = why_multi_node(scope, job)
        if spans:
            yield _judge(job, spans, names, offering)


def why_multi_node(scope: Scope, job: GangJob) -> str:
    """Why a job spans nodes, as a clause: where its members are, or that no node could hold it; empty when it does not."""
    nodes = {pod.spec.node_name for pod in job.pods if pod.spec.node_name and not pod.finished}
    if len(nodes) > 1:
        return f"its pods run on {len(nodes)} nodes"
    for name, count in _asked(scope, job).items():
        largest = max((allocatable(node, name) for node in scope.accelerator_nodes), default=0)
        if largest and count > largest:
            return f"it asks for {count} {name} and the largest node has {largest}"
    return ""


def _asked(scope: Scope, job: GangJob) -> dict[str, int]:
    """Devices the whole job asks for: its largest member's, times the members it needs."""
    largest: dict[str, int] = {}
    for pod in job.pods:
        for name, count in scope.devices_of(pod.spec).items():
            largest[name] = max(largest.get(name, 0), count)
    return {name: count * max(job.needed, len(job.pods)) for name, count in largest.items()}


def _judge(job: GangJob, spans: str, names: tuple[str, ...], offering: set[str]) -> Finding:
    members = [pod for pod in job.pods if not pod.finished]
    placed = {pod.spec.node_name for pod in members if pod.spec.node_name}
    if placed and not placed & offering:
        return not_judged(job.subject, f"{spans}, none of which offers an RDMA resource", "pod.spec.nodeName")
    without = [pod for pod in members if not asks_fabric(pod, names)]
    if without and all(pod.spec.host_network for pod in without):
        return not_judged(job.subject, f"{spans} in the hosts' network: they need no resource to reach the fabric", "pod.spec.hostNetwork")
    if without and all(pod.spec.resource_claims for pod in without):
        return not_judged(job.subject, f"{spans} with resource claims, which may bring fabric devices", "pod.spec.resourceClaims")
    observed = f"{len(members) - len(without)} of {len(members)} pods ask for it"
    expected = f"every pod asks for one of {', '.join(names)}"
    if without:
        message = f"{spans}, and pod {without[0].name} asks for none of {', '.join(names)}: NCCL falls back to TCP without a word"
        return bad(job.subject, observed, expected, SOURCE, message)
    return ok(job.subject, f"{observed}; {spans}", expected, SOURCE)


def asks_fabric(pod: Pod, names: tuple[str, ...]) -> bool:
    """Whether some container of a pod asks for a fabric resource."""
    return any(
        whole({**(container.resources.limits or {}), **(container.resources.requests or {})}.get(name)) > 0
        for container in pod.spec.every_container()
        for name in names
    )
