"""PSA-05: ways around the device plugin in tenants' pods."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from conformance.places import runtime_classes
from conformance.scope import Scope, subject
from fixtures.evidence import Finding, bad, not_judged, ok
from fixtures.models import Container, Pod

SOURCE = "pod.spec"
EXPECTED = "devices through the device plugin or a claim only"
RUNTIME_CLASS = "nvidia"

VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES")
HARMLESS = frozenset({"", "void", "none"})
"""Values that give no device: they close the door instead of opening it."""

DEVICE_LIST = "/var/run/nvidia-container-devices"
"""NVIDIA's container runtime grants the device that a mount below this folder names, where
``accept-nvidia-visible-devices-as-volume-mounts`` is set (NVIDIA Container Toolkit, ``config.toml``)."""

_SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/docker/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/docker.sock",
    "/run/cri-dockerd.sock",
)
_PLUGINS = ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry")
_DRIVER_ROOTS = ("/run/nvidia", "/run/cdi", "/etc/cdi")
_DEVICES = frozenset({"dri", "kfd", "vfio", "infiniband"})
_DEVICE_PREFIXES = ("nvidia", "neuron", "accel")


class Environments:
    """What ConfigMaps of tenants put into the environment of containers that take all of their keys (``envFrom``)."""

    def __init__(self, scope: Scope) -> None:
        self._snapshot = scope.snapshot

    @cached_property
    def _data(self) -> dict[tuple[str, str], Mapping[str, str]]:
        return {(config.namespace, config.name): config.data or {} for config in self._snapshot.configmaps}

    @property
    def known(self) -> bool:
        """Whether ConfigMaps were read: a saved snapshot may not hold them."""
        return self._snapshot.served("configmaps")

    def variables(self, namespace: str, sources: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        """Guarded variables by name: value and the ConfigMap it is from. The last source that has a key wins; Secrets are never read."""
        found = {}
        for source in sources:
            config, prefix = str(_mapping(source.get("configMapRef")).get("name") or ""), str(source.get("prefix") or "")
            data = self._data.get((namespace, config), {}) if config else {}
            for name in VARIABLES:
                if name.startswith(prefix) and (value := data.get(name.removeprefix(prefix))) is not None:
                    found[name] = value, config
        return found


def check_bypass(scope: Scope) -> Iterator[Finding]:
    """PSA-05: no pod of a tenant reaches devices past the device plugin, whether it asks for one or not."""
    classes = {RUNTIME_CLASS, *(name for name, handler in runtime_classes(scope).items() if handler.startswith("nvidia"))}
    environments = Environments(scope)
    for pod in scope.snapshot.pods:
        if not pod.finished and scope.is_tenant(pod.namespace):
            asking = scope.asking_of(pod)
            found = list(bypasses(pod, environments, asks_device=asking.devices or bool(asking.unknown), device_classes=classes))
            if found:
                first = found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "")
                message = f"{first}: it can use devices that were granted to others, and nothing counts them"
                yield bad(subject(pod), "; ".join(found)[:1500], EXPECTED, SOURCE, message[:600] + scope.platform.advice(pod.namespace))
            elif not environments.known and any(_takes_config(container) for container in pod.spec.every_container()):
                reason = "a container takes its environment from a ConfigMap, and the snapshot holds no configmaps"
                yield not_judged(subject(pod), reason, SOURCE)
            else:
                yield ok(subject(pod), "none of the known bypasses", EXPECTED, SOURCE)


def bypasses(pod: Pod, environments: Environments, *, asks_device: bool, device_classes: set[str]) -> Iterator[str]:
    """Each bypass in words of its own."""
    spec = pod.spec
    for container in spec.every_container():
        if _mapping(container.security_context).get("privileged") is True:
            yield f"container {container.name} is privileged and sees every device of the node"
        yield from _variables(container)
        if container.env_from and environments.known:
            yield from _shared_variables(pod.namespace, container, environments)
        for mount in container.volume_mounts or ():
            if listed_device(mount.get("mountPath")):
                yield f"container {container.name} mounts a volume at {str(mount['mountPath'])[:200]}, which grants that device"
    for volume in spec.volumes or ():
        path = _mapping(volume.get("hostPath")).get("path")
        if isinstance(path, str) and (what := exposed_by(path)):
            yield f"volume {volume.get('name')} mounts hostPath {path[:200]}: {what}"
    if spec.host_ipc:
        yield "hostIPC=true opens the shared memory of other jobs and of the MPS daemon"
    if spec.runtime_class_name in device_classes and not asks_device:
        yield f"runtimeClassName {spec.runtime_class_name} without a device lets the image's NVIDIA_VISIBLE_DEVICES choose"
    for key, value in pod.metadata.annotation.items():
        if key.startswith("cdi.k8s.io/"):
            yield f"annotation {key}={value[:100]} asks the container runtime for CDI devices"


def _variables(container: Container) -> Iterator[str]:
    for entry in container.env or ():
        name, value = entry.get("name"), entry.get("value")
        if name not in VARIABLES:
            continue
        if "valueFrom" in entry:
            yield f"container {container.name} takes {name} from elsewhere"
        elif str(value or "").strip() not in HARMLESS:
            yield f"container {container.name} sets {name}={str(value)[:100]} by hand"


def _shared_variables(namespace: str, container: Container, environments: Environments) -> Iterator[str]:
    stated = {entry.get("name") for entry in container.env or ()}  # ``env`` wins over ``envFrom``
    for name, (value, config) in environments.variables(namespace, container.env_from or ()).items():
        if name not in stated and value.strip() not in HARMLESS:
            yield f"container {container.name} takes {name}={value[:100]} from ConfigMap {config}"


def _takes_config(container: Container) -> bool:
    return any("configMapRef" in source for source in container.env_from or ())


def listed_device(path: object) -> str:
    """The device that a mount path asks NVIDIA's container runtime for, or empty."""
    if not isinstance(path, str) or "nvidia-container-devices" not in path:
        return ""
    clean = posixpath.normpath("/" + path.strip().lstrip("/"))
    if clean.startswith("/run/"):
        clean = f"/var{clean}"  # the same folder on every distribution
    return clean.removeprefix(f"{DEVICE_LIST}/") if clean.startswith(f"{DEVICE_LIST}/") else ""


def exposed_by(path: str) -> str:
    """What a host path opens, or empty. A folder above a guarded path opens it as well."""
    clean = posixpath.normpath("/" + path.strip().lstrip("/"))
    if clean == "/var/run" or clean.startswith("/var/run/"):
        clean = clean.removeprefix("/var")  # a link on every distribution
    if clean == "/":
        return "the whole host, devices and container runtime socket included"
    if clean == "/dev":
        return "all device files of the node"
    parts = clean.split("/")
    if parts[1] == "dev" and (parts[2] in _DEVICES or parts[2].startswith(_DEVICE_PREFIXES)):
        return "device files of accelerators or fabric"
    for sockets, what in (
        (_PLUGINS, "the sockets of the device plugins"),
        (_SOCKETS, "the container runtime's socket"),
        (_DRIVER_ROOTS, "the driver's root or CDI specifications"),
    ):
        if any(_overlaps(clean, guarded) for guarded in sockets):
            return what
    return ""


def _overlaps(path: str, guarded: str) -> bool:
    return path == guarded or guarded.startswith(path + "/") or path.startswith(guarded + "/")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
