"""Fabric resources: what installs them is ready (NET-01), nodes advertise them (NET-02, NET-03), and jobs ask for them (NET-10)."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import msgspec

from fixtures.kubernetes.models import Node, Pod, PodSpec
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import whole
from fixtures.model.devices.fabric import (
    SINGLETON,
    NicPolicy,
    Promises,
    State,
    allocatable,
    asks_fabric,
    fabric_resources,
    kind_of,
    nic_policies,
    offering_nodes,
    promised,
    text,
    the_policy,
    virtual_functions,
)
from fixtures.model.jobs.gang_jobs import GangJob, gang_jobs
from fixtures.model.nodes.accelerators import adapter_labels
from fixtures.model.placement.affinity import admits, terms
from fixtures.model.platform.namespaces import NIC_CLUSTER_POLICIES
from fixtures.model.platform.operators import operator_object, reconciling
from fixtures.text.sentences import natural
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

SOURCE = "pod.spec.containers[].resources"

GOOD_STATES = ("ready", "ignore")
"""``ignore``: the state is not asked for in the spec."""


def check_nic_cluster_policy(scope: Scope) -> Iterator[Finding]:
    """NET-01: the policy that counts is ready, and so is every state it applied."""
    for policy in nic_policies(scope):
        place, state = Subject("NicClusterPolicy", policy.state.name), policy.state.state
        if place.name != SINGLETON:
            message = f"the operator ignores every NicClusterPolicy but {SINGLETON} (state {state or 'not reported'})"
            yield not_judged(place, message=message, source="metadata.name")
            continue
        doing = reconciling(scope, operator_object(NIC_CLUSTER_POLICIES, policy.body))
        first = About(place, "status.state", "ready", state or "no state")
        yield _state(first, policy.state, "the operator reports", "so what it installs for the fabric cannot be relied on", doing)
        for one in policy.applied:
            part = Subject("applied state", f"{place.name}/{one.name or '?'}")
            about = About(part, "status.appliedStates[].state", " or ".join(GOOD_STATES), one.state or "no state")
            yield _state(about, one, f"for {one.name or 'a state'} the operator reports", "so its agents do not work", doing)


def check_virtual_functions(scope: Scope) -> Iterator[Finding]:
    """NET-01: what the SR-IOV operator says of the virtual functions of an accelerator node."""
    known = {node.name for node in scope.accelerator_nodes}
    for one in virtual_functions(scope):
        if one.name in known:
            about = About(Subject("SriovNetworkNodeState", one.name), "status.syncStatus", "Succeeded", one.state or "no state")
            message = f"the virtual functions of {one.name} are {about.observed}{f': {one.reason[:200]}' if one.reason else ''}"
            if one.state == "Failed":
                yield about.bad(f"{message}, so what they would offer is missing there", cause="OperatorObjectNotReady")
            elif one.state != about.expected:
                yield about.undecided(f"{message}; nothing says since when", cause=CHANGE_UNDER_WAY)
            else:
                yield about.ok()


def _state(about: About, one: State, who: str, so: str, doing: str) -> Finding:
    """What a state means. ``who`` has it, ``so`` follows from it, ``doing`` is being done to the policy, or empty."""
    if one.state in about.expected.split(" or "):
        return about.ok()
    message = f"{who} {about.observed}{f' ({one.reason})' if one.reason else ''}, {so}"
    if doing:
        return about.undecided(f"{message}; {doing}", cause=CHANGE_UNDER_WAY)
    return about.bad(message, cause="OperatorObjectNotReady")


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
    if without and all(pod.host_network for pod in without):
        return about.not_judged(f"{spans} in the hosts' network: they need no resource to reach the fabric", source="pod.spec.hostNetwork")
    if without and all(pod.claims for pod in without):
        return about.not_judged(f"{spans} with resource claims, which may bring fabric devices", source="pod.spec.resourceClaims")
    observed = f"{len(members) - len(without)} of {len(members)} pods ask for it"
    expected = f"every pod asks for one of {', '.join(names)}"
    if without and job.unsure:
        return about.not_judged(f"{spans}, and whether these talk to each other is not known: {job.unsure}")
    if without:
        message = f"{spans}, and pod {without[0].name} asks for none of {', '.join(names)}: NCCL falls back to TCP without a warning"
        return about.bad(message, cause="JobWithoutFabric", observed=observed, expected=expected)
    return about.ok(f"{observed}; {spans}", expected=expected)


NAD_KEY = "k8s.cni.cncf.io/network-attachment-definitions"
NAD_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"

_POSITIVE = ("In", "Exists")


class FabricNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that should offer fabric devices. ``reasons`` say why; ``left_out`` why it need not after all."""

    node: Node
    reasons: tuple[str, ...]
    left_out: str = ""


def fabric_nodes(scope: Scope) -> list[FabricNode]:
    """Nodes that have fabric devices by NFD, by what they advertise, or by the NicClusterPolicy's explicit choice."""
    policy = the_policy(scope)
    names, named = fabric_resources(scope), promised(scope).names
    chooser = policy.chooser if policy is not None else PodSpec()
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
        if len(reasons) == len(advertised) and not named and (empty := _never_had(scope, node, advertised)):
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
    if not scope.cached(_had_by_kind)[kind_of(node)].isdisjoint(names):
        return ""
    return f"{', '.join(names)} is 0 on every machine of its kind"


def _had_by_kind(scope: Scope) -> dict[tuple[str, ...], set[str]]:
    """Resources of which some machine of a kind has more than 0."""
    found: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for node in scope.snapshot.nodes:
        found[kind_of(node)].update(name for name, amount in node.capacity.items() if whole(amount))
    return found


def _positive(chooser: PodSpec) -> bool:
    """Whether required affinity names nodes by something they have: ``DoesNotExist`` alone chooses every other node."""
    expressions = [item for term in terms(chooser) for item in mappings(term.get("matchExpressions"))]
    return any(item.get("operator") in _POSITIVE for item in expressions)


def check_advertised(scope: Scope) -> Iterator[Finding]:
    """NET-02: what the policy's configuration promises is there, on every node that has the devices."""
    policy, nodes = the_policy(scope), fabric_nodes(scope)
    if policy is not None:
        yield from _check_promises(scope, policy)
    promises = promised(scope)
    known: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)  # resources that some fabric node of the kind has, 0 of them too
    for entry in nodes:
        known[kind_of(entry.node)].update(entry.node.capacity)
    for entry in nodes:
        yield _check_node(scope, entry, promises, known[kind_of(entry.node)])


def _check_promises(scope: Scope, policy: NicPolicy) -> Iterator[Finding]:
    state = policy.state.state or "no state"
    for source, message in policy.promises.troubles:
        about = About(Subject("NicClusterPolicy", policy.state.name), source, "a list of resources", "unreadable")
        yield about.bad(message, cause="FabricConfigUnreadable")
    sources = {item.resource: item.source for item in policy.promises.resources}
    for name, source in sources.items():
        about = About(Subject("resource", name), source, "at least one node that advertises it")
        offering = [node.name for node in scope.snapshot.nodes if allocatable(node, name) > 0]
        message = f"{name} is configured and no node advertises it, although the NicClusterPolicy says {state}{_idle_agents(scope)}"
        if offering:
            yield about.ok(f"{len(offering)} nodes")
        elif doing := reconciling(scope, operator_object(NIC_CLUSTER_POLICIES, policy.body)):
            yield about.undecided(f"{message}; {doing}", cause=CHANGE_UNDER_WAY)
        else:
            yield about.bad(message, cause="FabricResourceMissing", observed="no node")


def _idle_agents(scope: Scope) -> str:
    """Clause that names the operator's DaemonSets that run nowhere."""
    listing = scope.snapshot.listing("apps/daemonsets")
    idle = [
        item.name
        for item in listing.items
        if item.desired == 0
        and any(owner.kind == "NicClusterPolicy" for owner in item.metadata.owners)
        and scope.platform.of(item.namespace).components
    ]
    return f": its DaemonSets {', '.join(sorted(idle)[:5])} match zero nodes" if idle else ""


def _check_node(scope: Scope, entry: FabricNode, promises: Promises, of_kind: set[str]) -> Finding:
    node, reason = entry.node, entry.reasons[0]
    if entry.left_out:
        return not_judged(subject(node), message=f"{entry.left_out} (it counts as an RDMA node by {reason})", source="node.status")
    wanted = _wanted(scope, node, promises, of_kind)
    observed, expected = ", ".join(f"{name}: {allocatable(node, name)}" for name in wanted), ", ".join(f"{name} > 0" for name in wanted)
    about = About(subject(node), "node.status.allocatable", expected, observed)
    if not wanted:
        return about.not_judged("it has fabric devices, and nothing says under which resource they are offered", source=reason)
    missing = [name for name in wanted if allocatable(node, name) < 1]
    advertises_nothing = missing == wanted and not any(whole(node.capacity.get(name)) for name in missing)
    if advertises_nothing and node.name not in scope.sources:
        return about.not_judged("it has no accelerator and advertises no fabric resource", source=reason)
    if missing:
        message = f"it is an RDMA node by {reason} and advertises no {', '.join(missing)}: pods that ask for it cannot run here"
        return about.bad(message, cause="FabricResourceMissing")
    if not promises.names:
        message = f"{observed}, like machines of its kind: no NicClusterPolicy says what it must advertise"
        return about.not_judged(message, source=reason)
    return about.ok()


def _wanted(scope: Scope, node: Node, promises: Promises, of_kind: set[str]) -> list[str]:
    """Resources that a node must advertise.

    Those of the NicClusterPolicy, but for one that only machines of another kind advertise while this one advertises
    another of them (each entry of a configuration selects its own devices). Without a policy those ``of_kind``, of machines of its kind.
    """
    if not promises.names:
        return [name for name in fabric_resources(scope) if name in of_kind]
    if not any(allocatable(node, name) > 0 for name in promises.names):
        return list(promises.names)
    elsewhere = {name for name in promises.names if any(allocatable(other, name) > 0 for other in scope.snapshot.nodes)}
    return [name for name in promises.names if name in of_kind or name not in elsewhere]


def check_attachments(scope: Scope) -> Iterator[Finding]:
    """NET-03: the resource that a NetworkAttachmentDefinition names is one that some node advertises."""
    offered: dict[str, int] = {}
    for node in scope.snapshot.nodes:
        for name in node.allocatable:
            offered[name] = offered.get(name, 0) + (allocatable(node, name) > 0)
    for item in scope.snapshot.objects(NAD_KEY):
        meta = mapping(item, "metadata")
        place = Subject("NetworkAttachmentDefinition", text(meta.get("name")), text(meta.get("namespace")))
        resource = text(mapping(meta, "annotations").get(NAD_RESOURCE))
        about = About(place, f"annotation {NAD_RESOURCE}", "a resource that some node advertises")
        if not resource:
            yield about.not_judged("it names no resource: pods that use it need none")
        elif count := offered.get(resource, 0):
            yield about.ok(f"{resource} on {count} nodes")
        else:
            message = f"it names {resource}, which no node advertises: pods that use the network stay Pending"
            yield about.bad(message, cause="AttachmentDangling", observed=resource)
