"""Volcano: a PodGroup per gang, pods with its annotation and ``schedulerName: volcano`` (docs/facts/gangs.md#volcano)."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.gang.adapters.base import GANG_LABEL, Availability, Gang, Guarantee, controllers_health
from conformance.gang.adapters.grouped import GroupedPods
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive

GROUPS = "scheduling.volcano.sh/podgroups"
QUEUES = "scheduling.volcano.sh/queues"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
SCHEDULER = "volcano"
DEFAULT_QUEUE = "default"


class Volcano:
    """The adapter of Volcano. Gangs go to its default queue."""

    name = "volcano"

    def __init__(self) -> None:
        self._grouped = GroupedPods(GROUPS)
        self._version = "v1beta1"

    def detect(self, scope: Scope) -> Availability:
        """Installed by its kinds or its Deployments; healthy by its Deployments, else by the state of its default queue."""
        snapshot = scope.snapshot
        deployed = controllers_health(scope, {"scheduler": "volcano-scheduler", "controllers": "volcano-controllers"}, "volcano-system")
        if deployed.installed:
            return deployed
        if not any(snapshot.served(key) for key in (GROUPS, QUEUES)):
            return Availability(installed=False, reason=f"{GROUPS} is not served", source="discovery")
        state = self._queue_state(scope)
        if state == "Open":
            reason = f"queue {DEFAULT_QUEUE} is Open, and only Volcano's controllers set that ({deployed.reason})"
            return Availability(installed=True, healthy=True, reason=reason, source="queue.status.state")
        return Availability(
            installed=True, reason=f"{deployed.reason}, and queue {DEFAULT_QUEUE} is {state or 'missing'}", source="queue.status.state"
        )

    @staticmethod
    def _queue_state(scope: Scope) -> str:
        for item in scope.snapshot.objects(QUEUES) if scope.snapshot.served(QUEUES) else ():
            if (item.get("metadata") or {}).get("name") == DEFAULT_QUEUE:
                return str((item.get("status") or {}).get("state") or "")
        return ""

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """Placement: the gang plugin binds nothing below minMember."""
        return Guarantee.PLACEMENT, "Volcano binds no pod of a PodGroup below its minMember"

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """The default queue must be open: a closed one holds every gang, which would look like all or nothing."""
        self._version = scope.snapshot.versions.get(GROUPS, self._version)
        state = self._queue_state(scope)
        if state != "Open":
            raise Inconclusive(
                "QueueNotOpen", f"Volcano's queue {DEFAULT_QUEUE} is {state or 'missing'}, so nothing can be submitted to it"
            )

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """PodGroups first, without minResources: the question is the gang plugin's, not the enqueue action's."""
        priority = workspace.priority_class()
        self._grouped.submit(workspace, gangs, lambda gang: self.group(gang, priority), member)

    def group(self, gang: Gang, priority: str) -> Json:
        """The PodGroup of a gang. Volcano takes a job's priority from here, and one without would have the cluster's default."""
        return {
            "apiVersion": f"scheduling.volcano.sh/{self._version}",
            "kind": "PodGroup",
            "metadata": {"name": gang.name, "labels": {GANG_LABEL: gang.name}},
            "spec": {"minMember": gang.size, "queue": DEFAULT_QUEUE, "priorityClassName": priority},
        }

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Pods and group are deleted; nothing else holds them."""
        self._grouped.release(workspace, gang)

    def teardown(self, workspace: Workspace) -> None:
        """Nothing beside the pods and groups, which the workspace removes itself."""
        self._grouped.clear()


def member(pod: Json, group: str) -> Json:
    """The pod as a member of a PodGroup."""
    metadata = dict(pod["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), GROUP_ANNOTATION: group}
    metadata["labels"] = {**(metadata.get("labels") or {}), GANG_LABEL: group}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulerName": SCHEDULER}}
