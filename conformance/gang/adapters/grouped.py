"""Adapters whose gangs are a PodGroup object and pods that name it: Volcano, KAI, coscheduling, and the gangs of Kubernetes itself.

The latter are PodGroups of ``scheduling.k8s.io`` since 1.36, and Workloads in 1.35. Which of them there are, discovery says, never the
version of the server. Facts: docs/facts/gangs.md#volcano, docs/facts/gangs.md#native-gangs,
docs/facts/gangs.md#gangs-of-kai-and-coscheduling.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

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
)
from conformance.gang.adapters.watched import watched_as
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.jobs.marks import COSCHEDULING_GROUP, KAI_GROUP, native_group
from fixtures.model.objects import conditions_by_type
from fixtures.model.queues.kai import QUEUE_LABEL, room_in
from fixtures.model.queues.volcano import DEFAULT_QUEUE, VOLCANO_GROUPS, VOLCANO_QUEUES, volcano_queues
from fixtures.ownership.owned import RUN_LABEL
from fixtures.probes.pods import keeps, marked
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive

NATIVE_GROUPS = "scheduling.k8s.io/podgroups"
WORKLOADS = "scheduling.k8s.io/workloads"
KAI_GROUPS = "scheduling.run.ai/podgroups"
COSCHEDULING_GROUPS = "scheduling.x-k8s.io/podgroups"
FIRST_VERSION = "v1alpha1"
"""The version in which a Workload itself holds its groups, and pods name the Workload."""
LINKS = ("schedulingGroup", "workloadRef")
"""Fields of a pod that tie it to its group, beside an annotation."""
_MEMBERS = "members"
_WRITTEN = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled"})
"""Conditions that only the scheduler writes, in 1.36 and since 1.37."""
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
SCHEDULER = "volcano"


class GroupedPods(ABC):
    """What they have in common: a group for each gang, then its pods, which are removed with it. ``key`` is the groups' kind."""

    name: str
    promise: str
    key: str
    version = "v1beta1"

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}  # of the pods, for safe deletion

    @abstractmethod
    def group(self, gang: Gang, priority: str) -> Json:
        """The group of a gang, of the priority class of its pods."""

    @abstractmethod
    def member(self, pod: Json, group: str) -> Json:
        """The pod as a member of a group."""

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """Placement: no pod is bound before as many as the group needs can be."""
        return Guarantee.PLACEMENT, self.promise

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """All groups first, then the pods in turn. Raises :class:`Inconclusive` when the API drops a pod's link to its group.

        An API server without the feature gate drops the link silently.
        """
        priority = workspace.priority_class()
        for gang in gangs:
            workspace.create(self.key, self.group(gang, priority), workspace.namespace())
        for gang, pod in in_turn(gangs):
            wanted = self.member(pod, gang.name)
            created = workspace.create_pod(wanted)
            self._uids[str(created["metadata"]["name"])] = str(created["metadata"]["uid"])
            if not keeps(wanted, created, LINKS):
                message = f"the API server dropped the pod's link to its {self.key}: the feature is off there, so no gang can be formed"
                raise Inconclusive("GroupLinkDropped", message)

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """Delete pods and group, and wait until both are gone: a finalizer of the group may go with its last pod."""
        delete_pods(workspace, {name: self._uids.pop(name) for name in gang.names if name in self._uids})
        answer = workspace.cluster.delete(self.key, gang.name, workspace.namespace())
        if not answer.ok and answer.status != 404:
            raise ApiTrouble(answer.reason, f"PodGroup {gang.name} could not be deleted: {answer.status} {answer.message}")
        deadline = time.monotonic() + RELEASE_SECONDS
        if not await_gone(workspace, "pods", gang.names, deadline) or not await_gone(workspace, self.key, [gang.name], deadline):
            raise Inconclusive("GangStays", f"gang {gang.name} did not go away within {RELEASE_SECONDS:g} s")

    def teardown(self, workspace: Workspace) -> None:
        """Nothing beside the pods and groups, which the workspace removes itself."""
        self._uids.clear()


class Native(GroupedPods):
    """The adapter of the default scheduler's own gangs."""

    name = "native"
    promise = "the scheduler binds no pod of a PodGroup below its minCount"
    key = NATIVE_GROUPS

    def detect(self, scope: Scope) -> Availability:
        """Installed when PodGroups are served, or Workloads of 1.35; healthy when the scheduler has written to a PodGroup.

        API server and scheduler have gates apart. Nothing is written to Workloads of 1.35: only a gang shows whether they count.
        """
        key = served_kind(scope)
        if not key:
            return Availability(installed=False, reason=f"{NATIVE_GROUPS} is not served", source="discovery")
        version = scope.snapshot.versions.get(key, "")
        reason, source = f"{key} {version} is served".replace("  ", " "), "podgroup.status.conditions"
        written = [item for item in scope.snapshot.objects(key) if _WRITTEN & conditions_by_type(item).keys()]
        if written:
            reason += f", and the scheduler has written to {len(written)} PodGroups"
            return Availability(installed=True, healthy=True, reason=reason, source=source)
        used = sum(bool(native_group(pod)) for pod in scope.snapshot.pods)
        reason += f"; {used} pods use it, and" if used else ", nothing uses it, and"
        reason += " no PodGroup shows that the scheduler forms gangs"
        return Availability(installed=True, idle=not used, reason=reason, source=source)

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """There are no queues."""
        self.key = served_kind(scope) or NATIVE_GROUPS
        self.version = scope.snapshot.versions.get(self.key, self.version)

    def group(self, gang: Gang, priority: str) -> Json:
        """The PodGroup of a gang. Since 1.37 the scheduler places no group whose pods have another priority than the group itself."""
        policy: Json = {"gang": {"minCount": gang.size}}
        first = self.version == FIRST_VERSION
        of_group = {"schedulingPolicy": policy, "priorityClassName": priority}
        return {
            "apiVersion": f"scheduling.k8s.io/{self.version}",
            "kind": "Workload" if first else "PodGroup",
            "metadata": {"name": gang.name, "labels": {GANG_LABEL: gang.name}},
            "spec": {"podGroups": [{"name": _MEMBERS, "policy": policy}]} if first else of_group,
        }

    def member(self, pod: Json, group: str) -> Json:
        """The pod as a member of a PodGroup, or of a Workload of 1.35."""
        if self.version == FIRST_VERSION:
            return marked(pod, {GANG_LABEL: group}, workloadRef={"name": group, "podGroup": _MEMBERS})
        return marked(pod, {GANG_LABEL: group}, schedulingGroup={"podGroupName": group})


def served_kind(scope: Scope) -> str:
    """The resource key of what makes a gang here; empty when there is nothing."""
    if scope.snapshot.served(NATIVE_GROUPS):
        return NATIVE_GROUPS
    return WORKLOADS if scope.snapshot.versions.get(WORKLOADS) == FIRST_VERSION else ""


class MinimumOfMembers(GroupedPods):
    """PodGroups that say ``minMember``, of a ``scheduler`` whose pods name it. ``annotation`` names the group in a pod."""

    scheduler: str
    annotation = ""
    queue = ""

    def group(self, gang: Gang, priority: str) -> Json:
        """The PodGroup of a gang."""
        return {
            "apiVersion": f"{self.key.partition('/')[0]}/{self.version}",
            "kind": "PodGroup",
            "metadata": {"name": gang.name, "labels": {GANG_LABEL: gang.name}},
            "spec": {"minMember": gang.size, **self.spec(priority)},
        }

    def spec(self, priority: str) -> Json:
        """What the group says beside its minimum."""
        return {}

    def labels(self, group: str) -> dict[str, str]:
        """Labels of a member beside the gang's."""
        return {QUEUE_LABEL: self.queue} if self.queue else {}

    def member(self, pod: Json, group: str) -> Json:
        """The pod as a member of a PodGroup."""
        annotations = {self.annotation: group} if self.annotation else {}
        return marked(pod, {GANG_LABEL: group, **self.labels(group)}, annotations, schedulerName=self.scheduler)


class Volcano(MinimumOfMembers):
    """The adapter of Volcano. Gangs go to its default queue."""

    name = "volcano"
    promise = "Volcano binds no pod of a PodGroup below its minMember"
    key = VOLCANO_GROUPS
    scheduler = SCHEDULER
    annotation = GROUP_ANNOTATION

    def detect(self, scope: Scope) -> Availability:
        """Installed by its kinds or its Deployments; healthy by its Deployments, else by the state of its default queue."""
        deployed = controllers_health(scope, {"scheduler": "volcano-scheduler", "controllers": "volcano-controllers"}, "volcano-system")
        if deployed.installed:
            return deployed
        if not any(map(scope.snapshot.served, (VOLCANO_GROUPS, VOLCANO_QUEUES))):
            return Availability(installed=False, reason=f"{VOLCANO_GROUPS} is not served", source="discovery")
        state, source = self._queue_state(scope), "queue.status.state"
        if state == "Open":
            reason = f"queue {DEFAULT_QUEUE} is Open, and only Volcano's controllers set that ({deployed.reason})"
            return Availability(installed=True, healthy=True, reason=reason, source=source)
        return Availability(installed=True, reason=f"{deployed.reason}, and queue {DEFAULT_QUEUE} is {state}", source=source)

    @staticmethod
    def _queue_state(scope: Scope) -> str:
        queues = volcano_queues(scope) if scope.snapshot.served(VOLCANO_QUEUES) else []
        return next((queue.phase for queue in queues if queue.name == DEFAULT_QUEUE), "") or "missing"

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """The default queue must be open: a closed one holds every gang, which would look like all or nothing."""
        self.version = scope.snapshot.versions.get(VOLCANO_GROUPS, self.version)
        if (state := self._queue_state(scope)) != "Open":
            raise Inconclusive("QueueNotOpen", f"Volcano's queue {DEFAULT_QUEUE} is {state}, so nothing can be submitted to it")

    def spec(self, priority: str) -> Json:
        """Without minResources: the question is the gang plugin's, not the enqueue action's. One without a priority would have another."""
        return {"queue": DEFAULT_QUEUE, "priorityClassName": priority}


class Kai(MinimumOfMembers):
    """The adapter of KAI. Gangs go to the queue that the policy names.

    Its pod grouper leaves pods alone that name a group and have no owner. KAI may end pods of other queues for one that is below its
    share, which no PriorityClass prevents: the probes keep to nodes on which it has none.
    """

    name = "kai"
    promise = "KAI binds no pod of a PodGroup below its minMember"
    key = KAI_GROUPS
    version = "v2alpha2"
    scheduler = "kai-scheduler"
    annotation = KAI_GROUP

    def detect(self, scope: Scope) -> Availability:
        """By its Deployments."""
        return watched_as(self.name).detect(scope)

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """The queue must have room for the gang: a limit holds it as too few devices do."""
        self.queue = scope.policy.gang.kai_queue
        if (room := room_in(scope, self.queue, resource)) < quota:
            raise Inconclusive("QueueTooSmall", f"KAI's queue {self.queue} may give {room:g} more {resource}, and the probe needs {quota}")
        chosen = {node.name for node in nodes}
        for pod in scope.snapshot.pods:
            mine = pod.metadata.label.get(RUN_LABEL) == workspace.run_id
            if pod.scheduler_name == self.scheduler and pod.node_name in chosen and not pod.finished and not mine:
                message = f"KAI may end {pod.namespace}/{pod.name} on {pod.node_name} to give its devices to a probe"
                raise Inconclusive("NoUsableNode", message)

    def spec(self, priority: str) -> Json:
        """With a delay in which newer releases end no other pods for it; older ones drop the field."""
        return {"queue": self.queue, "priorityClassName": priority, "preemptionDelay": "24h"}


class Coscheduling(MinimumOfMembers):
    """The adapter of the scheduler that scheduler-plugins builds with coscheduling. There are no queues."""

    name = "coscheduling"
    promise = "coscheduling binds no pod of a PodGroup below its minMember"
    key = COSCHEDULING_GROUPS
    version = "v1alpha1"
    scheduler = "scheduler-plugins-scheduler"

    def detect(self, scope: Scope) -> Availability:
        """By its Deployments."""
        return watched_as(self.name).detect(scope)

    def setup(self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = ()) -> None:
        """There is nothing to prepare."""

    def labels(self, group: str) -> dict[str, str]:
        """Pods name their group by a label."""
        return {COSCHEDULING_GROUP: group}
