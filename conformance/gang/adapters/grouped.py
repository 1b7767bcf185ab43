"""Adapters whose gangs are a PodGroup object and pods that name it: Volcano, and the gang scheduling of Kubernetes itself.

The latter has PodGroups of ``scheduling.k8s.io`` since 1.36, and Workloads in 1.35. Which of them there are, discovery says, never the
version of the server. Facts: docs/facts/gangs.md#volcano, docs/facts/gangs.md#native-gangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conformance.gang.adapters.base import (
    GANG_LABEL,
    RELEASE_SECONDS,
    Availability,
    Gang,
    Guarantee,
    await_gone,
    controllers_health,
    delete_pods,
    in_turn,
    start_pod,
)
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import native_group
from fixtures.model.queues.kueue_objects import conditions_of
from fixtures.model.queues.volcano import DEFAULT_QUEUE, VOLCANO_GROUPS, VOLCANO_QUEUES, volcano_queues
from fixtures.probes.pods import keeps, marked
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive

NATIVE_GROUPS = "scheduling.k8s.io/podgroups"
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
        self._grouped = GroupedPods(NATIVE_GROUPS)
        self._version = "v1beta1"

    def detect(self, scope: Scope) -> Availability:
        """Installed when PodGroups are served, or Workloads of 1.35; healthy when the scheduler has written to a PodGroup.

        API server and scheduler have gates apart. Nothing is written to Workloads of 1.35: only a gang shows whether they count.
        """
        key = served_kind(scope)
        if not key:
            return Availability(installed=False, reason=f"{NATIVE_GROUPS} is not served", source="discovery")
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
        key = served_kind(scope) or NATIVE_GROUPS
        self._version = scope.snapshot.versions.get(key, self._version)
        self._grouped = GroupedPods(key)

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """PodGroups first. An API server without the feature gate drops ``schedulingGroup`` silently, which the reading back finds."""
        priority = workspace.priority_class()
        link = workload_member if self._version == FIRST_VERSION else native_member
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
    if scope.snapshot.served(NATIVE_GROUPS):
        return NATIVE_GROUPS
    return WORKLOADS if scope.snapshot.versions.get(WORKLOADS) == FIRST_VERSION else ""


def native_member(pod: Json, group: str) -> Json:
    """The pod as a member of a PodGroup."""
    return marked(pod, {GANG_LABEL: group}, schedulingGroup={"podGroupName": group})


def workload_member(pod: Json, workload: str) -> Json:
    """The pod as a member of a Workload of 1.35."""
    return marked(pod, {GANG_LABEL: workload}, workloadRef={"name": workload, "podGroup": _MEMBERS})


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
SCHEDULER = "volcano"


class Volcano:
    """The adapter of Volcano. Gangs go to its default queue."""

    name = "volcano"

    def __init__(self) -> None:
        self._grouped = GroupedPods(VOLCANO_GROUPS)
        self._version = "v1beta1"

    def detect(self, scope: Scope) -> Availability:
        """Installed by its kinds or its Deployments; healthy by its Deployments, else by the state of its default queue."""
        snapshot = scope.snapshot
        deployed = controllers_health(scope, {"scheduler": "volcano-scheduler", "controllers": "volcano-controllers"}, "volcano-system")
        if deployed.installed:
            return deployed
        if not any(snapshot.served(key) for key in (VOLCANO_GROUPS, VOLCANO_QUEUES)):
            return Availability(installed=False, reason=f"{VOLCANO_GROUPS} is not served", source="discovery")
        state = self._queue_state(scope)
        if state == "Open":
            reason = f"queue {DEFAULT_QUEUE} is Open, and only Volcano's controllers set that ({deployed.reason})"
            return Availability(installed=True, healthy=True, reason=reason, source="queue.status.state")
        return Availability(
            installed=True, reason=f"{deployed.reason}, and queue {DEFAULT_QUEUE} is {state or 'missing'}", source="queue.status.state"
        )

    @staticmethod
    def _queue_state(scope: Scope) -> str:
        queues = volcano_queues(scope) if scope.snapshot.served(VOLCANO_QUEUES) else []
        return next((queue.phase for queue in queues if queue.name == DEFAULT_QUEUE), "")

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """Placement: the gang plugin binds nothing below minMember."""
        return Guarantee.PLACEMENT, "Volcano binds no pod of a PodGroup below its minMember"

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """The default queue must be open: a closed one holds every gang, which would look like all or nothing."""
        self._version = scope.snapshot.versions.get(VOLCANO_GROUPS, self._version)
        state = self._queue_state(scope)
        if state != "Open":
            raise Inconclusive(
                "QueueNotOpen", f"Volcano's queue {DEFAULT_QUEUE} is {state or 'missing'}, so nothing can be submitted to it"
            )

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """PodGroups first, without minResources: the question is the gang plugin's, not the enqueue action's."""
        priority = workspace.priority_class()
        self._grouped.submit(workspace, gangs, lambda gang: self.group(gang, priority), volcano_member)

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


def volcano_member(pod: Json, group: str) -> Json:
    """The pod as a member of a PodGroup."""
    return marked(pod, {GANG_LABEL: group}, {GROUP_ANNOTATION: group}, schedulerName=SCHEDULER)


class GroupedPods:
    """Groups of one resource key and their pods, created and removed. ``uids`` are those of the pods, for safe deletion."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._uids: dict[str, str] = {}

    def submit(
        self, workspace: Workspace, gangs: Sequence[Gang], group: Callable[[Gang], Json], member: Callable[[Json, str], Json]
    ) -> None:
        """All groups first, then the pods in turn. Raises :class:`Inconclusive` when the API drops a pod's link to its group."""
        for gang in gangs:
            workspace.create(self._key, group(gang), workspace.namespace())
        for gang, pod in in_turn(gangs):
            wanted = member(pod, gang.name)
            created = start_pod(workspace, wanted)
            self._uids[str(created["metadata"]["name"])] = str(created["metadata"]["uid"])
            if not keeps_link(wanted, created):
                message = f"the API server dropped the pod's link to its {self._key}: the feature is off there, so no gang can be formed"
                raise Inconclusive("GroupLinkDropped", message)

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Delete pods and group, and wait until both are gone."""
        delete_pods(workspace, {name: self._uids.pop(name) for name in gang.names if name in self._uids})
        answer = workspace.cluster.delete(self._key, gang.name, workspace.namespace())
        if not answer.ok and answer.status != 404:
            raise ApiTrouble(answer.reason, f"PodGroup {gang.name} could not be deleted: {answer.status} {answer.message}")
        deadline = time.monotonic() + RELEASE_SECONDS
        if not await_gone(workspace, "pods", gang.names, deadline) or not await_gone(workspace, self._key, [gang.name], deadline):
            raise Inconclusive("GangStays", f"gang {gang.name} did not go away within {RELEASE_SECONDS:g} s")

    def clear(self) -> None:
        """Forget what was created: the workspace removes it."""
        self._uids.clear()


def keeps_link(wanted: Json, created: Json) -> bool:
    """Whether what ties a pod to its group came back as it was sent."""
    return keeps(wanted, created, ("schedulingGroup", "workloadRef"))
