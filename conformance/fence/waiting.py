"""Why a pod that should run does not, in one sentence: from its conditions and container states."""

from __future__ import annotations

from conformance.outputs.events import Unschedulable, parse_unschedulable
from conformance.outputs.unreadable import Unreadable
from fixtures.models import Pod


def unschedulable(pod: Pod) -> Unschedulable | None:
    """What the scheduler says of a pod that it cannot place; None when it says nothing or in words that are not its own."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "False" or condition.reason != "Unschedulable":
        return None
    try:
        return parse_unschedulable(condition.message)
    except Unreadable:
        return None


def ran(pod: Pod | None) -> bool:
    """Whether a pod's containers were started on a node."""
    return pod is not None and bool(pod.spec.node_name) and pod.status.phase in ("Running", "Succeeded")


def why_not_running(pod: Pod | None) -> str:
    """One clause for a message."""
    if pod is None:
        return "it is gone"
    if pod.status.phase == "Failed":
        return f"it failed on {pod.spec.node_name or 'no node'}: {pod.status.reason or 'exit'} {pod.status.message}".strip()[:400]
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waiting = (status.state or {}).get("waiting")
        if isinstance(waiting, dict) and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"container {status.name} waits: {waiting.get('reason')} {waiting.get('message') or ''}".strip()[:400]
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.status == "False":
        return f"{condition.reason or 'not scheduled'}: {condition.message}"[:400]
    return f"its phase is {pod.status.phase or 'unknown'}" + (
        f" on {pod.spec.node_name}" if pod.spec.node_name else " and no scheduler took it up"
    )


def image_trouble(pod: Pod | None) -> bool:
    """Whether it is the image that keeps a placed pod from starting."""
    return pod is not None and any(
        isinstance(waiting := (status.state or {}).get("waiting"), dict) and "Image" in str(waiting.get("reason"))
        for status in pod.status.container_statuses or ()
    )
