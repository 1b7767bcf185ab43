"""What a path of the host opens: devices, sockets that give them out, or the whole host.

Facts: docs/facts/container-runtimes.md#paths-of-the-host.
"""

import posixpath
import re
from pathlib import Path

import msgspec

from fixtures.model.cluster import Scope
from fixtures.model.demand.template import Template
from fixtures.model.facts import reported
from fixtures.text.globs import matches
from fixtures.text.yaml_text import packaged


class _Guarded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths that open something, in words; by ``names`` of files wherever they lie, and by ``folders`` below any other.

    ``written``: only for who may write there.
    """

    opens: str
    paths: tuple[str, ...]
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    written: bool = False

    def has(self, clean: str) -> bool:
        """Whether a path is one of them, below one or above one."""
        below = f"{clean}/"
        if clean.rpartition("/")[2] in self.names or any(folder in below for folder in self.folders):
            return True
        return any(clean == one or one.startswith(below) or clean.startswith(f"{one}/") for one in self.paths)


_GUARDED = packaged(Path(__file__).with_suffix(".yaml"), tuple[_Guarded, ...])

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


_MOST_READ = 4096
"""Characters of an annotation that are read: device files of a whole node take fewer."""


def injected(key: str, value: str) -> str:
    """What an annotation has a runtime add, if it obeys it, as a clause: a device that may be an accelerator's; else empty.

    A value that is longer than what is read of it may name one in its rest.
    """
    if not _INJECTORS.fullmatch(key):
        return ""
    if key.startswith("cdi-"):
        names = reported(value.strip(), 100)
        return f"names {names}" if names else ""
    found = _DEVICE_FILE.finditer(value, 0, 2 * _MOST_READ)  # a path that begins in what is read is read to its end
    paths = dict.fromkeys(path[0] for path in found if path.start() < _MOST_READ)
    if device := next((path for path in paths if exposed_by(path) or unknown_device(path)), ""):
        return f"names {reported(device, 100)}"
    return f"is longer than the {_MOST_READ} characters that are read" if len(value) > _MOST_READ else ""


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
    return next((one.opens for one in _GUARDED if (writable or not one.written) and one.has(clean)), "")


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
