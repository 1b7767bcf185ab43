"""What a path of the host opens: devices, sockets that give them out, or the whole host.

Facts: docs/facts/container-runtimes.md#paths-of-the-host.
"""

from __future__ import annotations

import posixpath
import re

from fixtures.model.cluster import Scope
from fixtures.model.demand.template import Template
from fixtures.text.globs import matches

SOCKETS = ("containerd.sock", "containerd.sock.ttrpc", "crio.sock", "docker.sock", "cri-dockerd.sock", "dockershim.sock", "podman.sock")
"""Names of container runtimes' sockets, wherever they lie."""

_SOCKET_PATHS = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/run/docker/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/crio/crio.sock",
    "/run/docker.sock",
    "/run/cri-dockerd.sock",
    "/run/dockershim.sock",
    "/run/podman/podman.sock",
)
_KUBELETS = ("/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet", "/opt/rke/var/lib/kubelet")
_PLUGIN_FOLDERS = ("device-plugins", "plugins_registry")
_PLUGIN_PATHS = tuple(f"{kubelet}/{folder}" for kubelet in _KUBELETS for folder in _PLUGIN_FOLDERS)
_DRIVER_ROOTS = ("/run/nvidia", "/run/cdi", "/etc/cdi")
_MANIFESTS = (
    "/etc/kubernetes/manifests",
    *(f"/var/lib/rancher/{name}/{part}" for name in ("k3s", "rke2") for part in ("agent/pod-manifests", "server/manifests")),
    "/var/lib/k0s/manifests",
)
"""What is written there runs with any rights: static pods, and what k3s, RKE2 and k0s apply by themselves."""

_SYSTEM_SOCKETS = ("/run/systemd/private", "/run/dbus/system_bus_socket")
"""Root of a container may have the host's systemd start anything by them, also where the mount is read-only."""

_TRUSTED = (
    *("/proc", "/sys", "/boot", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/opt/bin", "/opt/cni/bin"),
    *(f"{usr}/{part}" for usr in ("", "/usr") for part in ("lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")),
    *(
        "/usr/local/bin",
        "/lib/modules",
        "/lib/systemd",
        "/usr/lib/modules",
        "/usr/lib/systemd",
        "/usr/local/lib/systemd",
        "/root/.ssh",
        "/root/.bashrc",
    ),
    *(f"/etc/{name}" for name in ("crontab", "passwd", "shadow", "group", "sudoers", "sudoers.d", "environment", "fstab", "anacrontab")),
    *(f"/etc/cron.{name}" for name in ("d", "hourly", "daily", "weekly", "monthly")),
    *(f"/etc/{name}" for name in ("ssh", "pam.d", "profile.d", "init.d", "rc.local", "systemd", "udev", "modprobe.d", "modules-load.d")),
    *(f"/etc/{name}" for name in ("ld.so.preload", "ld.so.conf.d", "ld.so.conf", "cni", "containerd", "docker", "crio", "containers")),
    *(f"/etc/{name}" for name in ("sysctl.d", "polkit-1", "dbus-1", "default", "rancher", "nvidia-container-runtime", "NetworkManager")),
    *("/run/systemd/system", "/run/udev", "/var/spool/cron", "/var/lib/cloud", "/var/lib/cni"),
    *(f"/var/lib/{name}" for name in ("containerd", "docker", "containers", "crio", "k0s/containerd")),
    *(f"/var/lib/rancher/{name}/agent/{part}" for name in ("k3s", "rke2") for part in ("containerd", "etc")),
    *(f"/var/lib/rancher/{name}/data" for name in ("k3s", "rke2")),
    "/var/snap/microk8s/common/var/lib/containerd",
    *(f"{kubelet}/{part}" for kubelet in _KUBELETS for part in ("pods", "plugins", "config.yaml", "kubeconfig")),
)
"""What is written there is run or believed by root of the host, or is in the containers and volumes of other pods."""

_KEYS = (
    *(f"/etc/kubernetes/{name}" for name in ("pki", "admin.conf", "super-admin.conf", "kubelet.conf")),
    *(f"/var/lib/rancher/{name}/server/{part}" for name in ("k3s", "rke2") for part in ("tls", "cred", "token")),
    *("/var/lib/etcd", "/var/lib/k0s/pki", *(f"{kubelet}/pki" for kubelet in _KUBELETS)),
)
"""Keys and tokens of administrators, of the control plane and of the kubelet."""

_ROOT_OF_PROCESS = re.compile(r"/proc/(?:\d+|self|thread-self)(?:/task/\d+)?/(?:root|cwd)(?=/|$)")
"""Links to the root of a process on the host, which the kubelet follows."""

_ACCELERATORS = re.compile(
    r"nvidia|neuron|accel|dri$|kfd$|vfio$|infiniband$|char$|k?mem$|port$|gdrdrv|hl(?:_controlD)?\d|davinci|devmm_svm|hisi_hdc|cambricon"
    r"|mtgpu|mxcd|mxgd|iluvatar|rbln|npu\d|rngd|tenstorrent|qaic|apex_\d|dxg$"
)
_OTHERS = re.compile(
    r"(?:shm|mqueue|hugepages[\w-]*|null|zero|full|u?random|tty|pts|ptmx|console|log|kmsg|stdin|stdout|stderr|fuse|net|kvm|vhost-net|vsock"
    r"|vhost-vsock|disk|block|mapper|termination-log|(?:sd|vd|xvd|nvme|dm-|loop|md|rbd|nbd)[a-z0-9]*)$"
)
"""What every node has: memory, terminals, logs, disks, and the network's and file systems' own."""


_INJECTORS = re.compile(
    r"(?:cdi-)?devices\.(?:noderesource\.dev|nri\.io)(?:/.*)?|devices\.gke\.io/.*|devices\.crio\.io(?:/.*)?|io\.kubernetes\.cri-o\.Devices"
)
"""Annotations by which CRI-O, NRI's device injector and GKE's add devices (docs/facts/container-runtimes.md#device-annotations)."""

_DEVICE_FILE = re.compile(r"/dev/[\w./:-]{1,200}")


def injected(key: str, value: str) -> str:
    """What an annotation has a runtime add, if it obeys it: a device that may be an accelerator's; else empty."""
    if not _INJECTORS.fullmatch(key):
        return ""
    if key.startswith("cdi-"):
        return value.strip()[:100]
    return next((path for path in _DEVICE_FILE.findall(value) if exposed_by(path) or unknown_device(path)), "")


def exposed_by(path: str, *, writable: bool = True) -> str:
    """What a host path opens, or empty. A folder above a guarded path opens it as well."""
    clean = _real(path)
    if clean == "/":
        return "the whole host, devices and container runtime socket included"
    if clean == "/dev":
        return "all device files of the node"
    parts = clean.split("/")
    if parts[1] == "dev" and _ACCELERATORS.match(parts[2]):
        return "device files of accelerators or fabric"
    if parts[-1] in SOCKETS or _opens(clean, _SOCKET_PATHS):
        return "the container runtime's socket"
    if any(f"/kubelet/{folder}/" in f"{clean}/" for folder in _PLUGIN_FOLDERS) or _opens(clean, _PLUGIN_PATHS):
        return "the sockets of the device plugins"
    if _opens(clean, _DRIVER_ROOTS):
        return "the driver's root or CDI specifications"
    if writable and _opens(clean, _MANIFESTS):
        return "manifests that the node runs with any rights"
    if _opens(clean, _KEYS):
        return "keys by which whoever reads them acts for an administrator or the kubelet"
    if _opens(clean, _SYSTEM_SOCKETS) or (writable and _opens(clean, _TRUSTED)):
        return "what root of the host runs or trusts, so that whoever writes there is root of the host"
    return ""


def unknown_device(path: str) -> bool:
    """Whether a path is a device file of which nothing here tells whether it is an accelerator's."""
    parts = _real(path).split("/")
    return len(parts) > 2 and parts[1] == "dev" and not _ACCELERATORS.match(parts[2]) and not _OTHERS.match(parts[2])


def _real(path: str) -> str:
    """A path without what leads around it: the root of a process is the host's, and ``/var/run`` is a link on every distribution."""
    clean = posixpath.normpath("/" + path.strip().lstrip("/"))
    while found := _ROOT_OF_PROCESS.match(clean):
        clean = clean[found.end() :] or "/"
    return clean.removeprefix("/var") if f"{clean}/".startswith("/var/run/") else clean


def _opens(path: str, guarded: tuple[str, ...]) -> bool:
    return any(path == one or one.startswith(path + "/") or path.startswith(one + "/") for one in guarded)


def by_host(scope: Scope, template: Template) -> bool:
    """Whether the policy excuses a pod: of a named tenant, on the host's network, and alone with all devices of its node."""
    named = template.host_network and matches(template.namespace, scope.policy.tenants.host_rdma)
    return bool(named) and takes_whole_nodes(scope, template)


def takes_whole_nodes(scope: Scope, template: Template) -> bool:
    """Whether a pod takes every device of its node, and so sees none of others, privileged or not.

    A template that is bound to no node must take the devices of any node that offers them.
    """
    asked = {name: count for name, count in scope.devices_of(template.spec).items() if count}
    bound = scope.snapshot.node_by_name.get(template.node_name)
    nodes = [bound] if bound is not None else scope.accelerator_nodes
    offers = [scope.device_allocatable(node) for node in nodes]
    offers = [offer for offer in offers if any(offer.get(name) for name in asked)]
    return bool(offers) and all(asked.get(name, 0) >= count for offer in offers for name, count in offer.items())
