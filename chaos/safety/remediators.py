"""Remediators: programs that repair nodes by themselves. If they react to a fault, the experiment tests them and not its target."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

import msgspec

from chaos.cluster.requests import field
from fixtures.kubernetes.models import Json


class RemediatorSigns(msgspec.Struct, frozen=True, kw_only=True):
    """How one is recognised: names of its workloads (globs), labels of nodes that it manages, labels by which a node opts out."""

    name: str
    words: str
    workloads: tuple[str, ...]
    node_labels: tuple[str, ...] = ()
    opt_out: tuple[tuple[str, str], ...] = ()


KNOWN_REMEDIATORS = (
    RemediatorSigns(
        name="nvsentinel",
        words="NVSentinel quarantines, drains and repairs nodes",
        workloads=("fault-quarantine*", "node-drainer*", "fault-remediation*", "*nvsentinel*"),
        node_labels=("dgxc.nvidia.com/nvsentinel-state",),
        opt_out=(("k8saas.nvidia.com/ManagedByNVSentinel", "false"), ("nvsentinel.dgxc.nvidia.com/managed", "false")),
    ),
    RemediatorSigns(
        name="eks-node-monitoring",
        words="EKS auto repair replaces or reboots nodes whose AcceleratedHardwareReady is false",
        workloads=("eks-node-monitoring-agent*",),
    ),
    RemediatorSigns(
        name="karpenter",
        words="Karpenter replaces nodes",
        workloads=("karpenter*",),
        node_labels=("karpenter.sh/nodepool", "karpenter.sh/provisioner-name"),
    ),
    RemediatorSigns(
        name="cluster-autoscaler",
        words="Cluster Autoscaler removes nodes that look unneeded or unregistered",
        workloads=("cluster-autoscaler*", "*-cluster-autoscaler"),
    ),
    RemediatorSigns(name="draino", words="draino drains nodes by their conditions", workloads=("draino*",)),
    RemediatorSigns(
        name="medik8s",
        words="medik8s remediates unhealthy nodes",
        workloads=("node-healthcheck*", "self-node-remediation*", "fence-agents-remediation*"),
    ),
)
"""Known ones, by the names that they are deployed with (docs/facts/device-health.md#remediators)."""

NAMES = tuple(sign.name for sign in KNOWN_REMEDIATORS)


class Remediator(msgspec.Struct, frozen=True, kw_only=True):
    """One that was found, and by what."""

    name: str
    found_by: str
    words: str


def find_remediators(workloads: Iterable[Json], nodes: Sequence[Json], targets: Sequence[str]) -> tuple[Remediator, ...]:
    """Those that could react to what happens to the nodes named in ``targets``, unless all of these have opted out.

    ``workloads`` are the cluster's Deployments and DaemonSets, ``nodes`` all its nodes. A copy in anybody's namespace counts too: it is
    safer to ask once too often.
    """
    running = [obj for obj in workloads if not _switched_off(obj)]
    deployed = [(str(field(obj, "metadata", "namespace")), str(field(obj, "metadata", "name"))) for obj in running]
    found = []
    for sign in KNOWN_REMEDIATORS:
        seen = next((f"{ns}/{name}" for ns, name in deployed if any(fnmatch.fnmatchcase(name, glob) for glob in sign.workloads)), "")
        if not seen:
            label = next((key for node in nodes for key in sign.node_labels if key in _labels(node)), "")
            seen = f"node label {label}" if label else ""
        if seen and not _opted_out(sign, [node for node in nodes if field(node, "metadata", "name") in targets]):
            found.append(Remediator(name=sign.name, found_by=seen, words=sign.words))
    return tuple(found)


def _switched_off(workload: Json) -> bool:
    """Whether a workload runs nothing and is not meant to: scaled to none, or wanted on no node by what its controller saw last."""
    if field(workload, "spec", "replicas") == 0:
        return not field(workload, "status", "replicas")
    seen = field(workload, "status", "observedGeneration") == field(workload, "metadata", "generation")
    scheduled = [field(workload, "status", f"{which}NumberScheduled") for which in ("desired", "current")]
    return seen and scheduled == [0, 0]


def _opted_out(sign: RemediatorSigns, nodes: Sequence[Json]) -> bool:
    return bool(nodes) and bool(sign.opt_out) and all(any(_labels(node).get(key) == value for key, value in sign.opt_out) for node in nodes)


def _labels(node: Json) -> dict[str, str]:
    return field(node, "metadata", "labels") or {}
