"""Reader of dcgm-exporter metrics (Prometheus text, facts 6.1) and the state of each device in one scrape.

Memory is MiB, power W, temperature °C, activity a ratio 0..1. MIG instance rows carry the parent's UUID and are told apart by
``GPU_I_ID``; ``GPU_UTIL`` does not exist for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from conformance.outputs import xid
from conformance.outputs.unreadable import Unreadable, lines_of

IDLE_BELOW = 0.01  # activity (facts 6.1, allocated-but-idle)
BASELINE_MIB = 600.0  # driver and persistence overhead (facts 6.1, used-but-unallocated)
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]{0,255})(?:\{(.*)\})?\s{1,16}(\S{1,64})(?:\s{1,16}-?\d{1,20})?\s*\Z")
_LABEL = re.compile(r'([A-Za-z_]\w{0,127})="((?:[^"\\]|\\.)*)"\s{0,8},?\s{0,8}')
_ESCAPE = re.compile(r"\\(.)")
_PREFIXES = ("DCGM_FI_", "DCGM_EXP_")
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
UTILISATION = "DCGM_FI_DEV_GPU_UTIL"


class Sample(msgspec.Struct, frozen=True):
    """One series with its value. Label names as exported."""

    name: str
    labels: Mapping[str, str]
    value: float


class State(StrEnum):
    """What one scrape says about a device."""

    IDLE = "idle"
    BUSY = "busy"
    XID_FATAL = "xid fatal"
    REMAP_FAILED = "row remap failed"
    UNKNOWN = "unknown"


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
        return tuple(code for code in self.xids if xid.lookup(code).klass is xid.XidClass.FATAL)

    @property
    def allocated(self) -> bool:
        """Whether a pod is named on any series. A device shared in time can name at most one (facts 6.1)."""
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

    def __str__(self) -> str:
        part = f" instance {self.instance} {self.profile}".rstrip() if self.instance else ""
        return f"{self.host or '?'} GPU {self.gpu or '?'}{part}"


def parse_samples(text: str) -> list[Sample]:
    """All samples of a Prometheus text exposition; lines that are none are skipped, comments too.

    Raises:
        Unreadable: empty, binary or oversized text.
    """
    samples = []
    for line in lines_of(text):
        match = None if line.startswith("#") else _SAMPLE.match(line.strip())
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {name: _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], raw) for name, raw in _LABEL.findall(match[2] or "")}
        samples.append(Sample(match[1], labels, value))
    return samples


def _first(labels: Mapping[str, str], *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def parse(text: str) -> list[Device]:
    """Devices of one scrape in order of appearance; series without a GPU (NVSwitch, CPU) are left out.

    Raises:
        Unreadable: empty, binary or oversized text, or no DCGM series of a GPU in it.
    """
    groups: dict[tuple[str, str, str, str], list[Sample]] = {}
    for sample in parse_samples(text):
        labels = sample.labels
        if sample.name.startswith(_PREFIXES) and (labels.get("UUID") or labels.get("gpu")) and math.isfinite(sample.value):
            key = (_first(labels, "Hostname", "hostname"), labels.get("gpu", ""), labels.get("UUID", ""), labels.get("GPU_I_ID", ""))
            groups.setdefault(key, []).append(sample)
    if not groups:
        raise Unreadable("no DCGM series of a GPU found")
    return [_device(key, samples) for key, samples in groups.items()]


def _device(key: tuple[str, str, str, str], samples: list[Sample]) -> Device:
    merged: dict[str, str] = {}
    pods: dict[tuple[str, str, str], None] = {}
    for sample in samples:
        labels = sample.labels
        merged.update({name: value for name, value in labels.items() if value})
        if pod := _first(labels, "exported_pod", "pod", "pod_name"):
            namespace = _first(labels, "exported_namespace", "namespace", "pod_namespace")
            pods[(namespace, pod, _first(labels, "exported_container", "container", "container_name"))] = None
    host, gpu, uuid, instance = key
    return Device(
        host=host,
        gpu=gpu,
        uuid=uuid,
        instance=instance,
        profile=merged.get("GPU_I_PROFILE", ""),
        model=merged.get("modelName", ""),
        pci=merged.get("pci_bus_id", ""),
        driver=merged.get("DCGM_FI_DRIVER_VERSION", ""),
        metrics={sample.name: sample.value for sample in samples},
        pods=tuple(pods),
        counted_xids=tuple(sorted({code for sample in samples if (code := _counted_xid(sample))})),
    )


def _counted_xid(sample: Sample) -> int:
    code = _first(sample.labels, "xid", "err_code")
    counted = sample.name == "DCGM_EXP_XID_ERRORS_COUNT" and sample.value > 0 and re.fullmatch(r"[0-9]{1,5}", code)
    return int(code) if counted else 0
