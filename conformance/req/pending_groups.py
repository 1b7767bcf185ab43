"""Device pods that wait for a node, in the groups that must be placed together, most urgent first."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.reserved_devices import as_reserved
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.model.jobs.marks import COSCHEDULING_GROUP, KAI_GROUP, KUEUE_GROUP, native_group, placed, volcano_group
from fixtures.verdict.subjects import Subject


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of which all must be placed, or none. ``missing``: how many more would have to exist first."""

    subject: Subject
    pods: tuple[Pod, ...]
    missing: int = 0

    @property
    def since(self) -> float | None:
        """When the youngest of them was created, Unix seconds; None when one does not tell."""
        times = [unix(pod.metadata.creation_timestamp) for pod in self.pods]
        return max((moment for moment in times if moment is not None), default=None) if None not in times else None

    @property
    def urgency(self) -> tuple[int, float, str]:
        """Schedulers take pods of higher priority first, and older ones before younger ones."""
        return (-max(pod.spec.priority or 0 for pod in self.pods), self.since or 0.0, str(self.subject))


def pending_groups(scope: Scope) -> list[Group]:
    """Every pending pod that asks for devices is in one group. One that asks for a part of a device needs a whole one that is free."""
    unbound = [
        as_reserved(pod) for pod in scope.snapshot.pods if not (pod.finished or pod.spec.node_name or pod.metadata.deletion_timestamp)
    ]
    waiting = {(pod.namespace, pod.name): pod for pod in unbound if scope.device_demand_of(pod).devices}
    groups: list[Group] = []
    for job in gang_jobs(scope) if waiting else ():
        own = [waiting[key] for pod in job.pods if (key := (pod.namespace, pod.name)) in waiting]
        deficit = (job.together or job.needed) - sum(placed(pod) and not pod.metadata.deletion_timestamp for pod in job.pods)
        if not job.system or not own or deficit <= 0:
            continue
        groups.append(Group(subject=job.subject, pods=tuple(_smallest(scope, own)[:deficit]), missing=max(deficit - len(own), 0)))
        for pod in own:
            waiting.pop((pod.namespace, pod.name), None)
    together: dict[tuple[str, str], list[Pod]] = {}
    for (namespace, name), pod in waiting.items():
        together.setdefault((namespace, _group_of(pod) or f"pod {name}"), []).append(pod)
    groups += [Group(subject=_subject(group, pods), pods=tuple(pods)) for (_, group), pods in together.items()]
    return sorted(groups, key=lambda group: group.urgency)


def _group_of(pod: Pod) -> str:
    """The gang that a pod names, whatever its scheduler; empty for one that stands alone."""
    labels, annotations = pod.metadata.label, pod.metadata.annotation
    return (
        volcano_group(pod) or native_group(pod) or labels.get(KUEUE_GROUP, "") or labels.get(COSCHEDULING_GROUP, "")
    ) or annotations.get(KAI_GROUP, "")


def _subject(group: str, pods: list[Pod]) -> Subject:
    return subject(pods[0]) if len(pods) == 1 else Subject("pod group", group, pods[0].namespace)


def _smallest(scope: Scope, pods: Iterable[Pod]) -> list[Pod]:
    """Pods that ask for fewest devices first: what a gang needs at least."""
    return sorted(pods, key=lambda pod: (sum(scope.devices_of(pod.spec).values()), pod.name))
