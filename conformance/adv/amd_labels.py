"""The labels of AMD's node labeller on one node. Which of them it writes is a choice of flags: none is required.

Facts: docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fixtures.kubernetes.labels import keys_with

PREFIX = "amd.com/gpu."
LEGACY = f"beta.{PREFIX}"

_SHAPES: Mapping[str, tuple[re.Pattern[str], str]] = {
    "device-id": (re.compile(r"[0-9a-f]{4}\Z"), "a PCI device id"),
    "vram": (re.compile(r"\d{1,4}G\Z"), "<number>G"),
    "cu-count": (re.compile(r"\d{1,5}\Z"), "a number"),
    "simd-count": (re.compile(r"\d{1,6}\Z"), "a number"),
    "product-name": (re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z"), "a product name"),
    "driver-version": (re.compile(r"\d{1,3}(\.\d{1,4}){1,3}([-.+].{0,40})?\Z"), "a version"),
    "compute-memory-partition": (re.compile(r"(spx|dpx|tpx|qpx|cpx)_nps[1248]\Z", re.IGNORECASE), "<compute>_<memory>, as spx_nps1"),
    "compute-partitioning-supported": (re.compile(r"(true|false)\Z"), "true or false"),
    "memory-partitioning-supported": (re.compile(r"(true|false)\Z"), "true or false"),
}
# memory of one device; a partition has its share of it
_VRAM = {"MI300X": 192, "MI300A": 128, "MI325X": 256, "MI350X": 288, "MI355X": 288, "MI210": 64}


def labelled(labels: Mapping[str, str]) -> bool:
    """Whether the labeller wrote anything on the node."""
    return bool(keys_with(labels, PREFIX, LEGACY))


def count_of(labels: Mapping[str, str]) -> int:
    """How many labels of it the node carries."""
    return sum(key.startswith((PREFIX, LEGACY)) for key in labels)


def problems(labels: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: malformed, or contradicting each other."""
    for name, (shape, words) in _SHAPES.items():
        for key in (f"{PREFIX}{name}", f"{LEGACY}{name}"):
            if key in labels and not shape.match(labels[key]):
                yield f"{key} is {labels[key]!r}, which is not {words}"
        new, old = labels.get(f"{PREFIX}{name}"), labels.get(f"{LEGACY}{name}")
        if new is not None and old is not None and new != old:
            yield f"{PREFIX}{name} is {new!r} and its legacy twin is {old!r}"
    product, vram = labels.get(f"{PREFIX}product-name", ""), labels.get(f"{PREFIX}vram", "")
    size = next((size for model, size in _VRAM.items() if model in product), 0)
    partition = labels.get(f"{PREFIX}compute-memory-partition", "spx").lower()
    if size and re.match(r"\d{1,4}G\Z", vram) and partition.startswith("spx") and abs(int(vram[:-1]) - size) > 0.1 * size:
        yield f"{PREFIX}product-name {product!r} has {size} GB and {PREFIX}vram says {vram}"
