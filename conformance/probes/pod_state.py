"""Why a pod that should run does not, in one sentence: from its conditions and container states."""

from __future__ import annotations

from conformance.outputs.events import Unschedulable, parse_unschedulable
from conformance.outputs.unreadable import Unreadable
from fixtures.kubernetes.models import Pod

_PREPARING = (None, "ContainerCreating", "PodInitializing")


def unschedulable(pod: Pod) -> Unschedulable | None:
    """What the scheduler says of a pod that it cannot place; None when it says nothing or in words that are not its own."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return None
    try:
        return parse_unschedulable(condition.message)
    except Unreadable:
        return None


def why_not_running(pod: Pod | None) -> str:
    """One clause for a message."""
    if pod is None:
        return "it is gone"
    if pod.status.phase == "Failed":
        return f"it failed on {pod.spec.node_name or 'no node'}: {pod.status.reason or 'exit'} {pod.status.message}".strip()[:400]
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waiting = (status.state or {}).get("waiting")
        if isinstance(waiting, dict) and waiting.get("reason") not in _PREPARING:
            return f"container {status.name} waits: {waiting.get('reason')} {waiting.get('message') or ''}".strip()[:400]
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.status == "False":
        return f"{condition.reason or 'not scheduled'}: {condition.message}"[:400]
    return f"its phase is {pod.status.phase or 'unknown'}" + (
        f" on {pod.spec.node_name}" if pod.spec.node_name else " and no scheduler took it up"
    )


_ENDED_BY_OTHERS = frozenset({"Evicted", "Preempting", "DeadlineExceeded", "NodeShutdown", "Terminated", "NodeLost"})


def disturbance(pod: Pod) -> str:
    """What keeps a probe pod from being an answer although the cluster may be in order, as a clause; empty when nothing does."""
    disruption = pod.condition("DisruptionTarget")
    if disruption is not None and disruption.status == "True":
        return f"it was disrupted ({disruption.reason}: {disruption.message})"[:300]
    if pod.status.phase == "Failed" and pod.status.reason in _ENDED_BY_OTHERS:
        return f"it was ended from outside ({pod.status.reason}: {pod.status.message})"[:300]
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        return f"a scheduling gate holds it, which the suite did not set ({scheduled.message})"[:300]
    if pod.status.phase == "Pending" and pod.spec.node_name and not _complains(pod):
        return "its node is still preparing it, for example pulling the image (policy probes.startSeconds)"
    return ""


def _complains(pod: Pod) -> bool:
    """Whether a container says why it does not start."""
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waiting = (status.state or {}).get("waiting")
        if isinstance(waiting, dict) and waiting.get("reason") not in _PREPARING:
            return True
    return False


def image_trouble(pod: Pod | None) -> bool:
    """Whether it is the image that keeps a placed pod from starting."""
    return pod is not None and any(
        isinstance(waiting := (status.state or {}).get("waiting"), dict) and "Image" in str(waiting.get("reason"))
        for status in pod.status.container_statuses or ()
    )
