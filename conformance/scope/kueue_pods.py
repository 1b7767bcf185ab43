"""Which pods a Workload of Kueue is of, and which Workloads are of a pod (docs/facts/gangs.md#kueue)."""

from __future__ import annotations

from conformance.scope.gang_jobs import KUEUE_WORKLOADS
from conformance.scope.kueue_objects import conditions_of, name_of, objects_of
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.jobs.marks import KUEUE_GROUP

_NAMED = "kueue.x-k8s.io/workload"
_PLAIN = frozenset({"Job", "Pod", "ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds of controllers whose Workload is found from the pod: it is the pod's own, its group's or the Job's."""


class KueuePods:
    """Live pods and Workloads by what ties them together. Raises :class:`Inconclusive` for a refused list."""

    def __init__(self, scope: Scope) -> None:
        self._by_workload: dict[tuple[str, str], list[Pod]] = {}
        self._by_owner: dict[tuple[str, str], list[Pod]] = {}  # with the namespace, which owners share with what they own
        self._by_uid: dict[tuple[str, str], Pod] = {}
        for pod in scope.snapshot.pods:
            if pod.finished:
                continue
            self._by_uid[pod.namespace, pod.metadata.uid] = pod
            if name := pod.metadata.annotation.get(_NAMED, ""):
                self._by_workload.setdefault((pod.namespace, name), []).append(pod)
            for owner in pod.metadata.owners:
                self._by_owner.setdefault((pod.namespace, owner.uid), []).append(pod)
        self._workloads: dict[tuple[str, str], Json] = {}
        self._owned: dict[tuple[str, str], list[Json]] = {}
        for item in objects_of(scope, KUEUE_WORKLOADS):
            meta = mapping(item, "metadata")
            namespace = str(meta.get("namespace"))
            self._workloads[namespace, name_of(item)] = item
            for reference in mappings(meta.get("ownerReferences")):
                self._owned.setdefault((namespace, str(reference.get("uid"))), []).append(item)

        self._spaces = {namespace for namespace, _ in self._workloads}

    def of(self, workload: Json) -> list[Pod]:
        """Pods of a workload: those that name it, those that own it (plain pods), and those of its owner."""
        meta = mapping(workload, "metadata")
        found = list(self._by_workload.get((str(meta.get("namespace")), name_of(workload)), ()))
        for owner in mappings(meta.get("ownerReferences")):
            key = str(meta.get("namespace")), str(owner.get("uid"))
            found += [self._by_uid[key]] if key in self._by_uid else self._by_owner.get(key, [])
        return list({(pod.namespace, pod.name): pod for pod in found}.values())

    def unknown_owner(self, workload: Json) -> str:
        """An owner whose pods it would not own directly and need not name the workload, or empty."""
        owners = [str(owner.get("kind")) for owner in mappings(mapping(workload, "metadata").get("ownerReferences"))]
        return next((kind for kind in owners if kind not in ("Job", "Pod")), "") if not self._by_workload else ""

    def workloads_of(self, pod: Pod) -> list[Json]:
        """Workloads that are not finished and are of the pod: named by it, of its group, or owned by it or by what owns it."""
        names = (pod.metadata.annotation.get(_NAMED, ""), pod.metadata.label.get(KUEUE_GROUP, ""))
        found = [self._workloads[pod.namespace, name] for name in names if (pod.namespace, name) in self._workloads]
        for uid in (pod.metadata.uid, *(owner.uid for owner in pod.metadata.owners)):
            found += self._owned.get((pod.namespace, uid), [])
        return [item for item in found if conditions_of(item).get("Finished", {}).get("status") != "True"]

    def hidden_owner(self, pod: Pod) -> str:
        """The kind of a pod's controller that some other object may own, whose Workload the pod does not name; or empty."""
        owner = pod.controller
        if owner is None or owner.kind in _PLAIN:
            return ""
        return owner.kind if pod.namespace in self._spaces else ""
