"""Kueue: plain pods as a group, admitted by the quota of a queue of this run (docs/facts/gangs.md#kueue)."""

import time
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
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import sequence, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import BY_CLASS
from fixtures.model.jobs.gang_jobs import KUEUE_WORKLOADS
from fixtures.model.objects import Row, row_of
from fixtures.model.queues.kueue import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES, Flavor, KueueObjects
from fixtures.model.queues.kueue_quotas import class_mappings, pods_ready_timeout
from fixtures.probes.pods import gated, marked
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive

GROUP = "kueue.x-k8s.io"
GATE = f"{GROUP}/admission"
QUEUE = "gpu-conformance"
PLENTY = {"cpu": "1000", "memory": "1000Gi"}
"""Kueue refuses a workload that asks a resource its queue does not cover; these are covered and never the limit."""

ANSWER_SECONDS = 30.0


class Kueue:
    """The adapter of Kueue. Each set-up makes a ResourceFlavor, a ClusterQueue and a LocalQueue that belong to the run."""

    name = "kueue"

    def __init__(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._uids: dict[str, str] = {}
        self._version = "v1beta2"
        self._topology = ""
        self._queue = ""

    def detect(self, scope: Scope) -> Availability:
        """Installed by its kinds or its Deployment; healthy by its Deployment, else by an Active ClusterQueue."""
        snapshot = scope.snapshot
        deployed = controllers_health(scope, {"manager": "kueue-controller-manager"}, "kueue-system")
        if deployed.installed:
            return deployed
        if not any(snapshot.served(key) for key in (KUEUE_WORKLOADS, CLUSTER_QUEUES, FLAVORS)):
            return Availability(installed=False, reason=f"{KUEUE_WORKLOADS} is not served", source="discovery")
        queues, source = scope.cached(KueueObjects).queues if snapshot.served(CLUSTER_QUEUES) else {}, "clusterqueue.status.conditions"
        if active := next((name for name, queue in queues.items() if queue.holds("Active")), ""):
            reason = f"ClusterQueue {active} is Active, and only Kueue's manager sets that ({deployed.reason})"
            return Availability(installed=True, healthy=True, reason=reason, source=source)
        return Availability(installed=True, reason=f"{deployed.reason}, and no ClusterQueue is Active", source=source)

    def guarantee(self, scope: Scope, nodes: Sequence[Node] = (), *, claims: bool = False) -> tuple[Guarantee, str]:
        """Placement with topology-aware scheduling, which counts no claims; eviction with waitForPodsReady; else quota alone.

        Facts: docs/facts/gangs.md#kueue-and-placement.
        """
        flavor = _flavor(scope, nodes)
        if flavor and not claims:
            return Guarantee.PLACEMENT, f"topology-aware scheduling is set up (Topology {flavor.topology})"
        found, why = self.guarantee_without_topology(scope)
        if flavor and found is Guarantee.QUOTA:
            why = "Kueue has no waitForPodsReady, and its topology-aware scheduling counts no claims: it promises quota, not placement"
        elif found is Guarantee.QUOTA and _flavor(scope):
            why = "Kueue has no waitForPodsReady, and no ResourceFlavor of a Topology is for these nodes: it promises quota, not placement"
        return found, why

    @staticmethod
    def guarantee_without_topology(scope: Scope) -> tuple[Guarantee, str]:
        """What it promises where topology-aware scheduling does not place: as :meth:`guarantee`."""
        timeout = pods_ready_timeout(scope)
        if timeout is not None:
            return Guarantee.EVICTION, f"waitForPodsReady evicts a workload that is not ready within {timeout:g} s"
        return Guarantee.QUOTA, "Kueue has neither waitForPodsReady nor topology-aware scheduling: it promises quota, not placement"

    def setup(
        self, scope: Scope, workspace: Workspace, resource: str, quota: int, nodes: Sequence[Node] = (), *, topology: bool = True
    ) -> None:
        """Queues of the run with exactly ``quota`` units of ``resource``; without ``topology`` their quota alone decides."""
        workspace.will_remove(KUEUE_WORKLOADS)  # Kueue makes them of the pods, and the pods stay until they are deleted
        self._version = scope.snapshot.versions.get(KUEUE_WORKLOADS, self._version)
        api, name = f"{GROUP}/{self._version}", f"gpu-conformance-{workspace.run_id}"
        usual = _flavor(scope, nodes) if topology else None
        self._topology = usual.topology if usual else ""
        flavor: Json = {"topologyName": self._topology, "nodeLabels": dict(usual.labels)} if usual else {}
        for key, queue in queues(api, name, self.counted_as(scope, resource), quota, flavor):
            workspace.create(key, queue, workspace.namespace() if key == LOCAL_QUEUES else "")
        self._queue = name

    @staticmethod
    def counted_as(scope: Scope, resource: str) -> str:
        """The name in a quota of what pods ask for. Raises :class:`Inconclusive` where Kueue counts no claims of the DeviceClass.

        Facts: docs/facts/gangs.md#claims-of-gangs.
        """
        if not resource.startswith(BY_CLASS):
            return resource
        device_class = resource.removeprefix(BY_CLASS)
        for item in class_mappings(scope):
            if device_class in sequence(item.get("deviceClassNames")):
                return text_of(item.get("name"))
        mappings = f"DeviceClass {device_class} to a quota (resources.deviceClassMappings)"
        raise Inconclusive("ClaimsNotCounted", f"no configuration of Kueue maps {mappings}: it counts no claims")

    def submit(self, workspace: Workspace, *gangs: Gang) -> None:
        """Pods of groups, with the gate that Kueue's webhook would add: they stay where they are until Kueue answers.

        Raises :class:`Inconclusive` when no Workload is made of them: Kueue then does not manage plain pods, or is away.
        """
        self._gangs.update({gang.name: gang for gang in gangs})
        for gang, pod in in_turn(gangs):
            meta = workspace.create_pod(self.member(pod, gang))["metadata"]
            self._uids[str(meta["name"])] = str(meta["uid"])
        self._await_workloads(workspace, gangs)

    def _await_workloads(self, workspace: Workspace, gangs: tuple[Gang, ...]) -> None:
        with Observation(workspace.cluster, KUEUE_WORKLOADS, workspace.namespace()) as observation:
            for objects in observation.until(time.monotonic() + ANSWER_SECONDS):
                if all(any(is_of(item, gang) for item in objects.values()) for gang in gangs):
                    break
            else:
                late = f"Kueue made no Workload for the pod group within {ANSWER_SECONDS:g} s"
                raise Inconclusive("PodsNotManaged", f"{late}: it does not manage plain pods here, or is down")
        answer = workspace.cluster.get(CLUSTER_QUEUES, self._queue)
        if not answer.ok:
            raise ApiTrouble(answer.reason, f"ClusterQueue {self._queue} of this run: {answer.status} {answer.message}")
        queue = Row(**row_of(answer.json()))
        if queue.state("Active") == "False":
            raise Inconclusive("QueueNotActive", f"ClusterQueue {self._queue} of this run is not active: {queue.words('Active')}")

    def member(self, pod: Json, gang: Gang) -> Json:
        """The pod as a member of the group."""
        labels = {f"{GROUP}/queue-name": QUEUE, f"{GROUP}/pod-group-name": gang.name, GANG_LABEL: gang.name}
        topology = {f"{GROUP}/podset-unconstrained-topology": "true"} if self._topology else {}
        annotations = {f"{GROUP}/pod-group-total-count": str(gang.size), **topology}
        return gated(marked(pod, labels, annotations), GATE)

    def release(self, workspace: Workspace, gang: Gang) -> None:
        """The group's Workload goes first: its pods carry the finalizer ``kueue.x-k8s.io/managed`` until it is gone."""
        self._delete_workloads(workspace, gang)
        delete_pods(workspace, {name: self._uids.pop(name) for name in gang.names if name in self._uids})
        deadline = time.monotonic() + RELEASE_SECONDS
        with Observation(workspace.cluster, "pods", workspace.namespace()) as observation:
            wanted = {f"{workspace.namespace()}/{name}" for name in gang.names}
            for objects in observation.until(deadline):
                if not wanted & objects.keys():
                    break
                if all((objects[key].get("metadata") or {}).get("deletionTimestamp") for key in wanted & objects.keys()):
                    self._delete_workloads(workspace, gang)  # one that was made anew between the two deletions
            else:
                raise Inconclusive("PodsStay", f"pods of gang {gang.name} did not go away within {RELEASE_SECONDS:g} s")
        await_gone(workspace, KUEUE_WORKLOADS, [gang.name], deadline)  # its quota is free only then
        self._gangs.pop(gang.name, None)

    @staticmethod
    def _delete_workloads(workspace: Workspace, gang: Gang) -> None:
        cluster, namespace = workspace.cluster, workspace.namespace()
        for item in [one for one in cluster.each(KUEUE_WORKLOADS, namespace) if is_of(one, gang)]:
            meta = item["metadata"]
            cluster.delete(KUEUE_WORKLOADS, str(meta.get("name")), namespace, uid=str(meta.get("uid") or ""))

    def teardown(self, workspace: Workspace) -> None:
        """Release what is left, so that the pods' finalizers do not outlive the probe."""
        for gang in list(self._gangs.values()):
            try:
                self.release(workspace, gang)
            except Inconclusive:
                self._gangs.pop(gang.name, None)  # the workspace's clearing says what stays


def _flavor(scope: Scope, nodes: Sequence[Node] = ()) -> Flavor | None:
    """A ResourceFlavor that names a Topology and whose labels all the nodes have."""
    every = scope.cached(KueueObjects).flavors if scope.snapshot.served(FLAVORS) else {}
    named = [flavor for flavor in every.values() if flavor.topology]
    return next((one for one in named if all(one.labels.items() <= node.metadata.label.items() for node in nodes)), None)


def queues(api: str, name: str, resource: str, quota: int, flavor: Json) -> list[tuple[str, Json]]:
    """A ResourceFlavor, a ClusterQueue that admits ``quota`` units of a resource, both of a name, and a LocalQueue; each with its kind."""
    nominal = [*PLENTY.items(), (resource, str(quota))]
    group: Json = {
        "coveredResources": [key for key, _ in nominal],
        "flavors": [{"name": name, "resources": [{"name": key, "nominalQuota": value} for key, value in nominal]}],
    }
    spec: Json = {"namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "resourceGroups": [group]}
    made = (
        (FLAVORS, "ResourceFlavor", name, flavor),
        (CLUSTER_QUEUES, "ClusterQueue", name, spec),
        (LOCAL_QUEUES, "LocalQueue", QUEUE, {"clusterQueue": name}),
    )
    return [(key, {"apiVersion": api, "kind": kind, "metadata": {"name": own}, "spec": body}) for key, kind, own, body in made]


def is_of(workload: Json, gang: Gang) -> bool:
    """Whether a Workload is the gang's: it has the group's name, or its pods own it."""
    meta = workload.get("metadata") or {}
    owners = {str(owner.get("name")) for owner in meta.get("ownerReferences") or ()}
    return meta.get("name") == gang.name or bool(owners & set(gang.names))
