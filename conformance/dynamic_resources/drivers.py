"""Which DRA drivers serve accelerators: by the policy, else by the driver's name, else by what its devices look like. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum

from conformance.outputs.resource_slice import SliceDevice


class DriverKind(StrEnum):
    """What a driver's devices are."""

    ACCELERATOR = "accelerator"
    OTHER = "other"  # network cards, CPUs, memory, storage
    UNKNOWN = "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OTHER_WORDS = _words(
    "net network networking cni sriov sriovnetwork dranet nic nics rdma mrdma roce efa ib infiniband vf ethernet cpu cpus "
    "memory mem hugepages storage disk nvme volume usb imex"
)
_OTHER_NAMES = ("compute-domain.",)
_ACCELERATOR_WORDS = _words(
    "gpu gpus amdgpu vgpu mig vfio npu tpu xpu fpga gaudi hpu neuron neuroncore accelerator accelerators accel dcu mlu ipu gcu directx"
)
_OTHER_TYPES = _words("channel daemon nic vf pf net network rdma cpu memory storage disk ethernet infiniband")
_OTHER_ATTRIBUTES = _words(
    "ifname interfacename mac macaddress linktype linkspeed pfname vfid pkey rdma rdmadevice rdmadevicename ipv4 ipv6 mtu "
    "eswitchmode cpuid cpuids coreid coretype numcpus smtenabled cachel3id hugetlb pagesize hugepagesize"
)
_OTHER_CAPACITY = _words("cpu cpus dra.cpu/cpu storage bandwidth ingressbandwidth egressbandwidth")
PRODUCT = _words("productname product model modelname architecture family generation cudacomputecapability chip devicemodel tpugen")
IDENTITY = _words("uuid serial serialnumber deviceid pciaddr pciaddress pcibusid")
_SPLIT = re.compile(r"[.\-_/]+")

IN_USE = frozenset({"gpu.amd.com/memory-partition-conflict"})
"""Keys of taints that tell of no fault: the device is another shape of one that claims hold (docs/facts/dra.md#other-drivers)."""

NO_DEVICE_TYPES = frozenset({"channel", "daemon"})
"""Types of what a ComputeDomain needs beside its devices (docs/facts/dra.md#nvidia-driver)."""


def kind_of(driver: str, devices: Iterable[SliceDevice], named: Callable[[str], bool]) -> DriverKind:
    """What a driver serves. ``named`` is whether the policy calls it a driver of accelerators; ``devices`` are all it publishes."""
    if not driver:
        return DriverKind.UNKNOWN
    if named(driver):
        return DriverKind.ACCELERATOR
    words = {word for label in driver.lower().split(".")[:2] for word in _SPLIT.split(label)}
    if words & _OTHER_WORDS or driver.startswith(_OTHER_NAMES):
        return DriverKind.OTHER
    shapes = {shape_of(device) for device in devices}
    if DriverKind.ACCELERATOR in shapes:
        return DriverKind.ACCELERATOR
    if DriverKind.OTHER in shapes:
        return DriverKind.OTHER
    return DriverKind.ACCELERATOR if words & _ACCELERATOR_WORDS else DriverKind.UNKNOWN


def names_accelerator(name: str) -> bool:
    """Whether a name has a word for accelerators and none for networks, CPUs, memory or storage: ``acme.ai/npu``."""
    words = frozenset(_SPLIT.split(name.lower()))
    return bool(words & (_ACCELERATOR_WORDS - {"vfio"})) and not words & _OTHER_WORDS


def shape_of(device: SliceDevice) -> DriverKind:
    """What a device is by its type, else by its attributes and capacity."""
    names = {key.rpartition("/")[2].lower() for key in device.attributes}
    amounts = {key.rpartition("/")[2].lower() for key in device.capacity}
    words = set(_SPLIT.split((device.type or device.attribute("deviceType")).lower()))
    if words & _ACCELERATOR_WORDS:
        return DriverKind.ACCELERATOR
    if words & _OTHER_TYPES or names & _OTHER_ATTRIBUTES or amounts & _OTHER_CAPACITY:
        return DriverKind.OTHER
    if names & PRODUCT and (names & IDENTITY or "memory" in amounts):
        return DriverKind.ACCELERATOR
    return DriverKind.UNKNOWN
