"""The gang scheduling of Kubernetes itself: PodGroups of ``scheduling.k8s.io``, since 1.36 (docs/facts/gangs.md#native-gangs)."""

from __future__ import annotations

from conformance.gang.adapters.base import GANG_LABEL, Availability, Gang, Guarantee
from conformance.gang.adapters.grouped import GroupedPods
from conformance.gang.kueue_objects import conditions_of
from conformance.scope.gang_marks import native_group
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json
from fixtures.probes.workspace import Workspace

GROUPS = "scheduling.k8s.io/podgroups"
_WRITTEN = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled"})
"""Conditions that only the scheduler writes, in 1.36 and since 1.37."""


class Native:
    """The adapter of the default scheduler's own gangs. 1.35 has Workloads without PodGroups, which it does not know."""

    name = "native"

    def __init__(self) -> None:
        self._grouped = GroupedPods(GROUPS)
        self._version = "v1beta1"

    def detect(self, scope: Scope) -> Availability:
        """Installed when PodGroups are served; healthy when the scheduler has written to one: API server and scheduler have gates apart."""
        if not scope.snapshot.served(GROUPS):
            return Availability(installed=False, reason=f"{GROUPS} is not served", source="discovery")
        version = scope.snapshot.versions.get(GROUPS, "")
        reason, source = f"{GROUPS} {version} is served".replace("  ", " "), "podgroup.status.conditions"
        written = [item for item in scope.snapshot.objects(GROUPS) if _WRITTEN & conditions_of(item).keys()]
        if written:
            reason += f", and the scheduler has written to {len(written)} PodGroups"
            return Availability(installed=True, healthy=True, reason=reason, source=source)
        used = sum(bool(native_group(pod)) for pod in scope.snapshot.pods)
        reason += f"; {used} pods use it, and" if used else ", nothing uses it, and"
        return Availability(
            installed=True, idle=not used, reason=f"{reason} no PodGroup shows that the scheduler forms gangs", source=source
        )

    def guarantee(self, scope: Scope) -> tuple[Guarantee, str]:
        """Placement: no pod is bound before minCount can be."""
        return Guarantee.PLACEMENT, "the scheduler binds no pod of a PodGroup below its minCount"

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int) -> None:
        """There are no queues."""
        self._version = scope.snapshot.versions.get(GROUPS, self._version)

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """PodGroups first. An API server without the feature gate drops ``schedulingGroup`` silently, which the reading back finds."""
        priority = workspace.priority_class()
        self._grouped.submit(workspace, gangs, lambda gang: self.group(gang, priority), member)

    def group(self, gang: Gang, priority: str) -> Json:
        """The PodGroup of a gang. Since 1.37 the scheduler places no group whose pods have another priority than the group itself."""
        return {
            "apiVersion": f"scheduling.k8s.io/{self._version}",
            "kind": "PodGroup",
            "metadata": {"name": gang.name, "labels": {GANG_LABEL: gang.name}},
            "spec": {"schedulingPolicy": {"gang": {"minCount": gang.size}}, "priorityClassName": priority},
        }

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Pods and group; the group's protection finalizer goes with its last pod, if the controller-manager has the gate too."""
        self._grouped.release(workspace, gang)

    def teardown(self, workspace: Workspace) -> None:
        """Nothing beside the pods and groups, which the workspace removes itself."""
        self._grouped.clear()


def member(pod: Json, group: str) -> Json:
    """The pod as a member of a PodGroup."""
    metadata = {**pod["metadata"], "labels": {**(pod["metadata"].get("labels") or {}), GANG_LABEL: group}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": group}}}
