"""Which pods belong to which multi-pod job: the marks that schedulers and operators leave on pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.kubernetes.models import OwnerReference, Pod
from fixtures.kubernetes.times import unix

VOLCANO_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_GATES = "kueue.x-k8s.io/"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
COSCHEDULING_OLD = "pod-group.scheduling.sigs.k8s.io"
KAI_GROUP = "pod-group-name"

GANG_SCHEDULERS = {
    "volcano": "Volcano",
    "kai-scheduler": "KAI",
    "runai-scheduler": "Run:ai",
    "scheduler-plugins-scheduler": "coscheduling",
}
"""Names of schedulers in pods (docs/facts/gangs.md#volcano, docs/facts/gangs.md#kai-and-coscheduling)."""

JOB_LABELS: tuple[tuple[str, str], ...] = (
    ("jobset.x-k8s.io/jobsets", "jobset.sigs.k8s.io/jobset-name"),
    ("kubeflow.org/pytorchjobs", "training.kubeflow.org/job-name"),
    ("kubeflow.org/tfjobs", "training.kubeflow.org/job-name"),
    ("kubeflow.org/jaxjobs", "training.kubeflow.org/job-name"),
    ("kubeflow.org/paddlejobs", "training.kubeflow.org/job-name"),
    ("kubeflow.org/xgboostjobs", "training.kubeflow.org/job-name"),
    ("kubeflow.org/mpijobs", "training.kubeflow.org/job-name"),
    ("ray.io/rayclusters", "ray.io/cluster"),
    ("batch.volcano.sh/jobs", "volcano.sh/job-name"),
    ("grove.io/podcliques", "grove.io/podclique"),
)
"""Resource key of a job kind, and the label of its pods that names the job (docs/facts/gangs.md#kinds-that-own-gangs)."""

LWS = "leaderworkerset.x-k8s.io/leaderworkersets"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
OWNER_LABELS = (*JOB_LABELS, (LWS, LWS_NAME))
"""The same with the kind of which each group is a job."""

REPLICATED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Pod", "Node"})
"""Owners whose pods work each for itself, whichever API group they are of: a DaemonSet of OpenKruise is one as well."""

_INDEPENDENT = frozenset(
    {
        ("argoproj.io", "workflow"),
        ("flyte.lyft.com", "flyteworkflow"),
        ("apps.kruise.io", "cloneset"),
        ("apps.kruise.io", "broadcastjob"),
        ("kubeai.org", "model"),
        ("kubevirt.io", "virtualmachineinstance"),
    }
)
"""API group and kind, in lower case, of other such owners (docs/facts/gangs.md#owners-of-pods-that-work-alone)."""

_GROUP_KEY = re.compile(r"(pod-?group(-name)?|pod-?gang|gang(-name)?)$")
_GROUP_PREFIX = re.compile(r"(^|[.-])(pod-?group|gang)\b")


def works_alone(owner: OwnerReference) -> bool:
    """Whether each pod of an owner is of use without the others."""
    group = owner.api_version.rpartition("/")[0]
    return owner.kind in REPLICATED or (group, owner.kind.lower()) in _INDEPENDENT


def group_marks(pod: Pod) -> Iterator[tuple[str, str]]:
    """Labels and annotations that name a group of pods, of any scheduler: key and value (docs/facts/gangs.md#marks-of-groups)."""
    for marks in (pod.metadata.label, pod.metadata.annotation):
        for key, value in marks.items():
            prefix, _, name = key.rpartition("/")
            if value and (
                _GROUP_KEY.match(name) or key in (*VOLCANO_GROUP, COSCHEDULING_OLD) or (name == "name" and _GROUP_PREFIX.search(prefix))
            ):
                yield key, value


def least_of(pod: Pod, mark: str) -> str:
    """How many pods a group needs by the mark ``min-available`` beside the one that names it, or empty."""
    key = f"{mark.removesuffix('/name')}/min-available"
    return pod.metadata.annotation.get(key, "") or pod.metadata.label.get(key, "")


def volcano_group(pod: Pod) -> str:
    """The Volcano PodGroup a pod says it belongs to (docs/facts/gangs.md#volcano)."""
    return next((name for key in VOLCANO_GROUP if (name := pod.metadata.annotation.get(key, ""))), "")


def native_group(pod: Pod) -> str:
    """The ``scheduling.k8s.io`` PodGroup (1.36) or Workload (1.35) of a pod (docs/facts/gangs.md#native-gangs)."""
    group, workload = pod.spec.scheduling_group or {}, pod.spec.workload_ref or {}
    return str(group.get("podGroupName") or workload.get("name") or "")


def gang_system(pod: Pod) -> str:
    """Which gang scheduler a pod is given to, or empty."""
    labels = pod.metadata.label
    if native_group(pod):
        return "scheduling.k8s.io"
    if volcano_group(pod) or pod.spec.scheduler_name in GANG_SCHEDULERS:
        return GANG_SCHEDULERS.get(pod.spec.scheduler_name, "Volcano")
    if labels.get(KUEUE_QUEUE) or labels.get(KUEUE_GROUP):
        return "Kueue"
    if any(labels.get(key) for key in (COSCHEDULING_GROUP, COSCHEDULING_OLD, f"{COSCHEDULING_OLD}/name")):
        return "coscheduling"
    return "KAI" if pod.metadata.annotation.get(KAI_GROUP) else ""


def placed(pod: Pod) -> bool:
    """Whether a pod got its node; a finished one had it. Conditions are not asked: they go stale."""
    return bool(pod.spec.node_name) or pod.finished


def placed_at(pod: Pod) -> float | None:
    """When a pod got its node, Unix seconds; None when nothing says so."""
    scheduled = pod.condition("PodScheduled")
    candidates = (
        scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None,
        pod.status.start_time,
        pod.metadata.creation_timestamp,
    )
    return next((seconds for text in candidates if (seconds := unix(text)) is not None), None)
