"""Names that stand for several entries of a list in a catalogue. They are expanded when a catalogue is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fixtures.cluster.kinds import BARE_KEYS, WORKLOAD_KEYS

READ_GROUPS: Mapping[str, tuple[str, ...]] = {
    # Kinds with a pod template, and what tells which custom kinds may hold one. Live pods are not among them: a requirement names
    # `pods` where it judges those too.
    "templates": (*WORKLOAD_KEYS, "apiextensions.k8s.io/customresourcedefinitions"),
    # Further kinds with a pod template, for `hints`: nearly all of their objects are made from workloads, which are judged themselves.
    "bare-templates": BARE_KEYS,
    # What tells which devices a pod asks for through dynamic resource allocation.
    "claims": (
        "resource.k8s.io/resourceslices",
        "resource.k8s.io/deviceclasses",
        "resource.k8s.io/resourceclaims",
        "resource.k8s.io/resourceclaimtemplates",
    ),
    # What tells which pods are one job, and how many it needs, beside pods and claims.
    "gangs": (
        "batch/jobs",
        "batch.volcano.sh/jobs",
        "jobset.x-k8s.io/jobsets",
        "leaderworkerset.x-k8s.io/leaderworkersets",
        "trainer.kubeflow.org/trainjobs",
        "ray.io/rayclusters",
        "ray.io/rayjobs",
        "ray.io/rayservices",
        "kubeflow.org/pytorchjobs",
        "kubeflow.org/tfjobs",
        "kubeflow.org/jaxjobs",
        "kubeflow.org/paddlejobs",
        "kubeflow.org/xgboostjobs",
        "kubeflow.org/mpijobs",
        "grove.io/podcliques",
        "scheduling.volcano.sh/podgroups",
        "scheduling.x-k8s.io/podgroups",
        "scheduling.run.ai/podgroups",
        "scheduling.k8s.io/podgroups",
        "scheduling.k8s.io/workloads",
        "kueue.x-k8s.io/workloads",
    ),
    # What the node probe goes by, beside nodes and pods: free devices, and how a pod without any sees them.
    "node-documents": (
        "node.k8s.io/runtimeclasses",
        "resource.k8s.io/resourceslices",
        "resource.k8s.io/deviceclasses",
        "resource.k8s.io/resourceclaims",
        "resource.k8s.io/devicetaintrules",
    ),
    # What tells which devices a new claim may still get.
    "claimable": (
        "resource.k8s.io/resourceslices",
        "resource.k8s.io/deviceclasses",
        "resource.k8s.io/resourceclaims",
        "resource.k8s.io/devicetaintrules",
    ),
}
"""Groups for ``reads``, ``optional_reads`` and ``hints``: resource keys by group."""

WRITE_GROUPS: Mapping[str, tuple[str, ...]] = {
    # A namespace of the run, with its limits, and its removal.
    "workspace": (
        "create namespaces",
        "create networking.k8s.io/networkpolicies",
        "create resourcequotas",
        "delete namespaces",
        "list namespaces",
        "watch namespaces",
    ),
    # The PriorityClass of the run's pods, which also holds the record of what the run created.
    "priority-class": (
        "create scheduling.k8s.io/priorityclasses",
        "get scheduling.k8s.io/priorityclasses",
        "patch scheduling.k8s.io/priorityclasses",
        "delete scheduling.k8s.io/priorityclasses",
        "list scheduling.k8s.io/priorityclasses",
        "watch scheduling.k8s.io/priorityclasses",
    ),
    # Pods that get their devices from claims.
    "claim-templates": (
        "create resource.k8s.io/resourceclaimtemplates",
        "delete resource.k8s.io/resourceclaimtemplates",
        "list resource.k8s.io/resourceclaimtemplates",
        "watch resource.k8s.io/resourceclaimtemplates",
        "list resource.k8s.io/resourceclaims",
        "watch resource.k8s.io/resourceclaims",
    ),
}
"""Groups for ``writes``: rights by group."""


def expanded(entries: Iterable[str], groups: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The entries in order, each group replaced by what it stands for. What is named twice is there once, at its first place."""
    return list(dict.fromkeys(entry for name in entries for entry in groups.get(name, (name,))))
