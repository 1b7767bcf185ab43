"""Reader of ResourceSlices: devices by driver and type, and completeness of pools.

A pool is complete only when the slices of its newest generation number ``resourceSliceCount``; older generations are ignored.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from conformance.outputs.unreadable import Unreadable
from conformance.outputs.yaml_text import load_objects, none_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of

SHAPE_FOR_MACHINES = "vfio"
"""Type of a GPU as a virtual machine gets it: its driver takes the other shapes out of the slice while a claim has it."""


class DeviceTaint(msgspec.Struct, frozen=True):
    """A taint of a device; the effect is NoSchedule, NoExecute or None (which informs only). ``added`` is RFC 3339 or empty."""

    key: str
    value: str
    effect: str
    added: str = ""

    @property
    def hard(self) -> bool:
        """Whether it keeps the device from new claims."""
        return self.effect in ("NoSchedule", "NoExecute")

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class SliceDevice(msgspec.Struct, frozen=True):
    """One device. ``attributes`` and ``capacity`` are text, by the name published; ``counters`` are names of counter sets it uses."""

    name: str
    attributes: Mapping[str, str]
    taints: tuple[DeviceTaint, ...] = ()
    capacity: Mapping[str, str] = {}
    counters: tuple[str, ...] = ()
    shareable: bool = False  # several claims may have it at a time (allowMultipleAllocations)
    node: str = ""  # where the pool says it per device
    defaults: Mapping[str, str] = {}  # of a shareable device's capacity: what a claim takes that asks for no amount

    @property
    def type(self) -> str:
        """The driver's ``type`` attribute: ``gpu``, ``mig``, ``vfio``, ``channel``, ``daemon``; ``""`` when it is absent."""
        return self.attribute("type")

    def attribute(self, name: str) -> str:
        """An attribute by its name without domain; ``""`` when it is absent."""
        return next((value for key, value in self.attributes.items() if key == name or key.endswith(f"/{name}")), "")

    @property
    def pci_address(self) -> str:
        """The PCI address by which a driver tells the device; ``""`` when it is absent."""
        names = ("pciBusID", "pcieBusID", "pciAddress", "pciAddr")
        return next((address for name in names if (address := self.attribute(name))), "")

    @property
    def tainted(self) -> str:
        """The first taint that keeps the device from new claims, or the health problem that its driver reports, as text; empty without."""
        health = self.attribute("healthy") or self.attribute("health")
        ill = f"health {health}" if health.lower() in ("false", "unhealthy") else ""
        return next((str(taint) for taint in self.taints if taint.hard), ill)


class Slice(msgspec.Struct, frozen=True):
    """One ResourceSlice. ``incomplete`` says why it cannot be counted (``""`` when it can): text left out, fields missing."""

    name: str
    api_version: str
    driver: str
    node: str
    pool: str
    generation: int
    expected_slices: int
    devices: tuple[SliceDevice, ...]
    incomplete: str


class Pool(msgspec.Struct, frozen=True):
    """One pool of one driver, in its newest generation."""

    driver: str
    name: str
    generation: int
    slices: int
    expected_slices: int
    stale_slices: int
    devices: tuple[SliceDevice, ...]
    incomplete: str
    lack: str = ""

    @property
    def complete(self) -> bool:
        """Whether every slice of the newest generation is there and could be read."""
        return not self.incomplete and not self.lack

    @property
    def types(self) -> dict[str, int]:
        """Devices by type."""
        return dict(Counter(device.type or "?" for device in self.devices))


def parse(text: str) -> list[Slice]:
    """ResourceSlices of a JSON or YAML text (one object, a List, several documents; v1, v1beta2 and v1beta1 with ``basic``).

    Raises:
        Unreadable: empty, binary or oversized text, malformed JSON or YAML, or no ResourceSlice in it.
    """
    objects = load_objects(text)
    slices = [_slice(item) for item in objects if _is_slice(item)]
    if not slices:
        raise Unreadable(none_of("ResourceSlice", objects))
    return slices


def slices_of(objects: Iterable[Json]) -> list[Slice]:
    """Slices of decoded objects; objects of other kinds are left out."""
    return [_slice(item) for item in objects if _is_slice(item)]


def _is_slice(item: Json) -> bool:
    spec = mapping(item.get("spec"))
    return item.get("kind") == "ResourceSlice" or ("kind" not in item and "driver" in spec and "pool" in spec)


def _slice(item: Json) -> Slice:
    spec = mapping(item.get("spec"))
    pool = mapping(spec.get("pool"))
    raw = spec.get("devices")
    devices = [_device(entry) for entry in sequence(raw) if isinstance(entry, dict) and entry.get("name")]
    reasons = []
    if raw is not None and len(devices) != len(sequence(raw)):
        reasons.append("devices are abbreviated")
    if not text_of(spec.get("driver")) or not text_of(pool.get("name")):
        reasons.append("driver or pool name is missing")
    generation, expected = _whole(pool.get("generation")), _whole(pool.get("resourceSliceCount"))
    if generation is None or expected is None:
        reasons.append("pool generation or resourceSliceCount is missing")
    if raw is None and "sharedCounters" not in spec and not _is_whole(item):
        reasons.append("no devices and no counters")
    return Slice(
        name=text_of(mapping(item.get("metadata")).get("name")),
        api_version=text_of(item.get("apiVersion")),
        driver=text_of(spec.get("driver")),
        node=text_of(spec.get("nodeName")) or _only_node(spec.get("nodeSelector")),
        pool=text_of(pool.get("name")),
        generation=generation or 0,
        expected_slices=expected or 0,
        devices=tuple(devices),
        incomplete="; ".join(reasons),
    )


def _is_whole(item: Json) -> bool:
    """Whether it is an object as the API gives it, which leaves an empty list of devices out, and no excerpt."""
    metadata = mapping(item.get("metadata"))
    return bool(text_of(metadata.get("uid")) and text_of(metadata.get("resourceVersion")))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _device(entry: Json) -> SliceDevice:
    body = mapping(entry.get("basic")) or entry
    attributes: dict[str, str] = {}
    for name, value in mapping(body.get("attributes")).items():
        typed = mapping(value)
        attributes[str(name)] = next((text_of(typed[kind]) for kind in ("string", "version", "int", "bool") if kind in typed), "")
    taints = [mapping(taint) for taint in sequence(body.get("taints"))]
    amounts = {str(name): value for name, value in mapping(body.get("capacity")).items()}
    return SliceDevice(
        name=text_of(entry.get("name")),
        attributes=attributes,
        taints=tuple(map(device_taint, taints)),
        # v1alpha3 wrote the quantity alone
        capacity={name: text_of(value.get("value") if isinstance(value, dict) else value) for name, value in amounts.items()},
        counters=tuple(text_of(mapping(item).get("counterSet")) for item in sequence(body.get("consumesCounters"))),
        shareable=body.get("allowMultipleAllocations") is True,
        defaults={
            name: text_of(policy.get("default"))
            for name, value in amounts.items()
            if (policy := mapping(mapping(value).get("requestPolicy"))).get("default") is not None
        },
        node=text_of(body.get("nodeName")) or _only_node(body.get("nodeSelector")),
    )


def device_taint(item: Json) -> DeviceTaint:
    """One taint of a device or of a DeviceTaintRule."""
    return DeviceTaint(*(text_of(item.get(key)) for key in ("key", "value", "effect", "timeAdded")))


def _only_node(selector: object) -> str:
    """The node that a selector names, or empty: devices that several nodes can reach are nobody's."""
    terms = sequence(mapping(selector).get("nodeSelectorTerms"))
    if len(terms) != 1:
        return ""
    term = mapping(terms[0])
    for item in map(mapping, [*sequence(term.get("matchFields")), *sequence(term.get("matchExpressions"))]):
        values = sequence(item.get("values"))
        if item.get("key") in ("metadata.name", "kubernetes.io/hostname") and item.get("operator") == "In" and len(values) == 1:
            return text_of(values[0])
    return ""


def lack_of(slices: Collection[Slice]) -> str:
    """What the newest generation of a pool lacks, or empty: slices, or one number of them that all its slices name."""
    wanted, generation = sorted({entry.expected_slices for entry in slices}), next(iter(slices)).generation
    if len(wanted) > 1:
        return f"{len(slices)} slices of generation {generation}, which say that there are {' and '.join(map(str, wanted))}"
    return f"{len(slices)} of {wanted[0]} slices of generation {generation}" if len(slices) != wanted[0] else ""


def pools(slices: Iterable[Slice]) -> list[Pool]:
    """Pools by driver and name, sorted; each in its newest generation."""
    groups: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    for entry in slices:
        groups[(entry.driver, entry.pool)].append(entry)
    result = []
    for (driver, name), members in sorted(groups.items()):
        newest = max(entry.generation for entry in members)
        current = [entry for entry in members if entry.generation == newest]
        result.append(
            Pool(
                driver=driver,
                name=name,
                generation=newest,
                slices=len(current),
                expected_slices=max(entry.expected_slices for entry in current),
                stale_slices=len(members) - len(current),
                devices=tuple(device for entry in current for device in entry.devices),
                incomplete="; ".join(dict.fromkeys(entry.incomplete for entry in current if entry.incomplete)),
                lack=lack_of(current),
            )
        )
    return result


class PoolProblem(msgspec.Struct, frozen=True):
    """What is wrong with a pool. ``certain`` is false where it is said in words that nobody here knows."""

    code: str
    message: str
    certain: bool = True


def pool_problems(pool: Pool) -> list[PoolProblem]:
    """What is wrong with a pool, worst first: slices missing, no device, names or UUIDs published twice, devices that no claim gets.

    What was left out of the text is not a problem.
    """
    problems = []
    if pool.lack and not pool.incomplete:
        problems.append(PoolProblem("INCOMPLETE_POOL", pool.lack))
    alone = [device for device in pool.devices if not device.counters and not device.shareable]
    for what, values in (
        ("device name", [("", device.name) for device in pool.devices]),
        ("UUID", [(device.type, uuid) for device in alone if (uuid := device.attribute("uuid"))]),  # a shape for machines shares it
    ):
        twice = [(value, count) for (_, value), count in sorted(Counter(values).items()) if count > 1]
        problems += [PoolProblem("DUPLICATE", f"{what} {value} is published {count} times") for value, count in twice]
    problems += [PoolProblem("DUPLICATE", message) for message in _beside_parts(pool)]
    if not pool.devices and pool.complete:
        problems.append(PoolProblem("NO_DEVICES", "its driver publishes no device: no claim gets one here"))
    for device in pool.devices:
        if device.tainted:
            problems.append(PoolProblem("TAINTED", f"device {device.name} has {device.tainted}: no new claim gets it"))
        elif strange := next((taint for taint in device.taints if not taint.hard and taint.effect != "None"), None):
            message = f"device {device.name} has the taint {strange}, whose effect is not known"
            problems.append(PoolProblem("TAINTED", message, certain=False))
    return problems


def _beside_parts(pool: Pool) -> Iterator[str]:
    """Whole devices beside parts of them, which share no counters: both can be allocated."""
    parts: dict[str, list[SliceDevice]] = defaultdict(list)
    for device in pool.devices:
        parts[device.attribute("parentUUID")].append(device)
    for device in pool.devices:
        mine = parts.get(device.attribute("uuid"), ()) if device.attribute("uuid") else ()
        loose = [part.name for part in mine if not set(part.counters) & set(device.counters)]
        if loose and device.type != SHAPE_FOR_MACHINES:
            yield f"device {device.name} is published beside its own parts ({', '.join(loose[:3])}), and no counters tie them"


def informing_taints(pool: Pool) -> list[str]:
    """Taints that keep no claim away: their effect is None."""
    return [f"device {device.name}: {taint}" for device in pool.devices for taint in device.taints if taint.effect == "None"]
