"""The agents of the device stack: which DaemonSets they are, and the nodes where each must run (facts 1.8)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from conformance.fence.selection import admits, terms
from conformance.scope import Scope, matches
from fixtures.models import DaemonSet, Node, Pod, PodSpec, Taint, Toleration

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
"""Names of agents that nobody's custom resource owns (stand-alone charts and clouds), in namespaces of the platform."""

_PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
_DEPLOY = "nvidia.com/gpu.deploy."
_ON_EVERY_GPU_NODE = frozenset(
    f"{_DEPLOY}{name}" for name in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "operator-validator")
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
"""Tolerations that the DaemonSet controller gives every pod it makes."""


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


def full_name(daemonset: DaemonSet) -> str:
    """``namespace/name``."""
    return f"{daemonset.namespace}/{daemonset.name}"


def is_agent(scope: Scope, daemonset: DaemonSet) -> bool:
    """Whether a DaemonSet is an agent of the stack: owned by a vendor's resource, a device plugin by its mounts, or known by name."""
    if any(owner.kind in OWNERS for owner in daemonset.metadata.owners) or _mounts_plugin_folder(daemonset.spec.template.spec):
        return True
    return scope.is_infrastructure(daemonset.namespace) and matches(daemonset.name, NAMES)


def _mounts_plugin_folder(spec: PodSpec) -> bool:
    paths = [volume["hostPath"].get("path") for volume in spec.volumes or () if isinstance(volume.get("hostPath"), dict)]
    return any(isinstance(path, str) and path.rstrip("/") == _PLUGIN_FOLDER for path in paths)


def agents(scope: Scope) -> list[Agent]:
    """The agents of the cluster: those the policy names (on every accelerator node), else those that are installed (where they select)."""
    expected = scope.policy.operators.expected_agents
    daemonsets = sorted(scope.snapshot.daemonsets, key=full_name)
    if expected is not None:
        chosen = [daemonset for daemonset in daemonsets if matches(full_name(daemonset), expected)]
    else:
        chosen = [daemonset for daemonset in daemonsets if is_agent(scope, daemonset)]
    pods = _pods_by_owner(scope.snapshot.pods)
    return [_agent(scope, daemonset, pods.get(full_name(daemonset), {}), everywhere=expected is not None) for daemonset in chosen]


def missing_agents(scope: Scope) -> list[str]:
    """Globs of expected agents that match no DaemonSet."""
    names = [full_name(daemonset) for daemonset in scope.snapshot.daemonsets]
    return [glob for glob in scope.policy.operators.expected_agents or () if not any(matches(name, [glob]) for name in names)]


def _agent(scope: Scope, daemonset: DaemonSet, pods: dict[str, Pod], *, everywhere: bool) -> Agent:
    spec = daemonset.spec.template.spec
    accelerators = {node.name for node in scope.accelerator_nodes}
    selected = [node for node in scope.snapshot.nodes if admits(spec, node)]
    agent = Agent(
        daemonset=daemonset,
        accelerator_nodes=scope.accelerator_nodes if everywhere else [node for node in selected if node.name in accelerators],
        other_nodes=[],
        optional=not everywhere and _may_select_none(scope, spec),
        pods=pods,
    )
    others = [node for node in selected if node.name not in accelerators and not agent.untolerated(node)]
    return msgspec.structs.replace(agent, other_nodes=others)


def _may_select_none(scope: Scope, spec: PodSpec) -> bool:
    """Whether an agent may be of no use here: it selects by more than every GPU node has, and nothing is missing without it.

    Clouds install one plugin per node image and size, told apart by required affinity (facts 7.2, GKE). The same affinity in a
    chart selects nothing where Node Feature Discovery is absent, which shows in nodes that offer no device.
    """
    if not set(spec.node_selector or {}) <= _ON_EVERY_GPU_NODE:
        return True
    offering = [row.get("capacity") or row.get("ResourceSlice") for row in scope.sources.values()]
    return bool(terms(spec)) and bool(offering) and all(offering)


def _pods_by_owner(pods: Iterable[Pod]) -> dict[str, dict[str, Pod]]:
    """``{namespace/daemonset: {node: pod}}`` of pods that are not finished; a Ready pod hides one that is being replaced."""
    found: dict[str, dict[str, Pod]] = {}
    for pod in pods:
        owner = pod.controller
        if owner is None or owner.kind != "DaemonSet" or pod.finished or not pod.spec.node_name:
            continue
        by_node = found.setdefault(f"{pod.namespace}/{owner.name}", {})
        if pod.spec.node_name not in by_node or is_ready(pod):
            by_node[pod.spec.node_name] = pod
    return found


def is_ready(pod: Pod) -> bool:
    """Whether a pod's Ready condition is True and it is not being deleted."""
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True" and not pod.metadata.deletion_timestamp


def listed(names: Iterable[str], limit: int = 5) -> str:
    """Names for a sentence: the first few and how many more."""
    all_names = list(names)
    more = f" and {len(all_names) - limit} more" if len(all_names) > limit else ""
    return ", ".join(all_names[:limit]) + more
