"""Device pods that belong together by their owner or by a mark, where nothing that was read says how many of them are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from conformance.scope.gang_job import GangJob
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Pod
from fixtures.model.jobs.marks import OWNER_LABELS, gang_system, group_marks, least_of, native_group, works_alone
from fixtures.model.jobs.owners import count
from fixtures.verdict.findings import Subject


class Told(msgspec.Struct, frozen=True):
    """What was read and says for itself which pods belong together: ``owners`` by kind, namespace and name, ``groups`` without kind."""

    owners: frozenset[tuple[str, str, str]]
    groups: frozenset[tuple[str, str]]


def unsized(pods: Iterable[Pod], told: Told) -> Iterator[GangJob]:
    """Groups that pods name and that were not read, then owners of a kind that the suite does not know.

    Only pods that are there and stay are counted: an owner may replace its pods, or run them one after the other.
    """
    alive = [pod for pod in pods if not (pod.finished or pod.metadata.deletion_timestamp or _owner_told(pod, told))]
    groups: dict[tuple[str, str, str], list[Pod]] = {}
    owners: dict[tuple[str, str, str, str], list[Pod]] = {}
    for pod in alive:
        for mark, name in _marks(pod):
            if (pod.namespace, name) not in told.groups:
                groups.setdefault((pod.namespace, mark, name), []).append(pod)
        owner = pod.controller
        if owner is not None and not works_alone(owner):
            owners.setdefault((pod.namespace, owner.kind, owner.name, owner.uid), []).append(pod)
    for (namespace, mark, name), members in groups.items():
        least = max(count(least_of(pod, mark)) for pod in members)
        unsure = "" if least else f"its pods name it ({mark}), and nothing that was read says how many of them it needs"
        yield _job(Subject("pod group", name, namespace), members, least or len(members), unsure)
    for (namespace, kind, name, _), members in owners.items():
        yield _job(Subject(kind, name, namespace), members, 1, f"how many of its pods {kind} needs together cannot be told")


def _owner_told(pod: Pod, told: Told) -> bool:
    """Whether an owner of a pod was read: it says what it needs, or that it has ended."""
    named = {(owner.kind, owner.name) for owner in pod.metadata.owners}
    named |= {(KINDS[key].kind, name) for key, label in OWNER_LABELS if (name := pod.metadata.label.get(label, ""))}
    return any((kind, pod.namespace, name) in told.owners for kind, name in named)


def _marks(pod: Pod) -> Iterator[tuple[str, str]]:
    yield from group_marks(pod)
    if group := native_group(pod):
        yield "spec.schedulingGroup", group


def _job(place: Subject, pods: list[Pod], together: int, unsure: str) -> GangJob:
    system = ", ".join(sorted({gang_system(pod) for pod in pods} - {""}))
    needed = len(pods) if unsure else together
    return GangJob(subject=place, needed=needed, pods=tuple(pods), system=system, together=together, unsure=unsure)
