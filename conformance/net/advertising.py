"""Fabric resources: nodes advertise what they should (NET-02, NET-03), and jobs that span nodes ask for them (NET-10)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from conformance.common_findings import reconciling
from conformance.net.nic_policy import Promises, promises, subject_of, the_policy
from conformance.net.reading import name_of, text
from fixtures.kubernetes.models import Json, Node, Pod, PodSpec
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import whole
from fixtures.model.jobs.gang_jobs import GangJob, gang_jobs
from fixtures.model.nodes.accelerators import adapter_labels
from fixtures.model.placement.affinity import admits, terms
from fixtures.text.sentences import natural
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

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
    nodes = {pod.node_name for pod in _members(job) if pod.node_name}
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
    placed = {pod.node_name for pod in members if pod.node_name}
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


MACHINE_TYPE = "node.kubernetes.io/instance-type"
KIND_LABELS = (MACHINE_TYPE, "nvidia.com/gpu.product", "amd.com/gpu.product-name")
"""Labels that tell kinds of machines apart."""
NAD_KEY = "k8s.cni.cncf.io/network-attachment-definitions"
NAD_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"

_POSITIVE = ("In", "Exists")


class FabricNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that should offer fabric devices. ``reasons`` say why; ``left_out`` why it need not after all."""

    node: Node
    reasons: tuple[str, ...]
    left_out: str = ""


def allocatable(node: Node, resource: str) -> int:
    """Units of a resource that pods can get on a node."""
    return whole(node.allocatable.get(resource))


def fabric_resources(scope: Scope) -> tuple[str, ...]:
    """Names of fabric resources: those the NicClusterPolicy configures, and those of nodes that the suite's policy calls RDMA."""
    names = dict.fromkeys(promises(the_policy(scope)).names)
    for node in scope.snapshot.nodes:
        names.update(dict.fromkeys(sorted(name for name in node.capacity if scope.is_rdma(name) and not scope.is_device(name))))
    return tuple(names)


def offering_nodes(scope: Scope) -> list[Node]:
    """Nodes on which pods can get some fabric resource, by name."""
    names = fabric_resources(scope)
    return [
        node for node in sorted(scope.snapshot.nodes, key=lambda n: natural(n.name)) if any(allocatable(node, name) > 0 for name in names)
    ]


def fabric_nodes(scope: Scope) -> list[FabricNode]:
    """Nodes that have fabric devices by NFD, by what they advertise, or by the NicClusterPolicy's explicit choice."""
    policy = the_policy(scope)
    names, promised = fabric_resources(scope), promises(policy).names
    affinity = mapping(policy, "spec", "nodeAffinity")
    chooser = PodSpec(affinity={"nodeAffinity": affinity}) if affinity else PodSpec()
    found = []
    for node in sorted(scope.snapshot.nodes, key=lambda n: natural(n.name)):
        reasons = [f"label {label}" for label in adapter_labels(node)]
        advertised = [name for name in names if name in node.capacity]
        reasons += [f"capacity {name}" for name in advertised]
        chosen = admits(chooser, node)
        if chosen and _positive(chooser):
            reasons.append("spec.nodeAffinity of the NicClusterPolicy")
        if not reasons:
            continue
        left_out = "" if chosen or advertised else "spec.nodeAffinity of the NicClusterPolicy leaves it out"
        if len(reasons) == len(advertised) and not promised and (empty := _never_had(scope, node, advertised)):
            left_out = empty
        if not left_out and not node.ready:
            left_out = "NotReady"
        found.append(FabricNode(node=node, reasons=tuple(reasons), left_out=left_out))
    return found


def _never_had(scope: Scope, node: Node, names: list[str]) -> str:
    """Why capacities of 0 make no RDMA node; empty where they do.

    The kubelet keeps a 0 of a plugin that serves no device, as on machines without EFA. A machine of the same kind that has some tells
    that this one lost them.
    """
    of_kind = [other for other in scope.snapshot.nodes if _kind(other) == _kind(node)]
    if any(whole(other.capacity.get(name)) for other in of_kind for name in names):
        return ""
    return f"{', '.join(names)} is 0 on every machine of its kind"


def _positive(chooser: PodSpec) -> bool:
    """Whether required affinity names nodes by something they have: ``DoesNotExist`` alone chooses every other node."""
    expressions = [item for term in terms(chooser) for item in mappings(term.get("matchExpressions"))]
    return any(item.get("operator") in _POSITIVE for item in expressions)


def check_advertised(scope: Scope) -> Iterator[Finding]:
    """NET-02: what the policy's configuration promises is there, on every node that has the devices."""
    policy = the_policy(scope)
    promised = promises(policy)
    nodes = fabric_nodes(scope)
    if policy is not None:
        yield from _check_promises(scope, policy, promised)
    for entry in nodes:
        yield _check_node(scope, entry, promised, nodes)


def _check_promises(scope: Scope, policy: Json, promised: Promises) -> Iterator[Finding]:
    state = text(mapping(policy, "status").get("state")) or "no state"
    for source, message in promised.troubles:
        yield bad(
            subject_of(policy),
            cause="FabricConfigUnreadable",
            observed="unreadable",
            expected="a list of resources",
            source=source,
            message=message,
        )
    sources = {item.resource: item.source for item in promised.resources}
    for name, source in sources.items():
        about = About(Subject("resource", name), source, "at least one node that advertises it")
        offering = [node.name for node in scope.snapshot.nodes if allocatable(node, name) > 0]
        message = f"{name} is configured and no node advertises it, although the NicClusterPolicy says {state}{_idle_agents(scope)}"
        if offering:
            yield about.ok(f"{len(offering)} nodes")
        elif doing := reconciling(scope, policy):
            yield about.undecided(f"{message}; {doing}", cause=CHANGE_UNDER_WAY)
        else:
            yield about.bad(message, cause="FabricResourceMissing", observed="no node")


def _idle_agents(scope: Scope) -> str:
    """Clause that names the operator's DaemonSets that run nowhere."""
    listing = scope.snapshot.listing("apps/daemonsets")
    idle = [
        item.name
        for item in listing.items
        if item.status.desired_number_scheduled == 0
        and any(owner.kind == "NicClusterPolicy" for owner in item.metadata.owners)
        and scope.platform.of(item.namespace).components
    ]
    return f": its DaemonSets {', '.join(sorted(idle)[:5])} match zero nodes" if idle else ""


def _check_node(scope: Scope, entry: FabricNode, promised: Promises, nodes: list[FabricNode]) -> Finding:
    node, subject_ = entry.node, subject(entry.node)
    if entry.left_out:
        return not_judged(subject_, message=f"{entry.left_out} (it counts as an RDMA node by {entry.reasons[0]})", source="node.status")
    wanted = _wanted(scope, node, promised, nodes)
    observed = ", ".join(f"{name}: {allocatable(node, name)}" for name in wanted)
    if not wanted:
        return not_judged(
            subject_, message="it has fabric devices, and nothing says under which resource they are offered", source=entry.reasons[0]
        )
    missing = [name for name in wanted if allocatable(node, name) < 1]
    advertises_nothing = missing == wanted and not any(whole(node.capacity.get(name)) for name in missing)
    if advertises_nothing and node.name not in scope.sources:
        return not_judged(subject_, message="it has no accelerator and advertises no fabric resource", source=entry.reasons[0])
    expected = ", ".join(f"{name} > 0" for name in wanted)
    about = About(subject_, "node.status.allocatable", expected, observed)
    if missing:
        message = f"it is an RDMA node by {entry.reasons[0]} and advertises no {', '.join(missing)}: pods that ask for it cannot run here"
        return about.bad(message, cause="FabricResourceMissing")
    if not promised.names:
        message = f"{observed}, like machines of its kind: no NicClusterPolicy says what it must advertise"
        return about.not_judged(message, source=entry.reasons[0])
    return about.ok()


def _wanted(scope: Scope, node: Node, promised: Promises, nodes: list[FabricNode]) -> list[str]:
    """Resources that a node must advertise.

    Those of the NicClusterPolicy, but for one that only machines of another kind advertise while this one advertises
    another of them (each entry of a configuration selects its own devices). Without a policy those of machines of its kind.
    """
    kind = _kind(node)
    of_kind = [other.node for other in nodes if _kind(other.node) == kind]
    if not promised.names:
        return [name for name in fabric_resources(scope) if any(name in other.capacity for other in of_kind)]
    if not any(allocatable(node, name) > 0 for name in promised.names):
        return list(promised.names)
    elsewhere = {name for name in promised.names if any(allocatable(other, name) > 0 for other in scope.snapshot.nodes)}
    ours = {name for name in promised.names if any(name in other.capacity for other in of_kind)}
    return [name for name in promised.names if name in ours or name not in elsewhere]


def _kind(node: Node) -> tuple[str, ...]:
    return tuple(node.metadata.label.get(label, "") for label in KIND_LABELS)


def check_attachments(scope: Scope) -> Iterator[Finding]:
    """NET-03: the resource that a NetworkAttachmentDefinition names is one that some node advertises."""
    offered: dict[str, int] = {}
    for node in scope.snapshot.nodes:
        for name in node.allocatable:
            offered[name] = offered.get(name, 0) + (allocatable(node, name) > 0)
    for item in scope.snapshot.objects(NAD_KEY):
        name, namespace = name_of(item)
        subject_ = Subject("NetworkAttachmentDefinition", name, namespace)
        source = f"annotation {NAD_RESOURCE}"
        resource = text(mapping(item, "metadata", "annotations").get(NAD_RESOURCE))
        about = About(subject_, source, "a resource that some node advertises")
        if not resource:
            yield about.not_judged("it names no resource: pods that use it need none")
        elif count := offered.get(resource, 0):
            yield about.ok(f"{resource} on {count} nodes")
        else:
            message = f"it names {resource}, which no node advertises: pods that use the network stay Pending"
            yield about.bad(message, cause="AttachmentDangling", observed=resource)
