"""Gang schedulers that are judged by reading only: KAI, Run:ai, coscheduling (docs/facts/gangs.md#kai-and-coscheduling)."""

from __future__ import annotations

import fnmatch

import msgspec

from conformance.gang.adapters.base import Availability, available
from conformance.scope.gang_marks import COSCHEDULING_GROUP, KAI_GROUP, placed_at
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.untyped import mapping
from fixtures.text.ages import duration

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A gang scheduler that the suite does not probe. ``name`` is the policy's word for it.

    ``homes`` are its usual namespaces, ``scheduler`` and ``others`` names (globs) of its Deployments there; ``definition`` is its own
    custom resource, ``places`` its name in pods.
    """

    name: str
    homes: tuple[str, ...]
    scheduler: tuple[str, ...]
    others: tuple[str, ...]
    definition: str
    places: str

    def detect(self, scope: Scope) -> Availability:
        """By its Deployments in the platform's namespaces, else by pods that it has placed."""
        found = [item for item in scope.snapshot.objects("apps/deployments") if self._is_home(scope, item)]
        schedulers = [item for item in found if _named(item, self.scheduler)]
        if schedulers:
            states = [available(item) for item in found if _named(item, (*self.scheduler, *self.others))]
            down = [text for works, text in states if not works]
            return Availability(
                installed=True,
                healthy=not down,
                reason="; ".join(down or [text for _, text in states]),
                source=f"Deployments of {self.name}",
            )
        mine = [pod for pod in scope.snapshot.pods if pod.spec.scheduler_name == self.places and _grouped(pod)]
        times = [moment for pod in mine if pod.spec.node_name and not pod.finished and (moment := placed_at(pod)) is not None]
        if times:
            reason = f"it has placed {len(times)} pods that run, the last one {duration(scope.snapshot.taken_at - max(times))} ago"
            return Availability(installed=True, healthy=True, reason=reason, source="pod.spec.schedulerName, pod.spec.nodeName")
        return Availability(installed=False, reason=f"no Deployment of {self.name} is in a namespace of the platform", source="Deployments")

    def defined(self, scope: Scope) -> bool:
        """Whether the cluster has its custom resource, which a scheduler that was removed leaves behind."""
        if not scope.snapshot.served(DEFINITIONS):
            return False
        return any(mapping(item, "metadata").get("name") == self.definition for item in scope.snapshot.objects(DEFINITIONS))

    def _is_home(self, scope: Scope, item: Json) -> bool:
        namespace = str(mapping(item, "metadata").get("namespace") or "")
        return namespace in self.homes and scope.platform_workloads.admits(namespace)


def watched() -> list[Watched]:
    """Every gang scheduler that is judged by reading only."""
    return [
        Watched(
            name="kai",
            homes=("kai-scheduler",),
            scheduler=("kai-scheduler-*", "scheduler"),
            others=("binder", "pod-grouper", "podgrouper"),
            definition="podgroups.scheduling.run.ai",
            places="kai-scheduler",
        ),
        Watched(
            name="runai",
            homes=("runai",),
            scheduler=("runai-scheduler*", "scheduler"),
            others=("binder", "pod-grouper", "podgrouper"),
            definition="podgroups.scheduling.run.ai",
            places="runai-scheduler",
        ),
        Watched(
            name="coscheduling",
            homes=("scheduler-plugins", "kube-system"),
            scheduler=("scheduler-plugins-scheduler",),
            others=("scheduler-plugins-controller",),
            definition="podgroups.scheduling.x-k8s.io",
            places="scheduler-plugins-scheduler",
        ),
    ]


def _named(item: Json, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(str(mapping(item, "metadata").get("name")), pattern) for pattern in patterns)


def _grouped(pod: Pod) -> bool:
    return bool(pod.metadata.annotation.get(KAI_GROUP) or pod.metadata.label.get(COSCHEDULING_GROUP))
