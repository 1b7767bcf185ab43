"""Why a pod that has a node does not start: its sandbox, its devices, its volumes, its image, its program.

Facts: docs/facts/scheduling-messages.md#containers-that-do-not-start.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Obstacle(StrEnum):
    """What keeps a pod from starting."""

    DEVICES = "its devices"
    SANDBOX = "its sandbox"
    CONTAINER = "its container"
    IMAGE = "its image"
    VOLUME = "its volumes"
    CRASH = "its program, which ends again and again"


_DEVICES = re.compile(
    r"CDI device|nvidia-container-cli|nvidia-container-runtime|libnvidia|NVML|NodePrepareResources|prepare dynamic resources"
    r"|error gathering device information|no-gpu-has|unknown device|could not select device driver|/dev/(?:nvidia|kfd|dri|accel|neuron)",
    re.IGNORECASE,
)
_CREATE = re.compile(
    r"failed to create (?:containerd|shim) (?:task|container)|failed to create task for container|OCI runtime create failed"
    r"|failed to inject CDI devices|unresolvable CDI devices|CDI device injection failed|failed to start container \""
    r"|container create failed|CreateContainer(?:Config)?Error|RunContainerError|nvidia-container-cli: "
)
_SANDBOX = re.compile(r"[Ff]ailed to create pod sandbox|no runtime for \"")
_REASONS = {
    "FailedCreatePodSandBox": Obstacle.SANDBOX,
    "FailedPrepareDynamicResources": Obstacle.DEVICES,
    "FailedCreatePodContainer": Obstacle.CONTAINER,
    "CreateContainerError": Obstacle.CONTAINER,
    "CreateContainerConfigError": Obstacle.CONTAINER,
    "RunContainerError": Obstacle.CONTAINER,
    "StartError": Obstacle.CONTAINER,
    "ContainerCannotRun": Obstacle.CONTAINER,
    "FailedPostStartHook": Obstacle.CONTAINER,
    "FailedMount": Obstacle.VOLUME,
    "FailedAttachVolume": Obstacle.VOLUME,
    "FailedMapVolume": Obstacle.VOLUME,
    "ErrImagePull": Obstacle.IMAGE,
    "ImagePullBackOff": Obstacle.IMAGE,
    "ErrImageNeverPull": Obstacle.IMAGE,
    "InspectFailed": Obstacle.IMAGE,
    "InvalidImageName": Obstacle.IMAGE,
    "CrashLoopBackOff": Obstacle.CRASH,
}
_TRANSIENT = frozenset({Obstacle.VOLUME, Obstacle.IMAGE})


def obstacle(reason: str, message: str) -> Obstacle | None:
    """What an event or the state of a container says keeps the pod from starting; ``None`` for any other."""
    if reason == "BackOff":
        return Obstacle.IMAGE if "pulling image" in message else Obstacle.CRASH
    known = _REASONS.get(reason)
    if known is None and reason in ("Failed", "FailedSync", "Error", ""):
        known = (
            Obstacle.SANDBOX
            if _SANDBOX.search(message)
            else Obstacle.CONTAINER
            if _CREATE.search(message)
            else Obstacle.IMAGE
            if reason == "Failed" and re.search(r"\b(?:pull|image|Err\w*Image|ImagePull\w*)\b", message)
            else Obstacle.CONTAINER
            if reason == "Failed" and message.startswith("Error: ")
            else None
        )
    if known in (Obstacle.CONTAINER, Obstacle.SANDBOX) and _DEVICES.search(message):
        return Obstacle.DEVICES
    return known


def fails(reason: str, message: str) -> bool:
    """Whether an event says that a pod does not start."""
    return obstacle(reason, message) is not None


def may_pass(reason: str, message: str, count: int) -> bool:
    """Whether it is of the kind that passes by itself, and was seen once: nobody can say yet."""
    return count < 2 and obstacle(reason, message) in _TRANSIENT
