"""Containers that could not be created: who is at fault, the node or the pod.

Facts: docs/facts/pod-lifecycle.md#containers-that-are-never-created.
"""

from __future__ import annotations

import re
from enum import StrEnum

from fixtures.kubernetes.models import ContainerStatus, Json, Pod
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping, mappings, text_of

NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a terminated state whose container never ran."""

_QUOTED = re.compile(r"""\\{0,8}"(?:\\.|[^"\\])*(?:"|\\?\Z)|`[^`]*(?:`|\Z)""", re.DOTALL)
"""What runtimes quote: names and paths, which the pod may have chosen. A quotation that does not end reaches to the end."""

_PATH = re.compile(r"(?<![\w.])/[^\s:,;()]+")
_OWN = re.compile(r"chdir to cwd|mkdir cwd|exec format error|unable to find (?:user|group)|no matching entries in|no command specified")
_PROGRAM = re.compile(r"""exec: \\{0,3}["'`]?(?P<exec>[^"'`\\\s]{1,4096})|executable file [`'"](?P<file>[^`'"]{1,4096})""")
_MOUNT = re.compile(r"\bmount(?:ing|point)?\b")
_KUBELETS_VOLUMES = re.compile(r"/pods/[\w.-]{1,253}/(?:volumes|volume-subpaths)/")
_DEVICE_FILES = re.compile(
    r"/dev/(?:nvidia|dri|kfd|infiniband|vfio|accel|davinci|neuron)|/lib(?:nvidia|cuda)[\w.-]*\.so|/nvidia-(?:persistenced|cuda-mps)"
)
_SERVES_DEVICES = re.compile(
    r"\b(?:nvidia|amd|habana|ascend|neuron|xpu)[\w]{0,20}-(?:container|docker|ctk|cdi)\b|\bnvml\b|\bcdi\b|custom device"
    r"|\bhook #\d|(?:running|executing) (?:[\w-]+ ){0,3}hook\b|sandbox runtime|no runtime for|runtime handler",
    re.IGNORECASE,
)
"""Programs that bring devices into containers, and what runtimes say of them. A pod's own words are not among what is searched."""

_WISHES = re.compile(r"requirement error|unsatisfied condition")
_NO_DEVICE = re.compile(r"unknown device|unresolvable CDI")
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_BROUGHT = frozenset({"nvidia-smi", "/usr/bin/nvidia-smi"})
"""Programs that come into a container together with its devices."""


class Fault(StrEnum):
    """Who is at fault.

    ``UNPROVEN``: the node if a scheduler sent the pod there, and nothing says yet who did. ``DOUBTED``: the same, and something speaks
    against a scheduler.
    """

    NODE = "node"
    POD = "pod"
    UNCLEAR = "unclear"
    UNPROVEN = "unproven"
    DOUBTED = "doubted"


def fault(message: str, pod: Pod) -> Fault:
    """Who is at fault by the runtime's message about a container of a pod.

    A program, folder, user, volume or device that the pod itself names and that is not there is the pod's fault. What the programs
    say that serve devices is the node's. A path or a name proves nothing: pods choose theirs as they like.
    """
    text = message[:4096]
    words = _PATH.sub(" ", _QUOTED.sub(" ", text))
    if _OWN.search(words):
        return Fault.POD
    if _SERVES_DEVICES.search(words):
        return _of_devices(text, pod)
    if program := _PROGRAM.search(text):
        return _of_program(program["exec"] or program["file"], pod)
    files = _DEVICE_FILES.search(text)
    if (files or _MOUNT.search(words)) and _mounts_itself(text, pod):
        return Fault.POD
    return Fault.NODE if files else Fault.UNCLEAR


def _of_devices(text: str, pod: Pod) -> Fault:
    """The node's, unless the pod's image asks for another driver, or the pod names devices itself."""
    if _WISHES.search(text):
        return Fault.POD
    if _NO_DEVICE.search(text) and (named := _environment(pod, _VISIBLE)):
        if any(device in text for value in named for device in value.split(",") if device not in ("", "all")):
            return Fault.POD
        return Fault.NODE if all(named) else Fault.UNCLEAR
    return Fault.NODE


def _of_program(program: str, pod: Pod) -> Fault:
    """The pod's. ``nvidia-smi`` comes into a container with its devices, so where that is missing they are, if the pod wants it."""
    if program not in _BROUGHT:
        return Fault.POD
    declined = any(value in ("void", "none") for value in _environment(pod, _VISIBLE))
    if declined or any(value and not {"utility", "all"} & set(value.split(",")) for value in _environment(pod, _CAPABILITIES)):
        return Fault.POD
    asked = {name for container in pod.spec.every_container() for name in container.resources.limits or ()}
    return Fault.NODE if any("nvidia" in name for name in asked) else Fault.UNCLEAR


def _environment(pod: Pod, name: str) -> list[str]:
    """Values that containers of a pod give a variable; empty where they take it from elsewhere."""
    return [text_of(item.get("value")) for one in pod.spec.every_container() for item in mappings(one.env) if item.get("name") == name]


def _mounts_itself(text: str, pod: Pod) -> bool:
    """Whether a message is about a volume of the pod: by the kubelet's folder, the path in the container, or the path on the host."""
    if _KUBELETS_VOLUMES.search(text):
        return True
    mounts = [text_of(item.get("mountPath")) for one in pod.spec.every_container() for item in mappings(one.volume_mounts)]
    hosts = [text_of(mapping(volume.get("hostPath")).get("path")) for volume in mappings(pod.spec.volumes)]
    return any(len(path) > 1 and _names_path(text, path.rstrip("/")) for path in (*mounts, *hosts))


def _names_path(text: str, path: str) -> bool:
    """Whether a text names a path or something below it, and not only a longer name that begins alike."""
    found = text.find(path)
    while found >= 0:
        after = text[found + len(path) : found + len(path) + 1]
        if not (after.isalnum() or after in ("_", "-", ".")):
            return True
        found = text.find(path, found + 1)
    return False


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
