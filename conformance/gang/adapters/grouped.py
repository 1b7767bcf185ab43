"""Base of the adapters whose gangs are a PodGroup object and pods that name it (Volcano, native)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conformance.gang.adapters.base import RELEASE_SECONDS, Gang, await_gone, delete_pods, in_turn, start_pod
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive


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
    spec, meta = created.get("spec") or {}, created.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    asked = wanted["metadata"].get("annotations") or {}
    if any(spec.get(field) != wanted["spec"].get(field) for field in ("schedulingGroup", "workloadRef")):
        return False
    return all(annotations.get(key) == asked[key] for key in asked)
