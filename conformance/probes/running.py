"""Runs probe pods and brings back what they printed, or why they did not run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import urllib3.exceptions

from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import ContainerStatus, Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.watched_pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Subject

MAX_LOG_BYTES = 1 << 20


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One probe pod after its run. ``runtime_class`` is what admission gave it.

    ``trouble`` is one sentence when it did not run to where it can be judged.
    """

    subject: Subject
    node: str = ""
    logs: Mapping[str, str] = {}
    runtime_class: str = ""
    trouble: str = ""

    def container(self, name: str) -> Subject:
        """The subject of a finding about one container of the pod."""
        return Subject("container", f"{self.subject.name}/{name}", self.subject.namespace)


def pinned_pod(
    scope: Scope,
    node: Node,
    name: str,
    script: str,
    *,
    resources: Mapping[str, int] | None = None,
    env: Mapping[str, str] | None = None,
    sibling: str = "",
    runtime_class: str = "",
    image: str = "",
    limits: Mapping[str, str] | None = None,
) -> Json:
    """A compliant probe pod pinned to a node by affinity, with tolerations of that node's fence.

    ``image`` and ``limits`` of CPU and memory are for programs that need more than a shell.
    """
    probes = scope.policy.probes
    pod = probe_pod(
        PodShape(
            name=name,
            image=image or probes.image_for(resources or ()),
            script=script,
            resources=resources or {},
            node=node.name,
            tolerations=[*scope.tolerations_for(node), *probes.tolerations],
            env=env or {},
            run_as_user=probes.run_as_user,
            pull_secrets=probes.pull_secrets,
            sidecar_script=sibling,
            limits=limits or {},
        )
    )
    if runtime_class:
        pod["spec"]["runtimeClassName"] = runtime_class
    return pod


def run_pods(workspace: Workspace, pods: Iterable[Json], seconds: float, namespace: str = "") -> dict[str, ProbeResult]:
    """Create pods, wait until the containers they were made of have ended, read their logs: by pod name.

    What a webhook added to them (a mesh's proxy) may go on for ever.
    """
    wanted = list(pods)
    names = [workspace.start(pod, namespace) for pod in wanted]
    own = {name: _containers(pod) for name, pod in zip(names, wanted, strict=True)}
    workspace.wait(
        names, lambda seen: True if len(seen) == len(names) and all(ended(pod, own[pod.name]) for pod in seen) else None, seconds, namespace
    )
    return {name: _finished(workspace, name, pod, seconds, namespace) for name, pod in zip(names, wanted, strict=True)}


def hold_pods(workspace: Workspace, pods: Sequence[Json], marker: str, seconds: float) -> dict[str, ProbeResult]:
    """Create pods that stay, wait until all run at the same time, read each log up to the line ``marker``."""
    names = [workspace.start(pod) for pod in pods]
    deadline = time.monotonic() + seconds
    ran = await_running(workspace, names, seconds)
    for name, state in ran.items():
        if not state.trouble:
            text = follow_log(workspace, name, marker, max(deadline - time.monotonic(), 1.0))
            trouble = "" if marker in text.splitlines() else f"its log did not reach {marker!r} within {seconds:g} s"
            ran[name] = msgspec.structs.replace(state, logs={"probe": text}, trouble=trouble)
    return ran


def await_running(workspace: Workspace, names: Sequence[str], seconds: float) -> dict[str, ProbeResult]:
    """Wait until pods that were created all run at the same time: by name, without logs."""
    workspace.wait(
        names, lambda seen: True if len(seen) == len(names) and all(pod.status.phase == "Running" for pod in seen) else None, seconds
    )
    ran = {}
    for name in names:
        state = _read(workspace, name)
        trouble = "" if state.status.phase == "Running" else f"it did not run: {pod_trouble(state)}"
        ran[name] = ProbeResult(subject=Subject("Pod", name, workspace.namespace()), node=state.spec.node_name, trouble=trouble)
    return ran


def follow_log(workspace: Workspace, name: str, marker: str, seconds: float, container: str = "probe") -> str:
    """A running container's log up to the line ``marker``, or what came until the deadline. Bounded."""
    path = workspace.cluster.path("pods", workspace.namespace(), name, "log")
    query = {"follow": "true", "container": container, "limitBytes": str(MAX_LOG_BYTES)}
    response = workspace.cluster.stream(path, query, seconds)
    data = b""
    end = time.monotonic() + seconds
    try:
        if response.status >= 300:
            return ""
        while marker.encode() not in data.splitlines() and len(data) < MAX_LOG_BYTES and time.monotonic() < end:
            chunk = response.read1(MAX_LOG_BYTES, decode_content=False)
            if not chunk:
                break
            data += chunk
    except (urllib3.exceptions.HTTPError, OSError):
        pass  # the deadline passed, or the stream broke: what came so far is judged
    finally:
        response.close()
    return data.decode(errors="replace")


def ended(pod: Pod, containers: Iterable[str]) -> bool:
    """Whether a pod is finished, or the named containers of it are."""
    over = {status.name for status in pod.status.container_statuses or () if (status.state or {}).get("terminated")}
    return pod.finished or over >= set(containers)


def _containers(pod: Json) -> list[str]:
    return [str(container["name"]) for container in pod["spec"]["containers"]]


def _finished(workspace: Workspace, name: str, pod: Json, seconds: float, namespace: str) -> ProbeResult:
    state = _read(workspace, name, namespace)
    subject = Subject("Pod", name, namespace or workspace.namespace())
    node = state.spec.node_name
    if not ended(state, _containers(pod)):
        return ProbeResult(subject=subject, node=node, trouble=f"it did not finish within {seconds:g} s: {pod_trouble(state)}")
    try:
        logs = {container: workspace.logs(name, container, namespace) for container in _containers(pod)}
    except ApiTrouble as trouble:
        return ProbeResult(subject=subject, node=node, trouble=f"{pod_trouble(state)}; {trouble.message}")
    return ProbeResult(subject=subject, node=node, logs=logs, runtime_class=state.spec.runtime_class_name)


def _read(workspace: Workspace, name: str, namespace: str = "") -> Pod:
    answer = workspace.cluster.get("pods", name, namespace or workspace.namespace())
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"pod {name} of this run: {answer.status} {answer.message}")
    return decode_pod(answer.json())


def pod_trouble(pod: Pod) -> str:
    """Why a pod is where it is, in one line: its own reason, a waiting container's, or the scheduler's."""
    parts = [pod.status.phase or "no phase"]
    if pod.status.reason or pod.status.message:
        parts.append(": ".join(part for part in (pod.status.reason, pod.status.message) if part))
    parts += [
        text for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())) if (text := _state(status))
    ]
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        parts.append(f"{scheduled.reason}: {scheduled.message}")
    return "; ".join(parts)[:600]


def _state(status: ContainerStatus) -> str:
    for name in ("waiting", "terminated"):
        state = (status.state or {}).get(name)
        if isinstance(state, dict) and state.get("reason") != "Completed":
            words = [str(state[key]) for key in ("reason", "message") if state.get(key)]
            return f"container {status.name} {name}: {': '.join(words)}" if words else ""
    return ""
