"""REQ-13: pods that were bound to a node start there.

Facts: docs/facts/pod-lifecycle.md#containers-that-are-never-created.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.untyped import text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.failing_pods import failed_creation, has_started, running_init_containers
from fixtures.model.demand.pod_events import quoted
from fixtures.model.jobs.marks import placed_at
from fixtures.model.nodes.changes import change_under_way
from fixtures.text.sentences import duration
from fixtures.text.yaml_text import packaged
from fixtures.verdict.findings import About, Finding

_SOURCE = "pod.status, events about the pod"
_EXPECTED = "started"
_PREPARING = ("", "ContainerCreating", "PodInitializing")


class _Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern in the words about a pod that does not start, what it means, and the cause. ``lasting``: no waiting heals it."""

    pattern: str
    meaning: str
    cause: str
    lasting: bool = False


_SIGNS = [(re.compile(sign.pattern), sign) for sign in packaged(Path(__file__).with_suffix(".yaml"), tuple[_Sign, ...])]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod does not start. ``complaint``: somebody says that something is wrong, and not only that it is under way.

    ``lasting``: no waiting heals it.
    """

    words: str
    complaint: bool
    lasting: bool = False
    cause: str = "PodDoesNotStart"


def check_starting(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per bound device pod that has not ended and is not being deleted: it has started."""
    for pod in scope.device_pods:
        if pod.node_name and not pod.metadata.deletion_timestamp:
            yield _judge(scope, pod, now)


def _judge(scope: Scope, pod: Pod, now: float) -> Finding:
    about = About(subject(pod), _SOURCE, _EXPECTED)
    if has_started(pod):
        return about.ok(f"started on {pod.node_name}")
    trouble = _trouble(scope, pod, now)
    limit, rest = 0.0 if trouble.lasting else scope.policy.requests.start_minutes * 60, f": {trouble.words}"
    unknown = f"it has not started ({trouble.words}), and nothing says since when it is bound"
    state, quiet = "it has been starting", not trouble.complaint
    age = overdue(about, placed_at(pod), now, limit, state, cause=trouble.cause, rest=rest, unknown=unknown, quiet=quiet)
    if isinstance(age, Finding):
        return age
    node = scope.snapshot.node_by_name.get(pod.node_name)
    if node is not None and (doing := change_under_way(node, scope.policy, now)):
        return about.undecided(f"it has not started for {duration(age)} on {node.name}: {doing}", cause="ChangeUnderWay")
    holds = ", ".join(f"{count} {name}" for name, count in sorted(scope.devices_of(pod.spec).items())) or "claimed devices"
    message = f"it was bound to {pod.node_name} {duration(age)} ago, holds {holds} and has not started: {trouble.words}"
    return about.bad(message, cause=trouble.cause, observed=f"not started for {duration(age)}")


def _trouble(scope: Scope, pod: Pod, now: float) -> Trouble:
    """The most telling of what node, containers and events say."""
    trouble = _of_containers(pod, now)
    if not trouble.complaint and (newest := scope.pod_events.of_bound(pod)[:1]):
        trouble = Trouble(words=f"{newest[0].reason}: {newest[0].text}", complaint=True)
    node = scope.snapshot.node_by_name.get(pod.node_name)
    if node is None:
        return Trouble(words=f"the cluster has no node {pod.node_name}", complaint=True)
    if not node.ready:
        return Trouble(words=f"its node is NotReady; {quoted(trouble.words)}", complaint=True, cause="NodeNotReady")
    if not trouble.complaint and (peers := _peers(scope, pod)):
        return Trouble(words=f"{peers}; {quoted(trouble.words)}", complaint=True, cause="NodeLacksRuntime")
    for pattern, sign in _SIGNS:
        if found := pattern.search(trouble.words):
            meaning = sign.meaning.format(next((group for group in found.groups() if group), ""))
            words = f"{meaning} ({quoted(trouble.words)})"
            return Trouble(words=words, complaint=trouble.complaint, lasting=sign.lasting, cause=sign.cause)
    return Trouble(words=quoted(trouble.words), complaint=trouble.complaint)


def _of_containers(pod: Pod, now: float) -> Trouble:
    for status in pod.statuses:
        waiting = status.waiting
        if (reason := text_of(waiting.get("reason"))) not in _PREPARING:
            last = failed_creation(pod)
            message = last[1] if last and last[1] else text_of(waiting.get("message"))
            return Trouble(words=f"container {status.name} waits with {reason}: {message}", complaint=True)
    if last := failed_creation(pod):
        return Trouble(words=f"{last[0]}: {last[1]}", complaint=True)
    for name, begun in running_init_containers(pod):
        return Trouble(words=f"its init container {name} has run for {duration(now - begun)}", complaint=False)
    return Trouble(words="its containers are being created, and nothing says what that waits for", complaint=False)


def _peers(scope: Scope, pod: Pod) -> str:
    """That pods of its RuntimeClass run on other nodes and none on its own, as a clause, or empty."""
    name = pod.runtime_class
    others = scope.cached(_runtimes).get(name, set()) if name else set()
    if not others or pod.node_name in others:
        return ""
    return f"pods with runtimeClassName {name} run on {len(others)} other nodes and none on {pod.node_name}: has it that runtime?"


def _runtimes(scope: Scope) -> dict[str, set[str]]:
    """Nodes on which pods with a RuntimeClass run, by the class."""
    found: dict[str, set[str]] = {}
    for pod in scope.snapshot.pods:
        if pod.phase == "Running":
            found.setdefault(pod.runtime_class, set()).add(pod.node_name)
    return found
