"""Runs probe pods, watches those that must stay Pending, and says what they printed or why they did not run."""

import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import urllib3.exceptions

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.events import Unschedulable, parse_unschedulable
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_state import pod_trouble
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.probes.pods import PodShape, decode_pod, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject


def unschedulable(pod: Pod) -> Unschedulable | None:
    """What the scheduler says of a pod that it cannot place; None when it says nothing or in words that are not its own."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return None
    try:
        return parse_unschedulable(condition.message)
    except Unreadable:
        return None


FACTOR = 5.0
"""An absence is watched so many times as long as the scheduler took to bind the positive control."""
CEILING = 60.0
"""Seconds after which a busy scheduler lengthens no window any more: the policy's ``probes.windowSeconds`` alone does."""


def absence_seconds(scope: Scope, control_seconds: float) -> float:
    """How long an absence is watched whose control was bound within ``control_seconds``; never less than the policy's window."""
    return max(scope.policy.probes.window_seconds, min(FACTOR * control_seconds, CEILING))


class PendingPod(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the pod: ``node`` is empty while it is not bound, ``verdict`` is the scheduler's reason and message."""

    subject: Subject
    seconds: float
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    gone: bool = False

    @property
    def over(self) -> bool:
        """Whether there is nothing more to wait for: bound, ended or gone."""
        return bool(self.node) or self.phase != "Pending" or self.gone


def watch_pending(workspace: Workspace, names: Sequence[str], seconds: float) -> dict[str, PendingPod]:
    """Watch pods of the workspace until each is bound, ended or gone, or until ``seconds`` have passed: by name."""
    namespace = workspace.namespace()
    start = time.monotonic()
    found = {name: PendingPod(subject=Subject("Pod", name, namespace), seconds=0.0) for name in names}
    with workspace.observe(namespace) as observation:
        for objects in observation.until(start + seconds):
            for name, waited in found.items():
                if not waited.over:
                    found[name] = _pending_state(waited, objects.get(f"{namespace}/{name}"), time.monotonic() - start)
            if all(waited.over for waited in found.values()):
                return found
    end = time.monotonic() - start
    return {name: waited if waited.over else msgspec.structs.replace(waited, seconds=end) for name, waited in found.items()}


def _pending_state(waited: PendingPod, obj: Json | None, seconds: float) -> PendingPod:
    if obj is None:
        return msgspec.structs.replace(waited, gone=True, seconds=seconds)
    pod = decode_pod(obj)
    scheduled = pod.condition("PodScheduled")
    refused = scheduled is not None and scheduled.status == "False"
    return msgspec.structs.replace(
        waited,
        seconds=seconds,
        node=pod.spec.node_name,
        phase=pod.status.phase or "Pending",
        reason=scheduled.reason if scheduled and refused else "",
        message=scheduled.message if scheduled and refused else "",
    )


def judge_pending(waited: PendingPod, resource: str, why: str, control: str, *, words: str = "") -> Finding:
    """The pod asked for ``resource``, which it must not get because ``why``. ``control``: why the control failed, or empty.

    The scheduler's message has ``words`` where that is the reason; without, the name of the resource.
    """
    source = "pod watched"
    expected = f"Pending and not bound: {why}"
    observed = f"{waited.phase}{f' on {waited.node}' if waited.node else ''} after {waited.seconds:.1f} s"
    about = About(waited.subject, source, expected)
    if waited.node or waited.phase != "Pending":
        message = f"it asked for {resource} and was bound to {waited.node or 'a node'} although {why}"
        return about.bad(message, cause="PlacedWithoutDevice", observed=observed)
    if control:
        return about.undecided(f"{control}, so a pod that stays Pending proves nothing", cause="PositiveControlFailed")
    if waited.gone:
        return about.undecided("another program deleted it while it was watched", cause="ProbeDisturbed")
    if waited.reason != "Unschedulable" or (words or resource) not in waited.message:
        text = f"{waited.reason}: {waited.message}".strip(": ") or "the scheduler has said nothing about it"
        return about.undecided(
            f"it is Pending for another reason than {resource}: {text[:300]}", source="condition PodScheduled", cause="ProbeDidNotRun"
        )
    return about.ok(f"{observed}: {waited.message[:200]}")


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
        return Subject("container", f"{self.subject.name}/{name}", self.subject.namespace, self.node)


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
    return probe_pod(
        PodShape(
            name=name,
            image=image or probes.image_for(resources or ()),
            script=script,
            resources=resources or {},
            node=node.name,
            tolerations=[*fence_tolerations(scope, node), *probes.tolerations],
            env=env or {},
            run_as_user=probes.run_as_user,
            pull_secrets=probes.pull_secrets,
            sidecar_script=sibling,
            limits=limits or {},
            runtime_class=runtime_class,
        )
    )


def made_privileged(pod: Json, folder: str = "") -> Json:
    """A probe pod that runs as root and privileged, with a folder of its node mounted where it is there."""
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    spec["securityContext"], container["securityContext"] = {"runAsUser": 0}, {"privileged": True}
    if folder:
        spec["volumes"] = [{"name": "of-node", "hostPath": {"path": folder, "type": "Directory"}}]
        container["volumeMounts"] = [{"name": "of-node", "mountPath": folder}]
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
    return read_held(workspace, [workspace.start(pod) for pod in pods], marker, seconds)


def read_held(workspace: Workspace, names: Sequence[str], marker: str, seconds: float) -> dict[str, ProbeResult]:
    """The same for pods that were created: by name."""
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
        place = Subject("Pod", name, workspace.namespace(), state.spec.node_name)
        ran[name] = ProbeResult(subject=place, node=state.spec.node_name, trouble=trouble)
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
    over = {status.name for status in pod.status.container_statuses or () if status.ended}
    return pod.finished or over >= set(containers)


def _containers(pod: Json) -> list[str]:
    return [str(container["name"]) for container in pod["spec"]["containers"]]


def _finished(workspace: Workspace, name: str, pod: Json, seconds: float, namespace: str) -> ProbeResult:
    state = _read(workspace, name, namespace)
    node = state.spec.node_name
    subject = Subject("Pod", name, namespace or workspace.namespace(), node)
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
