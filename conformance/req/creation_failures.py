"""Containers that could not be created: who is at fault, the node or the pod.

Facts: docs/facts/pod-lifecycle.md#containers-that-are-never-created.
"""

from __future__ import annotations

import re
from enum import StrEnum

from fixtures.kubernetes.models import ContainerStatus, Json, Pod
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, text_of

NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a terminated state whose container never ran."""

_OWN_PROGRAM = re.compile(r"""exec: \\{0,3}["']?(?!nvidia-smi|rocm-smi)[^"' \\]|exec format error""")
_DEVICES = re.compile(
    r"nvidia|nvml|\bcdi\b|libcuda|amdgpu|rocm|habana|neuron|xpu|\bhooks?\b|sandbox runtime|no runtime for|runtime handler"
    r"|/dev/(?:dri|kfd|infiniband|vfio|accel|davinci)",
    re.IGNORECASE,
)


class Fault(StrEnum):
    """Who is at fault."""

    NODE = "node"
    POD = "pod"
    UNCLEAR = "unclear"


def fault(message: str) -> Fault:
    """Who is at fault by the runtime's message. A pod's own program that is missing is the pod's; devices and hooks are the node's.

    ``nvidia-smi`` comes into a container with the devices, so where that is missing they are.
    """
    text = message[:4096]
    if _OWN_PROGRAM.search(text):
        return Fault.POD
    return Fault.NODE if _DEVICES.search(text) else Fault.UNCLEAR


def statuses(pod: Pod) -> list[ContainerStatus]:
    """Statuses of init and ordinary containers."""
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def never_ran(terminated: Json) -> bool:
    """Whether a terminated state is of a container that the runtime could not start."""
    return bool(terminated) and text_of(terminated.get("reason")) in NEVER_RAN and moment(text_of(terminated.get("startedAt"))) is None


def failed_creation(pod: Pod) -> tuple[str, str] | None:
    """Reason and message of the first container that was never started because the runtime could not; None where all were."""
    for status in statuses(pod):
        for state in (status.state, status.last_state):
            terminated = mapping(mapping(state).get("terminated"))
            if never_ran(terminated):
                return text_of(terminated.get("reason")), text_of(terminated.get("message"))
    return None
