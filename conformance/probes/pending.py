"""Watches a pod that must stay Pending, and turns what happened into a finding."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.probes.watched_pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, bad, ok, undecided
from fixtures.verdict.subjects import Subject

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
                    found[name] = _state(waited, objects.get(f"{namespace}/{name}"), time.monotonic() - start)
            if all(waited.over for waited in found.values()):
                return found
    end = time.monotonic() - start
    return {name: waited if waited.over else msgspec.structs.replace(waited, seconds=end) for name, waited in found.items()}


def _state(waited: PendingPod, obj: Json | None, seconds: float) -> PendingPod:
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
    if waited.node or waited.phase != "Pending":
        message = f"it asked for {resource} and was bound to {waited.node or 'a node'} although {why}"
        return bad(waited.subject, cause="PlacedWithoutDevice", observed=observed, expected=expected, source=source, message=message)
    if control:
        return undecided(
            waited.subject,
            message=f"{control}, so a pod that stays Pending proves nothing",
            source=source,
            cause="PositiveControlFailed",
        )
    if waited.gone:
        return undecided(waited.subject, message="another program deleted it while it was watched", source=source, cause="ProbeDisturbed")
    if waited.reason != "Unschedulable" or (words or resource) not in waited.message:
        text = f"{waited.reason}: {waited.message}".strip(": ") or "the scheduler has said nothing about it"
        return undecided(
            waited.subject,
            message=f"it is Pending for another reason than {resource}: {text[:300]}",
            source="condition PodScheduled",
            cause="ProbeDidNotRun",
        )
    return ok(waited.subject, observed=f"{observed}: {waited.message[:200]}", expected=expected, source=source)
