"""The agents of the device stack: which DaemonSets they are, and the nodes where each must run (docs/facts/gpu-operator.md#agents)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from conformance.scope.components import Workload
from conformance.scope.platform_namespaces import RELEASE, RELEASE_NAMESPACE
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import DaemonSet, Node, Pod, PodSpec, Taint, Toleration
from fixtures.model.placement.affinity import admits, terms
from fixtures.model.platform.components import mounts_plugin_folder
from fixtures.text.sentences import in_order

OWNERS = frozenset(("ClusterPolicy", "NVIDIADriver", "GPUCluster", "NicClusterPolicy", "DeviceConfig"))
NAMES = (
    "*device-plugin*",
    "*gpu-feature-discovery*",
    "*dcgm*",
    "*node-feature-discovery-worker*",
    "nfd-worker*",
    "nvidia-driver*",
    "nvidia-gpu-driver*",
    "*container-toolkit*",
    "*mig-manager*",
    "*operator-validator*",
    "*node-labeller*",
    "*metrics-exporter*",
    "*dra-driver*kubelet-plugin*",
    "intel-gpu-plugin*",
    "neuron-*",
)
"""Names of agents that nobody's custom resource owns (stand-alone charts and clouds)."""

MONITORS = ("*health-monitor*", "*node-problem-detector*", "*node-monitoring-agent*", "*nvsentinel*monitor*")
"""Names of programs that watch the health of nodes and devices. Charts install variants of them, of which one runs on a node."""

DEPLOY = "nvidia.com/gpu.deploy."
"""What the labels begin with by which the operator has agents on a node."""

_ON_EVERY_GPU_NODE = frozenset(
    f"{DEPLOY}{name}" for name in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "operator-validator")
)
_AUTOMATIC = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""Tolerations that the DaemonSet controller gives every pod it makes (docs/facts/nodes.md#tolerations-of-daemonsets)."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet of the stack.

    ``accelerator_nodes`` are those where it must run, whatever their taints; ``other_nodes`` are nodes without devices
    that it selects and tolerates. ``optional`` says that it may select no node at all (MIG manager without MIG, a cloud's
    plugin for node images or sizes that are not there).
    ``pods`` are its unfinished pods by node.
    """

    daemonset: DaemonSet
    accelerator_nodes: list[Node]
    other_nodes: list[Node]
    optional: bool
    pods: dict[str, Pod]

    @property
    def spec(self) -> PodSpec:
        """The pod spec of its template."""
        return self.daemonset.spec.template.spec

    def untolerated(self, node: Node) -> list[Taint]:
        """Hard taints of a node that keep its pods away."""
        tolerations = [*(self.spec.tolerations or ()), *_AUTOMATIC]
        return [
            taint
            for taint in node.spec.taints
            if taint.effect in ("NoSchedule", "NoExecute") and not any(toleration.tolerates(taint) for toleration in tolerations)
        ]


def paused_agents(node: Node, word: str) -> list[str]:
    """Agents that a program keeps off a node by this word in their label."""
    labels = node.metadata.label
    return in_order(key.removeprefix(DEPLOY) for key in keys_with(labels, DEPLOY) if labels[key] == word)


def full_name(daemonset: DaemonSet) -> str:
    """``namespace/name``."""
    return f"{daemonset.namespace}/{daemonset.name}"


def workload_of(daemonset: DaemonSet) -> Workload:
    """A DaemonSet as a candidate."""
    meta = daemonset.metadata
    release = (meta.annotation.get(RELEASE, ""), meta.annotation.get(RELEASE_NAMESPACE, ""))
    owners = tuple(owner.uid for owner in meta.owners)
    return Workload(kind="DaemonSet", namespace=meta.namespace, name=meta.name, owners=owners, release=release)


def is_agent(scope: Scope, daemonset: DaemonSet) -> bool:
    """Whether a DaemonSet is an agent of the stack: it looks like one, in a namespace where agents are.

    It looks like one by a vendor's resource that owns it, by the mounts of a device plugin, or by its name. One that the policy names
    with its namespace is one wherever it is.
    """
    if is_named(scope, daemonset):
        return True
    return scope.platform_workloads.admits(daemonset.namespace) and (_has_marks(daemonset) or matches(daemonset.name, (*NAMES, *MONITORS)))


def is_named(scope: Scope, daemonset: DaemonSet) -> bool:
    """Whether the policy names a DaemonSet as an expected agent."""
    return any(_meant(scope, glob, daemonset) for glob in scope.policy.operators.expected_agents or ())


def _has_marks(daemonset: DaemonSet) -> bool:
    """Whether a DaemonSet says of itself that it is an agent: so does every copy."""
    owned = any(owner.kind in OWNERS for owner in daemonset.metadata.owners)
    return owned or mounts_plugin_folder(daemonset.spec.template.spec)


def look_alikes(scope: Scope) -> list[DaemonSet]:
    """DaemonSets with the marks of an agent in namespaces that nothing proves to be the platform's, and that no policy names.

    Each is a copy, or an agent that somebody installed under a name of his own.
    """
    if scope.policy.operators.expected_agents is not None:
        return []
    items = sorted(scope.snapshot.listing("apps/daemonsets").items, key=full_name)
    return [item for item in items if _has_marks(item) and not scope.platform_workloads.admits(item.namespace)]


def agents(scope: Scope) -> list[Agent]:
    """The agents of the cluster: those the policy names (on every accelerator node), else those that are installed (where they select)."""
    return scope.cached(_agents)


def _agents(scope: Scope) -> list[Agent]:
    expected = scope.policy.operators.expected_agents
    daemonsets = sorted(scope.snapshot.daemonsets, key=full_name)
    if expected is not None:
        chosen = [daemonset for daemonset in daemonsets if is_named(scope, daemonset)]
    else:
        chosen = [daemonset for daemonset in daemonsets if is_agent(scope, daemonset)]
    pods = _pods_by_owner(scope.snapshot.pods)
    return [_agent(scope, item, pods.get((item.namespace, item.metadata.uid), {}), everywhere=expected is not None) for item in chosen]


def missing_agents(scope: Scope) -> list[str]:
    """Globs of expected agents that match no DaemonSet."""
    daemonsets, expected = scope.snapshot.daemonsets, scope.policy.operators.expected_agents or ()
    return [glob for glob in expected if not any(_meant(scope, glob, daemonset) for daemonset in daemonsets)]


def _meant(scope: Scope, glob: str, daemonset: DaemonSet) -> bool:
    """Whether the policy means a DaemonSet by ``namespace/name``: a pattern for the namespace means those where agents are."""
    namespace = glob.partition("/")[0]
    return matches(full_name(daemonset), [glob]) and (
        namespace == daemonset.namespace or scope.platform_workloads.admits(daemonset.namespace)
    )


def _agent(scope: Scope, daemonset: DaemonSet, pods: dict[str, Pod], *, everywhere: bool) -> Agent:
    spec = daemonset.spec.template.spec
    accelerators = scope.sources  # by the names of accelerator nodes
    selected = [node for node in scope.snapshot.nodes if admits(spec, node)]
    agent = Agent(
        daemonset=daemonset,
        accelerator_nodes=[
            node
            for node in (scope.accelerator_nodes if everywhere else selected)
            if node.name in accelerators and not scope.virtual(node)  # its pods run elsewhere, and those of agents nowhere
        ],
        other_nodes=[],
        optional=not everywhere and _may_select_none(scope, spec),
        pods=pods,
    )
    others = [node for node in selected if node.name not in accelerators and not agent.untolerated(node)]
    return msgspec.structs.replace(agent, other_nodes=others)


def _may_select_none(scope: Scope, spec: PodSpec) -> bool:
    """Whether an agent may be of no use here: it selects by more than every GPU node has, and nothing is missing without it.

    Clouds install one plugin per node image and size, told apart by required affinity (docs/facts/vendors-and-clouds.md#gke). The
    same affinity in a chart selects nothing where Node Feature Discovery is absent, which shows in nodes that offer no device.
    """
    if not set(spec.node_selector or {}) <= _ON_EVERY_GPU_NODE:
        return True
    offering = [row.get("capacity") or row.get("ResourceSlice") for row in scope.sources.values()]
    return bool(terms(spec)) and bool(offering) and all(offering)


def _pods_by_owner(pods: Iterable[Pod]) -> dict[tuple[str, str], dict[str, Pod]]:
    """``{(namespace, UID of the DaemonSet): {node: pod}}`` of pods that are not finished; a Ready pod hides one that is being replaced."""
    found: dict[tuple[str, str], dict[str, Pod]] = {}
    for pod in pods:
        owner = pod.controller
        if owner is None or owner.kind != "DaemonSet" or pod.finished or not pod.spec.node_name:
            continue
        by_node = found.setdefault((pod.namespace, owner.uid), {})
        if pod.spec.node_name not in by_node or is_ready(pod):
            by_node[pod.spec.node_name] = pod
    return found


def is_ready(pod: Pod) -> bool:
    """Whether a pod's Ready condition is True and it is not being deleted."""
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True" and not pod.metadata.deletion_timestamp
