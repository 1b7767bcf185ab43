"""DRA-03: what drivers publish is what there is: the right number, each device once, described like its peers. Pure.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#nvidia-driver, docs/facts/labels.md#discovery-labels,
docs/facts/labels.md#names-in-labels.
"""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import msgspec

from fixtures.grouping import grouped
from fixtures.kubernetes import quantity
from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import physical_counts
from fixtures.model.devices.node_advertisement import parse_product
from fixtures.model.devices.node_labels import view_of
from fixtures.model.devices.shares import LABEL as MEMORY
from fixtures.model.devices.shares import device_memory
from fixtures.model.dra.inventory import DriverInventory, InventoryDevice
from fixtures.model.dra.slices import IDENTITY, PRODUCT, SHAPE_FOR_MACHINES, SLICES, SliceDevice
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.nodes.pools import product_of
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

_NVIDIA = "gpu.nvidia.com"
_DRIVER = "nvidia.com/cuda.driver-version.full"
_VERSIONS = frozenset({"driverversion", "cudadriverversion"})
_OF_PRODUCT = frozenset({"architecture", "family", "brand", "cudacomputecapability"})
_PRODUCT = "nvidia.com/gpu.product"
_NOT_IN_LABELS = re.compile(r"[^\w.\s-]+", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}")

_TOLERANCE = Fraction(7, 100)
"""By so much capacity may differ: ECC keeps a sixteenth of GDDR memory, a driver a little. Devices of one product differ by half or by
nothing."""

_Key = tuple[str, ...]


class Unlike(msgspec.Struct, frozen=True):
    """A value that differs, as a clause. ``version``: only in a driver's version that the node's own label confirms, from other nodes'."""

    words: str
    version: bool = False


class Usual:
    """What the devices of one product have for the most part: values of attributes and capacity, by what devices are alike in."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._values: dict[tuple[_Key, str], Counter[str]] = {}
        for drivers in scope.dra_inventory.values():
            for device in (device for item in drivers for device in item.devices):
                for name, value in _compared(device):
                    self._values.setdefault((_alike(device), name), Counter())[value] += 1

    def unlike(self, device: InventoryDevice, node: Node) -> Iterator[Unlike]:
        """How a device differs from its product's others, and from its node's labels."""
        name, version, allowed = device.id[2], _label(node, device), self._scope.policy.accelerators.allowed_differences
        for what, value in _compared(device):
            counted = self._values[_alike(device), what]
            usual = max(counted, key=lambda one: (counted[one], _sortable(one)))
            plain = plain_name(what)
            if value == usual or matches(plain, allowed) or matches(what, allowed):
                continue
            if plain in _VERSIONS and matches("driver", allowed):
                continue
            if what in device.body.capacity and _near(quantity.known(value), quantity.known(usual)):
                continue
            confirmed = plain in _VERSIONS and bool(version) and not _differ(version, device)
            kin = f"{counted[usual]} of {counted.total()} of its {'product' if device.product else 'pool'}"
            yield Unlike(f"{name} has {what.rpartition('/')[2]} {value}, and {kin} have {usual}", confirmed)
        if version and _differ(version, device):
            own = device.body.attribute("driverVersion")
            yield Unlike(f"{name} has driverVersion {own}, and the node's label {_DRIVER} says {version}")
        labelled = node.metadata.label.get(_PRODUCT, "") if _whole(device) else ""
        if labelled and device.product and parse_product(labelled).model != _as_label(device.product):
            yield Unlike(f"{name} has productName {device.product}, and the node's label {_PRODUCT} says {labelled}")
        memory = device_memory(node)
        published = next((quantity.known(value) for what, value in device.body.capacity.items() if plain_name(what) == "memory"), None)
        if memory.known and published and _whole(device) and not _near(published, Fraction(memory.units) * 2**20):
            has = node.metadata.label[MEMORY]
            yield Unlike(f"{name} has memory {published // 2**20}Mi, and the node's label {MEMORY} says {has} MiB")


def _alike(device: InventoryDevice) -> _Key:
    """Devices without a product are alike in their pool at most: two generations may lack its name."""
    body = device.body
    return device.id[0], body.type, device.product or device.id[1], body.attribute("profile") or body.attribute("partitionProfile")


def _compared(device: InventoryDevice) -> Iterator[tuple[str, str]]:
    for name, value in device.body.attributes.items():
        if plain_name(name) in _VERSIONS | _OF_PRODUCT and value:
            yield name, value
    if device.body.type != SHAPE_FOR_MACHINES:
        yield from ((name, value) for name, value in device.body.capacity.items() if value)


def plain_name(name: str) -> str:
    """A name of an attribute or of capacity without its domain, in small letters."""
    return name.rpartition("/")[2].lower()


def _whole(device: InventoryDevice) -> bool:
    return device.id[0] == _NVIDIA and device.body.type == "gpu" and not device.is_part


def _label(node: Node, device: InventoryDevice) -> str:
    return node.metadata.label.get(_DRIVER, "") if device.id[0] == _NVIDIA and device.body.attribute("driverVersion") else ""


def _differ(label: str, device: InventoryDevice) -> bool:
    """Whether a label names another version of the driver. Slices write ``580.95.05`` as ``580.95.5``, and ``570.169`` as ``570.169.0``."""
    return _numbers(label) != _numbers(device.body.attribute("driverVersion"))


def _as_label(product: str) -> str:
    """A product's name as GPU Feature Discovery writes it: ``NVIDIA H100 80GB HBM3`` is ``NVIDIA-H100-80GB-HBM3``."""
    return "-".join(_NOT_IN_LABELS.sub("", product).split())


def _numbers(version: str) -> list[int]:
    found = [int(text) for text in _NUMBER.findall(version)[:4]]
    while found and not found[-1]:
        found.pop()
    return found


def _sortable(value: str) -> tuple[int, Fraction, list[int], str]:
    """Of two values that are as common, the larger is the usual one: devices lose memory, and drivers get newer."""
    amount = quantity.known(value)
    return (0, Fraction(0), _numbers(value), value) if amount is None else (1, amount, [], value)


def _near(one: Fraction | None, other: Fraction | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= _TOLERANCE * max(abs(one), abs(other))


_SERVER = "nvidia.com/gpu.machine"
_ANY_SIZE = (
    "n1-*", "custom-*", "Google*", "Standard-PC*", "OpenStack*", "KVM*", "QEMU*", "VMware*", "Virtual-Machine*", "HVM-*", "RHEV*",
    "KubeVirt*", "k3s*", "rke2*", "kind*", "AHV*", "Xen*", "None*",
)  # fmt: skip
"""Kinds of machines (globs) that are given any number of devices."""

_NEEDED = IDENTITY | PRODUCT | {"memory"}
"""Names of attributes and capacity by which claims and agents choose or recognise a device."""

_ALIKE = ("type", "driverVersion")


def check_devices(scope: Scope) -> Iterator[Finding]:
    """Per node that offers devices through DRA only: their number; per node and driver: each device once, and complete."""
    machines, twice, peers, usual = Machines(scope), _twice(scope), _Peers(scope), Usual(scope)
    for node in scope.accelerator_nodes:
        drivers = scope.dra_inventory.get(node.name, [])
        if drivers and not any(scope.device_capacity(node).values()):
            yield from check_count(scope, node, drivers, machines)
        for item in drivers:
            place = Subject("Node", f"{node.name} {item.driver}")
            yield _judge(place, node.name, item, twice, peers) or _like_peers(scope, place, node, item, usual)


def _like_peers(scope: Scope, place: Subject, node: Node, item: DriverInventory, usual: Usual) -> Finding:
    """Whether complete devices have the values that they should have."""
    found = [one for device in item.devices for one in usual.unlike(device, node)]
    observed, expected = f"{len(item.devices)} devices", "attributes and capacity as its product's other devices and the node's labels"
    about = About(place, SLICES, expected)
    if not found:
        return about.ok(observed)
    wrong = [one.words for one in found if not one.version]
    words = listed(list(dict.fromkeys(wrong or [one.words for one in found])), 3)
    if doing := change_under_way(node, scope.policy, scope.snapshot.taken_at):
        return about.undecided(f"{words}; {doing}", cause="ChangeUnderWay")
    if not wrong:
        message = f"{words}: jobs that span the pool run on both versions"
        return about.advised(message, cause="VersionsDifferInPool", observed=words)
    message = f"{words}: claims choose by what is published, and get another device or none"
    return about.bad(message, cause="DeviceUnlikePeers", observed=words)


def _judge(place: Subject, node: str, item: DriverInventory, twice: dict[str, str], peers: "_Peers") -> Finding | None:
    """What is published twice or incomplete; None where nothing is."""
    observed, expected = f"{len(item.devices)} devices", "each device once, with the attributes that its peers have"
    doubled = list(dict.fromkeys(text for device in item.devices for key in _identities(device, node) if (text := twice.get(key))))
    doubled += _beside_parts(item)
    names = Counter(device.id for device in item.devices)
    doubled += [f"device {name[2]} is published {count} times" for name, count in sorted(names.items()) if count > 1]
    lacking = [(device, sorted(missing)) for device in item.devices if (missing := peers.lacking(device))]
    keys = [(device, [key for key in missing if plain_name(key) in _NEEDED]) for device, missing in lacking]
    needed = [f"{device.id[2]} lacks {listed(names)}" for device, names in keys if names]
    about = About(place, SLICES, expected, observed)
    if doubled:
        message = f"{listed(doubled, 3)}: one device is given to several pods"
        return about.bad(message, cause="DevicePublishedTwice")
    if needed:
        message = f"{listed(needed, 3)}, which its peers have: claims that choose by it pass the device over"
        return about.bad(message, cause="DeviceIncomplete")
    if lacking:
        message = f"{listed([f'{device.id[2]} lacks {listed(missing)}' for device, missing in lacking], 3)}, which its peers have"
        return about.advised(message, cause="DeviceIncomplete")
    return None


def _twice(scope: Scope) -> dict[str, str]:
    """Identities that several devices of the cluster have, each with a clause that says where."""
    devices = ((node, device) for node, items in sorted(scope.dra_inventory.items()) for item in items for device in item.devices)
    found = grouped((key, f"{node}/{device.id[2]}") for node, device in devices for key in _identities(device, node))
    return {
        key: f"{key.partition(' ')[0]} {key.rpartition(' ')[2]} is published as {listed(where, 4)}"
        for key, where in found.items()
        if len(set(where)) > 1
    }


def _identities(device: InventoryDevice, node: str) -> Iterator[str]:
    """What only this device may have: its UUID in the cluster, PCI address and render node on its node.

    Parts and shapes share their device's PCI address.
    """
    body, driver = device.body, device.id[0]
    if body.counters or body.shareable:
        return
    if render := body.attribute("renderIndex"):
        yield f"render-node {driver} {node}/{render}"
    if (uuid := body.attribute("uuid")) and body.type != SHAPE_FOR_MACHINES:  # its UUID is made of its address, the same on other nodes
        yield f"UUID {driver} {body.type} {uuid}"
    if body.pci_address and not device.is_part:
        yield f"PCI-address {driver} {body.type} {node}/{body.pci_address}"


def _beside_parts(item: DriverInventory) -> Iterator[str]:
    """Whole devices that are published beside their own parts, and share no counters with these: both can be allocated."""
    parts = grouped((device.physical, device) for device in item.devices if device.is_part)
    for device in item.devices:
        loose = [part.id[2] for part in parts.get(device.physical, ()) if not set(part.body.counters) & set(device.body.counters)]
        if loose and not device.is_part and device.body.type != SHAPE_FOR_MACHINES:
            yield f"device {device.id[2]} is published beside its own parts {listed(loose, 3)}, and no counters tie them"


class _Peers:
    """Attributes and capacity by what devices are alike in: driver, type and version of the driver, and with them the product.

    Every device has what claims choose it by. What else describes it depends on its product: only some can be cut.
    A device that lacks type or version has those of its pool's others: it would be its only peer without them.
    """

    def __init__(self, scope: Scope) -> None:
        self._names: dict[tuple[str, ...], Counter[str]] = {}
        self._count: Counter[tuple[str, ...]] = Counter()
        self._of_pool: dict[tuple[str, ...], str] = {}
        devices = [device for drivers in scope.dra_inventory.values() for item in drivers for device in item.devices]
        for device in devices:
            for name in _ALIKE:
                if value := device.body.attribute(name):
                    self._of_pool.setdefault((*device.id[:2], name), value)
        for device in devices:
            for key in (self._alike(device), (*self._alike(device), device.product)):
                self._count[key] += 1
                self._names.setdefault(key, Counter()).update(_described(device.body))

    def _alike(self, device: InventoryDevice) -> tuple[str, ...]:
        own = (device.body.attribute(name) or self._of_pool.get((*device.id[:2], name), "") for name in _ALIKE)
        return device.id[0], *own

    def lacking(self, device: InventoryDevice) -> set[str]:
        """What more than half of its peers have and the device has not."""
        alike = self._alike(device)
        needed = {name for name in self._common(alike) if plain_name(name) in _NEEDED}
        return (needed | self._common((*alike, device.product))) - _described(device.body)

    def _common(self, key: tuple[str, ...]) -> set[str]:
        return {name for name, count in self._names[key].items() if count >= 2 and 2 * count > self._count[key]}


def _described(body: SliceDevice) -> set[str]:
    return {name for name, value in (*body.attributes.items(), *body.capacity.items()) if value}


class Machines:
    """Published devices of the accelerator nodes by product and kind of machine, which is what one node is compared with."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        for node in scope.accelerator_nodes:
            found = scope.dra_inventory.get(node.name)
            if found and not any(item.incomplete for item in found):
                self._counts.setdefault(self._kind(node), {})[node.name] = sum(item.whole for item in found)
        self._most = {kind: sorted(counts, key=lambda name: (-counts[name], name))[:2] for kind, counts in self._counts.items()}

    def _kind(self, node: Node) -> tuple[str, str]:
        return product_of(self._scope, node), machine_of(node)

    def fullest_other(self, node: Node) -> tuple[str, int] | None:
        """The other node of the kind that publishes most, and how many; None without another."""
        kind = self._kind(node)
        others = [name for name in self._most.get(kind, ()) if name != node.name]
        return (others[0], self._counts[kind][others[0]]) if others else None


def check_count(scope: Scope, node: Node, drivers: list[DriverInventory], machines: Machines) -> Iterator[Finding]:
    """As many physical devices are published as the node has by other sources, else as other machines of its kind publish."""
    subject = Subject("Node", f"{node.name} devices")
    if any(item.incomplete for item in drivers):
        yield not_judged(subject, message="one of its pools is incomplete (DRA-02), so its devices cannot be counted", source=SLICES)
        return
    count = sum(item.whole for item in drivers)
    observed = f"{count} by ResourceSlices of {', '.join(item.driver for item in drivers)}"
    owned = physical_counts(node, view_of(scope, node), scope.policy, drivers, slices=False)
    others = ", ".join(f"{item.devices} by {item.source}" for item in owned)
    fewer = any(item.devices > count for item in owned)
    about = About(subject, SLICES, others, observed)
    if fewer and (doing := change_under_way(node, scope.policy, scope.snapshot.taken_at)):
        yield about.undecided(f"{observed}, and {others}; {doing}", cause="ChangeUnderWay")
    elif any(item.devices != count for item in owned):
        message = f"{observed}, and {others}: devices are lost, or a source is wrong"
        yield about.bad(message, cause="DeviceMissing")
    elif any(item.boot for item in owned):
        yield about.ok()
    else:  # what agents count vanishes from labels and slices alike when a device is lost
        shown = f"{observed}, {others}" if others else observed
        yield _beside_peers(subject, shown, count, machines.fullest_other(node), machine_of(node), agents=bool(owned))


def _beside_peers(subject: Subject, observed: str, count: int, peer: tuple[str, int] | None, machine: str, *, agents: bool) -> Finding:
    about = About(subject, SLICES, observed=observed)
    if peer is None and not agents:
        return about.not_judged("no label, policy or other machine of its kind says how many devices it has")
    if peer is None or count >= peer[1] or (agents and not machine):
        return about.ok(expected=f"at least {peer[1]}, as {peer[0]} publishes" if peer and machine else observed)
    message = f"{observed}, and {peer[1]} by those of {peer[0]}"
    if machine:
        message = f"{message}, which is {machine} too: no pod can use the missing devices"
        return about.bad(message, cause="DeviceMissing", expected=f"{peer[1]}, as {peer[0]} publishes")
    hint = "the machines differ or devices are lost: state advertisement.devicesPerNode in the policy"
    return about.undecided(f"{message}, which has the same product: {hint}", cause="NotUnderstood")


def machine_of(node: Node) -> str:
    """The kind of a machine, where it fixes the number of devices: an instance type, or a server's model. Empty for virtual machines."""
    labels = node.metadata.label
    kind = labels.get(INSTANCE_TYPE, "") or labels.get(_SERVER, "")
    return "" if matches(kind, _ANY_SIZE) else kind
