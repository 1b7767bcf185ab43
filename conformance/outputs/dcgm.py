"""Samples out of captured metrics (text, OpenMetrics, JSON of Prometheus' API), and each device's state in a scrape of DCGM.

The parser of Prometheus' own client is no part of the suite: it renames counters by their types, and ends at the first bad line.
Tests hold this one against it. Memory is MiB, power W, temperature °C, activity a ratio 0..1. Rows of a MIG instance carry the UUID of
its GPU and differ in ``GPU_I_ID``; ``GPU_UTIL`` does not exist for them.

Facts: docs/facts/telemetry.md#forms-of-metrics, docs/facts/telemetry.md#metrics.
"""

import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from conformance.outputs.captured_text import COLUMNS, Unreadable, lines_of, readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.model.devices.xid_catalogue import lookup
from fixtures.model.platform.renamed_series import earlier
from fixtures.tables.rows import XidClass
from fixtures.text import json_text
from fixtures.text.json_text import NotJson

_SAMPLE = re.compile(
    r"([A-Za-z_:][\w:]{0,255})(?:\{(.*)\})?\s{1,16}(\S{1,64})(?:\s{1,16}-?\d{1,20}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?)?\s*\Z"
)
_EXEMPLAR = re.compile(r" # \{[^{}]{0,512}\} \S{1,64}(?: \S{1,32})?\s*\Z")
_LABEL = re.compile(r'([A-Za-z_]\w{0,127})="((?:[^"\\]|\\.)*)"\s{0,8},?\s{0,8}')
_ESCAPE = re.compile(r"\\(.)")


class Sample(msgspec.Struct, frozen=True):
    """One series with its value. Label names as exported."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_samples(text: str) -> list[Sample]:
    """All samples of a text; comments and other lines are skipped.

    Raises:
        Unreadable: empty, binary or oversized text.
    """
    answer = _answer(readable_text(text))
    labels: dict[str, Mapping[str, str]] = {}
    return [found for line in lines_of(text) if (found := _of_line(line, labels))] if answer is None else list(_of_answer(answer))


def parse_page(text: str) -> tuple[list[Sample], list[str]]:
    """Samples of a page as an exporter serves it, and the lines that are none: Prometheus refuses the whole page for one of these.

    Raises:
        Unreadable: empty, binary or oversized text.
    """
    samples, broken = [], []
    labels: dict[str, Mapping[str, str]] = {}
    for line in lines_of(text):
        if line.strip() and not line.lstrip().startswith("#"):
            found = _of_line(line, labels)
            samples.append(found) if found else broken.append(line)
    return samples, broken


def _of_line(raw: str, known: dict[str, Mapping[str, str]]) -> Sample | None:
    """The sample of a line. ``known`` are labels by their text: all series of a device have the same, and share them."""
    line = raw.strip()
    if line.startswith("#"):
        return None
    if " # {" in line:
        line = _EXEMPLAR.sub("", line)
    match = _SAMPLE.match(line)
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    text = match[2] or ""
    if text not in known:
        known[text] = {name: _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], raw) for name, raw in _LABEL.findall(text)}
    return Sample(match[1], known[text], value)


def _answer(text: str) -> Json | None:
    """The ``data`` of an answer of Prometheus' query API; ``None`` for any other text."""
    stripped = text.lstrip()
    if not stripped.startswith("{") or '"result"' not in stripped:
        return None
    try:
        document = json_text.decode(stripped)
    except NotJson:
        return None
    data = mapping(document, "data") if isinstance(document, dict) else {}
    return data if isinstance(data.get("result"), list) else None


def _of_answer(data: Json) -> Iterator[Sample]:
    for item in mappings(data["result"]):
        labels = {str(name): text_of(value) for name, value in mapping(item.get("metric")).items()}
        # a range has one value a step: the last is the newest
        value = sequence(item.get("value")) or sequence(next(iter(reversed(sequence(item.get("values")))), None))
        try:
            yield Sample(labels.pop("__name__", ""), labels, float(text_of(value[1])))
        except (IndexError, ValueError):
            continue


IDLE_BELOW = 0.01  # activity (docs/facts/telemetry.md#idle-and-occupied)
BASELINE_MIB = 600.0  # driver and persistence overhead (docs/facts/telemetry.md#idle-and-occupied)
_PREFIXES = ("DCGM_FI_", "DCGM_EXP_")
_FAULTS = (
    *("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_FI_DEV_ECC_DBE_VOL_"),
    *("DCGM_FI_DEV_ROW_REMAP_", "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS"),
)
"""Series that tell a fault also where they name no GPU: of a switch, or summed up by Prometheus."""
_HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
_BLANKS = ((2147483632.0, 2147483647.0), (140737488355328.0, 140737488355343.0), (9223372036854775000.0, math.inf))
"""What DCGM says for a value that it does not have, in 32 bits, as a float and in 64 bits (docs/facts/telemetry.md#values)."""
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
UTILISATION = "DCGM_FI_DEV_GPU_UTIL"


class State(StrEnum):
    """What one scrape says about a device."""

    IDLE = "idle"
    BUSY = "busy"
    XID_FATAL = "xid fatal"
    REMAP_FAILED = "row remap failed"
    UNKNOWN = "unknown"


class HealthWatch(msgspec.Struct, frozen=True):
    """What DCGM's own health check says of one part of a device: 0 pass, 10 warning, 20 failure."""

    part: str
    code: str
    result: int


class Device(msgspec.Struct, frozen=True):
    """One GPU, or one MIG instance of a GPU (``instance`` is its GPU_I_ID), with the latest value of each metric."""

    host: str
    gpu: str
    uuid: str
    instance: str
    profile: str
    model: str
    pci: str
    driver: str
    metrics: Mapping[str, float]
    pods: tuple[tuple[str, str, str], ...]  # (namespace, pod, container)
    counted_xids: tuple[int, ...] = ()  # codes of DCGM_EXP_XID_ERRORS_COUNT above zero
    health: tuple[HealthWatch, ...] = ()

    @property
    def activity(self) -> float | None:
        """Engine activity, or utilisation / 100 where profiling is absent (vGPU, GeForce)."""
        if ACTIVITY in self.metrics:
            return self.metrics[ACTIVITY]
        return self.metrics[UTILISATION] / 100 if UTILISATION in self.metrics else None

    @property
    def memory_used(self) -> float | None:
        """Frame buffer in use, MiB."""
        return self.metrics.get("DCGM_FI_DEV_FB_USED")

    @property
    def temperature(self) -> float | None:
        """Degrees Celsius."""
        return self.metrics.get("DCGM_FI_DEV_GPU_TEMP")

    @property
    def power(self) -> float | None:
        """Watt."""
        return self.metrics.get("DCGM_FI_DEV_POWER_USAGE")

    @property
    def xid(self) -> int | None:
        """Number of the last Xid, 0 for none since the driver was loaded; ``None`` when not exported."""
        value = self.metrics.get("DCGM_FI_DEV_XID_ERRORS")
        return int(value) if value is not None and 0 <= value < 1e6 else None

    @property
    def xids(self) -> tuple[int, ...]:
        """Every Xid that the scrape names, sorted: the last one and those of the exporter's window counter."""
        return tuple(sorted({*self.counted_xids, *((self.xid,) if self.xid else ())}))

    @property
    def fatal_xids(self) -> tuple[int, ...]:
        """The Xids of class fatal among them."""
        return tuple(code for code in self.xids if lookup(code).klass is XidClass.FATAL)

    @property
    def allocated(self) -> bool:
        """Whether a pod is named on any series. A device shared in time can name at most one (docs/facts/telemetry.md#shared-devices)."""
        return bool(self.pods)

    @property
    def vgpu(self) -> bool:
        """Whether this is a vGPU guest's device, which has no profiling series."""
        return self.model.upper().startswith("GRID")

    @property
    def state(self) -> State:
        """State by the Xid table and by activity."""
        if self.fatal_xids:
            return State.XID_FATAL
        if self.metrics.get("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0) > 0:
            return State.REMAP_FAILED
        if self.activity is None:
            return State.UNKNOWN
        return State.IDLE if self.activity < IDLE_BELOW else State.BUSY

    @property
    def used_but_unallocated(self) -> bool:
        """Whether memory is held and no pod is named: a process outside Kubernetes, a leak, or a shared device."""
        return not self.allocated and not self.instance and (self.memory_used or 0) > BASELINE_MIB

    @property
    def named(self) -> bool:
        """Whether the scrape says which GPU it is."""
        return bool(self.gpu or self.uuid)

    def __str__(self) -> str:
        part = f" instance {self.instance} {self.profile}".rstrip() if self.instance else ""
        return f"{self.host or '?'} GPU {self.gpu or '?'}{part}"


def first_of(labels: Mapping[str, str], *names: str) -> str:
    """The first of the labels that says something; empty where none does."""
    return next((labels[name] for name in names if labels.get(name)), "")


def owner_of(labels: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Namespace, pod and container that a series names as its device's owner, also where a scrape renamed the labels; None for none."""
    names = ((f"exported_{part}", part, f"{part}_name", part.upper()) for part in ("pod", "container"))
    pod, container = (first_of(labels, *each) for each in names)
    return (first_of(labels, "exported_namespace", "namespace", "pod_namespace", "NAMESPACE"), pod, container) if pod else None


def parse(text: str) -> list[Device]:
    """Devices of one scrape in order of appearance; series without a GPU (NVSwitch, CPU) are left out unless they tell a fault.

    Raises:
        Unreadable: empty, binary or oversized text, or no DCGM series of a GPU in it.
    """
    groups: dict[tuple[str, str, str, str], list[Sample]] = {}
    for sample in map(as_before, map(current, parse_samples(text))):
        labels = sample.labels
        uuid = first_of(labels, "UUID", "gpu_uuid", "uuid")
        if not sample.name.startswith(_PREFIXES) or is_blank(sample.value):
            continue
        if uuid or labels.get("gpu") or (sample.value > 0 and sample.name.startswith(_FAULTS)):
            key = (first_of(labels, "Hostname", "hostname"), labels.get("gpu", ""), uuid, labels.get("GPU_I_ID", ""))
            groups.setdefault(key, []).append(sample)
    if not groups:
        raise Unreadable("no DCGM series of a GPU found")
    return [_device(key, samples) for key, samples in _joined(groups).items()]


def current(sample: Sample) -> Sample:
    """The sample under DCGM's own name; OpenMetrics ends counters in ``_total``."""
    name = COLUMNS["dcgm"].get(sample.name, sample.name.removesuffix("_total") if sample.name.startswith(_PREFIXES) else sample.name)
    return sample if name == sample.name else Sample(name, sample.labels, sample.value)


def as_before(sample: Sample) -> Sample:
    """The sample with the name and the unit that its series had before an exporter renamed it; a blank value stays as it is."""
    name, times = earlier().get(sample.name, (sample.name, 1.0))
    return sample if name == sample.name else Sample(name, sample.labels, sample.value if is_blank(sample.value) else sample.value * times)


def is_blank(value: float) -> bool:
    """Whether a value is DCGM's way to say that it has none, or no number."""
    return not math.isfinite(value) or any(low <= value <= high for low, high in _BLANKS)


def _joined(groups: dict[tuple[str, str, str, str], list[Sample]]) -> dict[tuple[str, str, str, str], list[Sample]]:
    """Series that name their GPU by index or by UUID only, put to the one device that they can mean."""
    joined: dict[tuple[str, str, str, str], list[Sample]] = {}
    whole = [key for key in groups if key[1] and key[2]]
    for key, samples in groups.items():
        mine = [each for each in whole if all(a == b or not a for a, b in zip(key[:3], each[:3], strict=True)) and key[3] == each[3]]
        joined.setdefault(mine[0] if len(mine) == 1 and key not in whole else key, []).extend(samples)
    return joined


def _device(key: tuple[str, str, str, str], samples: list[Sample]) -> Device:
    merged: dict[str, str] = {}
    pods: dict[tuple[str, str, str], None] = {}
    metrics: dict[str, float] = {}
    for sample in samples:
        labels = sample.labels
        merged.update({name: value for name, value in labels.items() if value})
        # a series for each link, pod or part of the device: the worst counts
        metrics[sample.name] = max(sample.value, metrics.get(sample.name, sample.value))
        if owner := owner_of(labels):
            pods[owner] = None
    host, gpu, uuid, instance = key
    return Device(
        host=host,
        gpu=gpu,
        uuid=uuid,
        instance=instance,
        profile=merged.get("GPU_I_PROFILE", ""),
        model=merged.get("modelName", "") or merged.get("model_name", ""),
        pci=merged.get("pci_bus_id", ""),
        driver=first_of(merged, "DCGM_FI_SYSTEM_DRIVER_VERSION", "DCGM_FI_DRIVER_VERSION"),
        metrics=metrics,
        pods=tuple(pods),
        counted_xids=tuple(sorted({code for sample in samples if (code := _counted_xid(sample))})),
        health=tuple(
            HealthWatch(first_of(sample.labels, "health_watch"), first_of(sample.labels, "health_error_code"), int(sample.value))
            for sample in samples
            if sample.name == _HEALTH
        ),
    )


def _counted_xid(sample: Sample) -> int:
    code = first_of(sample.labels, "xid", "err_code")
    counted = sample.name == "DCGM_EXP_XID_ERRORS_COUNT" and sample.value > 0 and re.fullmatch(r"[0-9]{1,5}", code)
    return int(code) if counted else 0
