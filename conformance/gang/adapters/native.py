"""The gang scheduling of Kubernetes itself: PodGroups of ``scheduling.k8s.io`` since 1.36, Workloads in 1.35.

Which of them there are, discovery says, never the version of the server (docs/facts/gangs.md#native-gangs).
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.gang.adapters.base import GANG_LABEL, Availability, Gang, Guarantee
from conformance.gang.adapters.grouped import GroupedPods
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import native_group
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.probes.workspace import Workspace

GROUPS = "scheduling.k8s.io/podgroups"
WORKLOADS = "scheduling.k8s.io/workloads"
FIRST_VERSION = "v1alpha1"
"""The version in which a Workload itself holds its groups, and pods name the Workload."""
_MEMBERS = "members"
_WRITTEN = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled"})
"""Conditions that only the scheduler writes, in 1.36 and since 1.37."""


class Native:
    """The adapter of the default scheduler's own gangs."""

    name = "native"

    def __init__(self) -> None:
        self._grouped = GroupedPods(GROUPS)
        self._version = "v1beta1"

    def detect(self, scope: Scope) -> Availability:
        """Installed when PodGroups are served, or Workloads of 1.35; healthy when the scheduler has written to a PodGroup.

        API server and scheduler have gates apart. Nothing is written to Workloads of 1.35: only a gang shows whether they count.
        """
        key = served_kind(scope)
        if not key:
            return Availability(installed=False, reason=f"{GROUPS} is not served", source="discovery")
        version = scope.snapshot.versions.get(key, "")
        reason, source = f"{key} {version} is served".replace("  ", " "), "podgroup.status.conditions"
        written = [item for item in scope.snapshot.objects(key) if _WRITTEN & conditions_of(item).keys()]
        if written:
            reason += f", and the scheduler has written to {len(written)} PodGroups"
            return Availability(installed=True, healthy=True, reason=reason, source=source)
        used = sum(bool(native_group(pod)) for pod in scope.snapshot.pods)
        reason += f"; {used} pods use it, and" if used else ", nothing uses it, and"
        return Availability(
            installed=True, idle=not used, reason=f"{reason} no PodGroup shows that the scheduler forms gangs", source=source
        )

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """Placement: no pod is bound before minCount can be."""
        return Guarantee.PLACEMENT, "the scheduler binds no pod of a PodGroup below its minCount"

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """There are no queues."""
        key = served_kind(scope) or GROUPS
        self._version = scope.snapshot.versions.get(key, self._version)
        self._grouped = GroupedPods(key)

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """PodGroups first. An API server without the feature gate drops ``schedulingGroup`` silently, which the reading back finds."""
        priority = workspace.priority_class()
        link = workload_member if self._version == FIRST_VERSION else member
        self._grouped.submit(workspace, gangs, lambda gang: self.group(gang, priority), link)

    def group(self, gang: Gang, priority: str) -> Json:
        """The PodGroup of a gang. Since 1.37 the scheduler places no group whose pods have another priority than the group itself."""
        policy: Json = {"gang": {"minCount": gang.size}}
        first = self._version == FIRST_VERSION
        of_group = {"schedulingPolicy": policy, "priorityClassName": priority}
        return {
            "apiVersion": f"scheduling.k8s.io/{self._version}",
            "kind": "Workload" if first else "PodGroup",
            "metadata": {"name": gang.name, "labels": {GANG_LABEL: gang.name}},
            "spec": {"podGroups": [{"name": _MEMBERS, "policy": policy}]} if first else of_group,
        }

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Pods and group; the group's protection finalizer goes with its last pod, if the controller-manager has the gate too."""
        self._grouped.release(workspace, gang)

    def teardown(self, workspace: Workspace) -> None:
        """Nothing beside the pods and groups, which the workspace removes itself."""
        self._grouped.clear()


def served_kind(scope: Scope) -> str:
    """The resource key of what makes a gang here; empty when there is nothing."""
    if scope.snapshot.served(GROUPS):
        return GROUPS
    return WORKLOADS if scope.snapshot.versions.get(WORKLOADS) == FIRST_VERSION else ""


def member(pod: Json, group: str) -> Json:
    """The pod as a member of a PodGroup."""
    return _linked(pod, group, {"schedulingGroup": {"podGroupName": group}})


def workload_member(pod: Json, workload: str) -> Json:
    """The pod as a member of a Workload of 1.35."""
    return _linked(pod, workload, {"workloadRef": {"name": workload, "podGroup": _MEMBERS}})


def _linked(pod: Json, gang: str, link: Json) -> Json:
    metadata = {**pod["metadata"], "labels": {**(pod["metadata"].get("labels") or {}), GANG_LABEL: gang}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], **link}}
