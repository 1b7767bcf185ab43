"""NET-10: jobs that span nodes ask for the fabric."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from conformance.net.advertising import allocatable, fabric_resources, offering_nodes
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope, whole
from fixtures.model.jobs.gang_job import GangJob
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

SOURCE = "pod.spec.containers[].resources"


def check_jobs(scope: Scope) -> Iterator[Finding]:
    """NET-10: every member of a multi-node device job asks for a fabric resource. Raises :class:`NotApplicable` without RDMA nodes."""
    names = fabric_resources(scope)
    offering = {node.name for node in offering_nodes(scope)}
    if not offering:
        raise NotApplicable("NoRdmaNodes", "no node offers an RDMA resource")
    for job in map(partial(_of_devices, scope), gang_jobs(scope)):
        spans = why_multi_node(scope, job)
        if spans:
            yield _judge(job, spans, names, offering)


def _of_devices(scope: Scope, job: GangJob) -> GangJob:
    """The job without its pods that hold no device, such as a launcher or Ray's head: they need no fabric."""
    pods = [pod for pod in job.pods if (demand := scope.device_demand_of(pod)).devices or demand.unknown]
    return msgspec.structs.replace(job, pods=tuple(pods), needed=job.needed - len(job.pods) + len(pods))


def why_multi_node(scope: Scope, job: GangJob) -> str:
    """Why a job spans nodes, as a clause: where its members are, or that no node could hold it; empty when it does not."""
    nodes = {pod.spec.node_name for pod in _members(job) if pod.spec.node_name}
    if len(nodes) > 1:
        return f"its pods run on {len(nodes)} nodes"
    for name, count in _asked(scope, job).items():
        largest = max((allocatable(node, name) for node in scope.accelerator_nodes), default=0)
        if largest and count > largest:
            return f"it asks for {count} {name} and the largest node has {largest}"
    return ""


def _asked(scope: Scope, job: GangJob) -> dict[str, int]:
    """Devices the whole job asks for: its largest member's, times the members it needs. What has ended asks for none any more."""
    largest: dict[str, int] = {}
    members = _members(job)
    for pod in members:
        for name, count in scope.devices_of(pod.spec).items():
            largest[name] = max(largest.get(name, 0), count)
    return {name: count * max(job.needed, len(members)) for name, count in largest.items()}


def _members(job: GangJob) -> list[Pod]:
    """Pods of a job without those that have ended or are being deleted: others stand for these."""
    return [pod for pod in job.pods if not pod.finished and not pod.metadata.deletion_timestamp]


def _judge(job: GangJob, spans: str, names: tuple[str, ...], offering: set[str]) -> Finding:
    members = _members(job)
    placed = {pod.spec.node_name for pod in members if pod.spec.node_name}
    about = About(job.subject, SOURCE)
    if placed and not placed & offering:
        return about.not_judged(f"{spans}, none of which offers an RDMA resource", source="pod.spec.nodeName")
    without = [pod for pod in members if not asks_fabric(pod, names)]
    if without and all(pod.spec.host_network for pod in without):
        return about.not_judged(f"{spans} in the hosts' network: they need no resource to reach the fabric", source="pod.spec.hostNetwork")
    if without and all(pod.spec.resource_claims for pod in without):
        return about.not_judged(f"{spans} with resource claims, which may bring fabric devices", source="pod.spec.resourceClaims")
    observed = f"{len(members) - len(without)} of {len(members)} pods ask for it"
    expected = f"every pod asks for one of {', '.join(names)}"
    if without and job.unsure:
        return about.not_judged(f"{spans}, and whether these talk to each other is not known: {job.unsure}")
    if without:
        message = f"{spans}, and pod {without[0].name} asks for none of {', '.join(names)}: NCCL falls back to TCP without a warning"
        return about.bad(message, cause="JobWithoutFabric", observed=observed, expected=expected)
    return about.ok(f"{observed}; {spans}", expected=expected)


def asks_fabric(pod: Pod, names: tuple[str, ...]) -> bool:
    """Whether some container of a pod asks for a fabric resource."""
    return any(
        whole({**(container.resources.limits or {}), **(container.resources.requests or {})}.get(name)) > 0
        for container in pod.spec.every_container()
        for name in names
    )
