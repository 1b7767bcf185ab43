"""MIG geometry: which profiles a product has, how many fit on a device, what a mig-parted config name asks for.

Tables are those of mig-parted and of the GPU Operator's default config (docs/facts/mig.md#profiles), costs are slices
(docs/facts/mig.md#slices), names of configurations are mig-parted's (docs/facts/mig.md#configurations).
The same profile name has different maxima on different products, so every question names the product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

MAX_DEVICES = 128
_RESOURCE_PREFIX = "nvidia.com/mig-"
_RESOURCE_PROFILE = re.compile(r"(\d{1,2}g\.\d{1,4}gb)(?:\.([a-z0-9.]{1,16})|(-[a-z0-9.]{1,16}))?\Z")
_WORD = re.compile(r"[A-Za-z0-9.]+")
_SIZE = re.compile(r"(\d{2,4})GB?\Z")


class Geometry(msgspec.Struct, frozen=True):
    """One product's table: ``maxima`` maps profile names (``1g.10gb+me``) to instances per device."""

    name: str
    compute_slices: int
    memory_slices: int
    maxima: Mapping[str, int]


def _seven(name: str, sizes: tuple[int, int, int, int], more: Mapping[str, int] | None = None) -> Geometry:
    """A 7-slice card from the memory sizes of its 1g, 2g, 3g and 7g profiles (a double-memory 1g has the size of 2g)."""
    one, two, three, seven = sizes
    maxima = {
        f"1g.{one}gb": 7,
        f"1g.{one}gb+me": 1,
        f"1g.{two}gb": 4,
        f"2g.{two}gb": 3,
        f"3g.{three}gb": 2,
        f"4g.{three}gb": 1,
        f"7g.{seven}gb": 1,
    }
    return Geometry(name, 7, 8, maxima | dict(more or {}))


def _four_blackwell(name: str, one: int) -> Geometry:
    return Geometry(
        name,
        4,
        4,
        {
            f"1g.{one}gb": 4,
            f"1g.{one}gb+me": 1,
            f"1g.{one}gb+gfx": 4,
            f"1g.{one}gb+me.all": 1,
            f"1g.{one}gb-me": 4,
            f"2g.{2 * one}gb": 2,
            f"2g.{2 * one}gb+gfx": 2,
            f"2g.{2 * one}gb+me.all": 1,
            f"2g.{2 * one}gb-me": 2,
            f"4g.{4 * one}gb": 1,
            f"4g.{4 * one}gb+gfx": 1,
        },
    )


A30 = Geometry("A30 24GB", 4, 4, {"1g.6gb": 4, "1g.6gb+me": 1, "2g.12gb": 2, "2g.12gb+me": 1, "4g.24gb": 1})
A100_40 = _seven("A100 40GB", (5, 10, 20, 40))
A100_80 = _seven("A100 80GB", (10, 20, 40, 80))
H100_80 = _seven("H100 80GB", (10, 20, 40, 80))
H100_94 = _seven("H100 NVL 94GB", (12, 24, 47, 94))
H100_96 = _seven("H100 96GB, GH200 96GB or H20 96GB", (12, 24, 48, 96))
H200 = _seven("H200 141GB", (18, 35, 71, 141))
GH200_144 = _seven("GH200 144GB", (18, 36, 72, 144))
B200 = _seven("B200 180GB", (23, 45, 90, 180))
# Older drivers print other sizes for the large GB200 profiles (docs/facts/mig.md#profiles).
GB200 = _seven("GB200", (23, 47, 93, 186), {"3g.95gb": 2, "4g.95gb": 1, "7g.189gb": 1})
B300 = _seven("B300", (34, 67, 135, 269))
GB300 = _seven("GB300", (35, 70, 139, 278))
RTX_PRO_6000 = _four_blackwell("RTX PRO 6000 Blackwell 96GB", 24)
RTX_PRO_5000 = _four_blackwell("RTX PRO 5000 Blackwell 48GB", 12)

GEOMETRIES: tuple[Geometry, ...] = (
    A30,
    A100_40,
    A100_80,
    H100_80,
    H100_94,
    H100_96,
    H200,
    GH200_144,
    B200,
    GB200,
    B300,
    GB300,
    RTX_PRO_6000,
    RTX_PRO_5000,
)

_BY_MODEL: Mapping[str, Geometry] = {
    "A30": A30,
    "H200": H200,
    "B200": B200,
    "GB200": GB200,
    "B300": B300,
    "GB300": GB300,
}
_BY_SIZE: Mapping[str, Mapping[int, Geometry]] = {
    "A100": {40: A100_40, 80: A100_80},
    "A800": {40: A100_40, 80: A100_80},
    "H100": {0: H100_80, 80: H100_80, 94: H100_94, 96: H100_96},
    "H800": {0: H100_80, 80: H100_80, 94: H100_94},
    # 480 is the LPDDR of the Grace half, which NVML prints in the name of the 96GB part
    "GH200": {0: H100_96, 96: H100_96, 480: H100_96, 144: GH200_144},
    "H20": {0: H100_96, 96: H100_96},
}
_BY_PRO_MODEL: Mapping[str, Mapping[int, Geometry]] = {
    "6000": {0: RTX_PRO_6000, 96: RTX_PRO_6000},
    "5000": {0: RTX_PRO_5000, 48: RTX_PRO_5000},
}


def geometry_of(product: str) -> Geometry | None:
    """The table of a product, from a model name or a ``nvidia.com/gpu.product`` label; ``None`` when no table is known.

    Suffixes ``-MIG-<profile>`` and ``-SHARED`` are ignored. vGPU products (``GRID-…``) and products whose size is not stated where
    it decides (``A100`` alone) have no table, nor have cards of another size under a known model (``H20-3e``, 141 GB).
    """
    words = [word.upper() for word in _WORD.findall(product[:256].partition("-MIG-")[0])]
    if not words or "GRID" in words:
        return None
    size = next((int(match[1]) for word in words if (match := _SIZE.fullmatch(word))), 94 if "NVL" in words else 0)
    if {"RTX", "PRO"} <= set(words):  # GKE leaves the generation out; NVIDIA has no other one of that name
        return _BY_PRO_MODEL.get(next((word for word in words if word in _BY_PRO_MODEL), ""), {}).get(size)
    if {"H20", "3E"} <= set(words):
        return None
    for word in words:
        if word in _BY_MODEL:
            return _BY_MODEL[word]
        if word in _BY_SIZE:
            return _BY_SIZE[word].get(size)
    return None


def resource_name(profile: str) -> str:
    """Extended resource of a profile under strategy ``mixed``: ``1g.10gb+me`` → ``nvidia.com/mig-1g.10gb.me``.

    Facts: docs/facts/resources.md#resource-names.
    """
    return _RESOURCE_PREFIX + profile.replace("+", ".")


def profile_of(resource: str) -> str | None:
    """Profile of a resource (``nvidia.com/mig-1g.10gb.me``, with or without ``.shared``) or label part; ``None`` when it is not one."""
    text = resource.removeprefix(_RESOURCE_PREFIX).removesuffix(".shared")
    match = _RESOURCE_PROFILE.fullmatch(text)
    if match is None:
        return None
    return match[1] + (f"+{match[2]}" if match[2] else match[3] or "")


def max_instances(product: str, profile: str) -> int | None:
    """Instances of ``profile`` on one device of ``product``; 0 when the product has no such profile, ``None`` when no table is known."""
    geometry = geometry_of(product)
    return None if geometry is None else geometry.maxima.get(profile, 0)


def usual_maximum(profile: str) -> int | None:
    """Instances of a profile on one device of whatever product has it; ``None`` when products differ in that, or none has it."""
    found = {geometry.maxima[profile] for geometry in GEOMETRIES if profile in geometry.maxima}
    return found.pop() if len(found) == 1 else None


def slices(geometry: Geometry, profile: str) -> tuple[int, int]:
    """Cost of one instance: (compute slices, memory slices). Raises ``KeyError`` for a profile the product does not have."""
    maximum = geometry.maxima[profile]
    compute = int(profile.partition("g")[0])
    if geometry.compute_slices == 4:
        return compute, compute
    if compute == 1:
        return 1, 2 if maximum == 4 else 1
    return compute, {2: 2, 3: 4, 4: 4, 7: 8}[compute]


def _starts(geometry: Geometry, compute: int, memory: int) -> range | tuple[int, ...]:
    """Memory slices where an instance may start, best first: the ones that leave most room for what is placed after it."""
    if geometry.compute_slices == 4:
        return range(0, 4, memory)
    if memory == 1:
        return range(6, -1, -1)
    if memory == 2:
        return (4, 2, 0) if compute == 2 else (6, 4, 2, 0)
    return (4, 0) if compute == 3 else (0,)


def fits_devices(product: str, devices: int, layout: Mapping[str, int]) -> tuple[bool, str]:
    """Whether ``layout`` (profile → instances, summed over the node) can be placed on ``devices`` devices; with the reason when not.

    Exact: sizes are nested and aligned, so placing the largest first, where it hurts least, finds a placement whenever there is one.
    A product without a table cannot be refused: the answer is ``(True, "no geometry table for …")``.
    """
    geometry = geometry_of(product)
    if geometry is None:
        return True, f"no geometry table for {product}"
    if not 0 <= devices <= MAX_DEVICES:
        return False, f"{devices} devices on one node"
    order: list[tuple[int, int, int, str]] = []
    media_extended = 0
    for profile, count in layout.items():
        if count < 0:
            return False, f"{count} instances of {profile}"
        if count == 0:
            continue
        if profile not in geometry.maxima:
            return False, f"{geometry.name} has no profile {profile}"
        if count > geometry.maxima[profile] * devices:
            return False, f"{count} x {profile} on {devices} device(s) of {geometry.name}: at most {geometry.maxima[profile]} per device"
        media_extended += count if "+me" in profile else 0
        compute, memory = slices(geometry, profile)
        order.append((memory, compute, count, profile))
    if media_extended > devices:
        return False, f"{media_extended} instances with media extensions (+me) on {devices} device(s): at most one per device"
    free = [[True] * geometry.memory_slices for _ in range(min(devices, sum(count for _, _, count, _ in order)))]
    for memory, compute, count, profile in sorted(order, reverse=True):
        if not _place(geometry, free, compute, memory, count):
            return (
                False,
                f"{_words(layout)} exceeds the slices of {devices} device(s) of {geometry.name}: no room for all {count} x {profile}",
            )
    return True, ""


def _place(geometry: Geometry, free: list[list[bool]], compute: int, memory: int, count: int) -> bool:
    for start in _starts(geometry, compute, memory):
        for device in free:
            if not count:
                return True
            if all(device[start : start + memory]):
                device[start : start + memory] = [False] * memory
                count -= 1
    return not count


def _words(layout: Mapping[str, int]) -> str:
    return " + ".join(f"{count} x {profile}" for profile, count in sorted(layout.items()) if count)


def fits(product: str, layout: Mapping[str, int]) -> tuple[bool, str]:
    """Whether one device of ``product`` can carry ``layout`` (profile → instances); see :func:`fits_devices`."""
    return fits_devices(product, 1, layout)


def config_layout(product: str, config: str) -> dict[str, int] | None:
    """Layout per device that a mig-parted config name asks for; ``{}`` for ``all-disabled`` and ``all-enabled``.

    ``None`` when it cannot be told: a custom name, a product without a table, or a profile that the product does not have.

    Facts: docs/facts/mig.md#configurations.
    """
    if config in ("all-disabled", "all-enabled"):
        return {}
    geometry = geometry_of(product)
    if geometry is None or not config.startswith("all-"):
        return None
    plain: dict[int, str] = {}
    for profile in geometry.maxima:
        if "+" not in profile and "-" not in profile:
            plain.setdefault(int(profile.partition("g")[0]), profile)
    if config == "all-balanced":
        wanted = {1: 2, 2: 1} if geometry.compute_slices == 4 else {1: 2, 2: 1, 3: 1}
        return {plain[compute]: count for compute, count in wanted.items()}
    profile_name = profile_of(config.removeprefix("all-"))
    if profile_name is None or profile_name not in geometry.maxima:
        return None
    return {profile_name: geometry.maxima[profile_name]}
