"""One page of device metrics: which devices and MIG instances it shows, with every value and every owner that it names. Pure.

Which series are which is data (``exporters.yaml``). Names and labels are those of the exporter itself, or renamed by a Prometheus.
Facts: docs/facts/telemetry.md#metrics, docs/facts/telemetry.md#exporters.
"""

import functools
from collections import Counter
from collections.abc import Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.dcgm import Sample, as_before, current, first_of, is_blank, owner_of, parse_page
from fixtures.model.platform.exporters import Kind, kinds
from fixtures.model.platform.renamed_series import renamed

MOST_ROWS = 1024
"""Devices and MIG instances that a page may name: a machine has eight or sixteen, with seven instances each."""


class Owner(msgspec.Struct, frozen=True, order=True):
    """Who holds a device, by the labels of its series. ``container`` may be empty."""

    namespace: str
    pod: str
    container: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.pod, self.container) if part)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A device, or one MIG instance of it, with the values of each series in order of appearance."""

    uuid: str
    index: str
    instance: str
    profile: str
    pci: str
    host: str
    model: str
    values: Mapping[str, tuple[float, ...]]
    owners: tuple[Owner, ...]

    def value(self, *names: str) -> float | None:
        """The first value of the named series that is one, as :meth:`all` gives it."""
        return next((value for name in names for value in self.all(name) if not is_blank(value)), None)

    def all(self, name: str) -> tuple[float, ...]:
        """Values of a series, in the unit that it has by this name, also where the exporter renamed it."""
        now = self.served(name)
        return tuple(as_before(Sample(now, {}, value)).value if now != name else value for value in self.values.get(now, ()))

    def served(self, name: str) -> str:
        """The name by which this page has a series: this one, or that which it has now."""
        return renamed()[name].now if name not in self.values and name in renamed() and renamed()[name].now in self.values else name

    @property
    def vgpu(self) -> bool:
        """Whether it is a vGPU guest's device, which has no sensors."""
        return self.model.upper().startswith("GRID")

    def __str__(self) -> str:
        part = f" instance {self.instance} ({self.profile})" if self.instance else ""
        return f"GPU {self.index or '?'} {self.uuid}".rstrip() + part


class Page(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What one exporter served. ``doubled`` are series that stand there twice, ``unnamed`` rows of instances that say not of which."""

    kind: Kind
    parts: tuple[Part, ...]
    series: frozenset[str]
    samples: tuple[Sample, ...]
    doubled: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    @functools.cached_property
    def devices(self) -> dict[str, list[Part]]:
        """Rows by device: the device itself, and its instances."""
        found: dict[str, list[Part]] = {}
        for part in self.parts:
            found.setdefault(part.uuid or part.index, []).append(part)
        return found


def read_page(text: str, *, whole: bool = True) -> Page:
    """A page of metrics. ``whole``: as a program served it, not what somebody copied from one.

    Raises:
        Unreadable: no metrics at all, not as Prometheus reads them, cut off, or none of a device.
    """
    samples, broken = parse_page(text)
    if whole and not text.endswith("\n"):
        raise Unreadable(f"it ends within a line, so it was cut off: {text[-80:]!r}")
    if broken and whole:
        raise Unreadable(f"{len(broken)} lines are no metrics, so Prometheus refuses all of it: {broken[-1].strip()[:80]!r}")
    raw, samples = samples, [_known(current(sample)) for sample in samples]
    renamed = [one for one, known in zip(raw, samples, strict=True) if one.name != known.name]
    kind = max(kinds(), key=lambda one: sum(sample.name.startswith(one.prefixes) for sample in samples))
    own = [sample for sample in samples if sample.name.startswith(kind.prefixes)]
    rows: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in own:
        uuid, index, instance = (first_of(sample.labels, *names) for names in (kind.uuid, kind.index, kind.instance))
        if uuid or index:
            rows.setdefault((uuid, index, instance), []).append(sample)
    if len(rows) > MOST_ROWS:
        raise Unreadable(f"it names {len(rows)} devices and instances, and more than {MOST_ROWS} are not read")
    if not rows:
        raise Unreadable(f"none of its {len(samples)} samples names a device")
    seen = Counter((sample.name, frozenset(sample.labels.items())) for sample in own)
    twice = [f"{name}{{{_where(kind, dict(labels))}}}" for (name, labels), count in seen.items() if count > 1]
    lost = [sample for sample in own if first_of(sample.labels, *kind.profile) and not first_of(sample.labels, *kind.instance)]
    return Page(
        kind=kind,
        parts=tuple(_part(kind, key, members) for key, members in _joined(rows).items()),
        series=frozenset(sample.name for sample in (*samples, *renamed)),
        samples=(*samples, *renamed),
        doubled=tuple(twice),
        unnamed=tuple(dict.fromkeys(_where(kind, sample.labels) for sample in lost)) if kind.of_instance else (),
    )


def plain_name(name: str) -> str:
    """A series by its name in ``exporters.yaml``: AMD's are upper case in early releases and begin with ``amd_`` in late ones."""
    plain = name.lower().removeprefix("amd_")
    return plain if plain.startswith("gpu_") else name


def _known(sample: Sample) -> Sample:
    name = plain_name(sample.name)
    return sample if name == sample.name else Sample(name, sample.labels, sample.value)


def _where(kind: Kind, labels: Mapping[str, str]) -> str:
    return " ".join(filter(None, (first_of(labels, *kind.index), first_of(labels, *kind.uuid), first_of(labels, *kind.profile))))


def _joined(rows: dict[tuple[str, str, str], list[Sample]]) -> dict[tuple[str, str, str], list[Sample]]:
    """Rows that name their device by UUID or by index only, put to the one that they can mean."""
    found: dict[tuple[str, str, str], list[Sample]] = {key: members for key, members in rows.items() if key[0] and key[1]}
    for key, members in rows.items():
        if key in found:
            continue
        uuid, index, instance = key
        mine = [one for one in found if one[2] == instance and (one[0] == uuid if uuid else one[1] == index)]
        found.setdefault(mine[0] if len(mine) == 1 else key, []).extend(members)
    return found


def _part(kind: Kind, key: tuple[str, str, str], samples: list[Sample]) -> Part:
    values: dict[str, list[float]] = {}
    owners: dict[Owner, None] = {}
    labels: dict[str, str] = {}
    for sample in samples:
        values.setdefault(sample.name, []).append(sample.value)
        labels.update({name: value for name, value in sample.labels.items() if value})
        if owner := owner_of(sample.labels):
            owners[Owner(*owner)] = None
    return Part(
        uuid=key[0],
        index=key[1],
        instance=key[2] if kind.of_instance else "",
        profile=first_of(labels, *kind.profile),
        pci=first_of(labels, *kind.pci),
        host=first_of(labels, *kind.host),
        model=first_of(labels, *kind.model),
        values={name: tuple(found) for name, found in values.items()},
        owners=tuple(owners),
    )
