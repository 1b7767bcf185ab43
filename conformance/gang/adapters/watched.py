"""Gang schedulers that are known by their Deployments: KAI, Run:ai, coscheduling (docs/facts/gangs.md#kai-and-coscheduling)."""

import fnmatch
from functools import cache
from pathlib import Path

import msgspec

from conformance.gang.adapters.base import Availability
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import COSCHEDULING_GROUP, KAI_GROUP
from fixtures.model.objects import name_of
from fixtures.model.platform.deployments import Deployment, deployments
from fixtures.text import yaml_text

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A gang scheduler. ``name`` is the policy's word for it.

    ``scheduler`` and ``others`` are names (globs) of its Deployments; in its usual namespaces, ``homes``, the scheduler may be called
    just that. ``definition`` is its own custom resource, ``places`` its name in pods.
    """

    name: str
    homes: tuple[str, ...]
    scheduler: tuple[str, ...]
    others: tuple[str, ...]
    definition: str
    places: str

    def detect(self, scope: Scope) -> Availability:
        """By its Deployments in the platform's namespaces. Pods that it seems to have placed prove nothing: tenants can write that."""
        admitted = [item for item in deployments(scope) if scope.platform.of(item.namespace).components]
        homes = {item.namespace for item in admitted if self._is_scheduler(item)}
        if homes:
            own = [item for item in admitted if item.namespace in homes and (self._is_scheduler(item) or _named(item, self.others))]
            down = [item.text for item in own if not item.works]
            reason, source = "; ".join(down or [item.text for item in own]), f"Deployments of {self.name}"
            return Availability(installed=True, healthy=not down, reason=reason, source=source)
        missing = f"no Deployment of {self.name} is in a namespace of the platform"
        mine = [pod for pod in scope.snapshot.pods if pod.scheduler_name == self.places and _grouped(pod)]
        if count := sum(bool(pod.node_name) and not pod.finished for pod in mine):
            reason = f"{count} pods that run say that {self.places} has placed them, as any tenant can write; {missing}"
            source = "pod.spec.schedulerName, pod.spec.nodeName, Deployments, policy tenants.moreInfrastructure"
            return Availability(installed=False, claimed=True, reason=reason, source=source)
        return Availability(installed=False, reason=missing, source="Deployments")

    def _is_scheduler(self, item: Deployment) -> bool:
        return _named(item, self.scheduler) or (item.namespace in self.homes and _named(item, ("scheduler",)))

    def defined(self, scope: Scope) -> bool:
        """Whether the cluster has its custom resource, which a scheduler that was removed leaves behind."""
        if not scope.snapshot.served(DEFINITIONS):
            return False
        return any(name_of(item) == self.definition for item in scope.snapshot.objects(DEFINITIONS))


@cache
def watched() -> tuple[Watched, ...]:
    """Every gang scheduler that is known by its Deployments."""
    return yaml_text.packaged(Path(__file__).with_name("watched.yaml"), tuple[Watched, ...])


def watched_as(name: str) -> Watched:
    """The one of that name."""
    return next(one for one in watched() if one.name == name)


def _named(item: Deployment, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(item.name, pattern) for pattern in patterns)


def _grouped(pod: Pod) -> bool:
    return bool(pod.metadata.annotation.get(KAI_GROUP) or pod.metadata.label.get(COSCHEDULING_GROUP))
