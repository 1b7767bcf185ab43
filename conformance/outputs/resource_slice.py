"""Reader of captured ResourceSlices: pools of drivers, their completeness, and what is wrong with them.

A pool is complete only when the slices of its newest generation number ``resourceSliceCount``; older generations are ignored.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from conformance.outputs.unreadable import Unreadable
from conformance.outputs.yaml_text import load_objects, none_of
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES, Slice, SliceDevice, lack_of, newest, slices_of


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
    slices = slices_of(objects)
    if not slices:
        raise Unreadable(none_of("ResourceSlice", objects))
    return slices


def pools(slices: Iterable[Slice]) -> list[Pool]:
    """Pools by driver and name, sorted; each in its newest generation."""
    every = list(slices)
    count = Counter((entry.driver, entry.pool) for entry in every)
    return [
        Pool(
            driver=driver,
            name=name,
            generation=current[0].generation,
            slices=len(current),
            expected_slices=max(entry.expected_slices for entry in current),
            stale_slices=count[(driver, name)] - len(current),
            devices=tuple(device for entry in current for device in entry.devices),
            incomplete="; ".join(dict.fromkeys(entry.incomplete for entry in current if entry.incomplete)),
            lack=lack_of(current),
        )
        for (driver, name), current in newest(every).items()
    ]


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
