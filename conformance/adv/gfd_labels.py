"""The labels of GPU Feature Discovery on one node: complete, well-formed, and in agreement.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from fixtures.kubernetes.labels import keys_with
from fixtures.model.devices.label_rules import sharing_inconsistencies, strategy_inconsistencies
from fixtures.model.devices.node_labels import NodeAdvertisement

PREFIX = "nvidia.com/"
TIMESTAMP = f"{PREFIX}gfd.timestamp"
_GPU = f"{PREFIX}gpu."
_CUDA = f"{PREFIX}cuda."

_OF_GFD = (f"{_GPU}count", f"{_GPU}replicas", f"{_GPU}memory", f"{_GPU}family", f"{_GPU}compute.major", f"{_GPU}machine", TIMESTAMP)
_REQUIRED = ("product", "count", "replicas", "family", "compute.major", "compute.minor", "machine")
# Since v0.15 the driver's labels have a new form; the old one is still written. Either will do.
_EITHER = ((f"{_CUDA}driver-version.major", f"{_CUDA}driver.major"), (f"{_CUDA}runtime-version.major", f"{_CUDA}runtime.major"))
_TWINS = (
    ("driver-version.major", "driver.major"),
    ("driver-version.minor", "driver.minor"),
    ("driver-version.revision", "driver.rev"),
    ("runtime-version.major", "runtime.major"),
    ("runtime-version.minor", "runtime.minor"),
)
_NUMBER = re.compile(r"\d{1,12}\Z")
_BOOLEAN = re.compile(r"(true|false)\Z")
_FAMILIES = "tesla|fermi|kepler|maxwell|pascal|volta|turing|ampere|ada-lovelace|hopper|blackwell|rubin|undefined"
_SHAPES: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...] = (
    (re.compile(r"gfd\.timestamp\Z"), re.compile(r"\d{10}\Z"), "Unix seconds"),
    (re.compile(r"(gpu|mig-.{1,40})\.(count|replicas|memory|multiprocessors|slices\.(gi|ci)|engines\.[a-z]{1,10})\Z"), _NUMBER, "a number"),
    (re.compile(r"gpu\.compute\.(major|minor)\Z"), _NUMBER, "a number"),
    (re.compile(r"gpu\.family\Z"), re.compile(rf"({_FAMILIES})\Z"), "a family of GPUs"),
    (re.compile(r"gpu\.mode\Z"), re.compile(r"(compute|graphics|unknown)\Z"), "compute, graphics or unknown"),
    (re.compile(r"(mig|mps)\.capable\Z"), _BOOLEAN, "true or false"),
    (re.compile(r"vgpu\.present\Z"), _BOOLEAN, "true or false"),
    (re.compile(r"mig\.strategy\Z"), re.compile(r"(none|single|mixed)\Z"), "single or mixed"),
    (re.compile(r"(gpu|mig-.{1,40})\.sharing-strategy\Z"), re.compile(r"(none|time-slicing|mps|)\Z"), "none, time-slicing or mps"),
    (re.compile(r"(gpu|mig-.{1,40})\.product\Z"), re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z"), "a product name"),
    (re.compile(r"cuda\.driver-version\.full\Z"), re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?\Z"), "X.Y or X.Y.Z"),
    (re.compile(r"cuda\.runtime-version\.full\Z"), re.compile(r"\d{1,3}\.\d{1,3}\Z"), "X.Y"),
    (re.compile(r"cuda\.(driver|runtime)(-version)?\.(major|minor)\Z"), _NUMBER, "a number"),
    (re.compile(r"cuda\.(driver-version\.revision|driver\.rev)\Z"), re.compile(r"\d{0,6}\Z"), "a number or empty"),
    (re.compile(r"gpu\.clique\Z"), re.compile(r"[0-9a-fA-F-]{36}\.\d{1,10}\Z"), "<cluster UUID>.<clique>"),
)

# Model words that settle the family; compute capability settles it for every product (NVIDIA, CUDA GPUs).
_FAMILY_OF_WORD = {
    **dict.fromkeys(("H100", "H200", "H800", "H20", "GH200"), "hopper"),
    **dict.fromkeys(("A100", "A800", "A30", "A40", "A10", "A10G", "A16", "A2"), "ampere"),
    **dict.fromkeys(("L4", "L40", "L40S", "L20"), "ada-lovelace"),
    **dict.fromkeys(("B200", "B300", "GB200", "GB300", "Blackwell"), "blackwell"),
    **dict.fromkeys(("T4", "T4G"), "turing"),
    **dict.fromkeys(("V100",), "volta"),
    **dict.fromkeys(("P100", "P40", "P4"), "pascal"),
}
_FAMILY_OF_COMPUTE = {"6": "pascal", "9": "hopper", "10": "blackwell", "12": "blackwell", "13": "rubin"}
_SIZE = re.compile(r"(\d{2,3})GB\Z")


def discovered(labels: Mapping[str, str]) -> bool:
    """Whether GPU Feature Discovery wrote labels on the node. ``gpu.present`` and a lone product are set by clouds and people too."""
    return any(key in labels for key in _OF_GFD) or bool(keys_with(labels, _CUDA))


def count_of(labels: Mapping[str, str]) -> int:
    """How many labels of discovery the node carries."""
    parts = (_GPU, _CUDA, f"{PREFIX}mig", f"{PREFIX}mps.", f"{PREFIX}vgpu.", TIMESTAMP)
    return sum(not key.startswith(f"{_GPU}deploy.") for key in keys_with(labels, *parts))


def problems(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: missing, malformed, contradicting. ``view``: the same taken apart."""
    yield from _missing(labels, view)
    yield from _malformed(labels)
    for item in (*sharing_inconsistencies(view), *strategy_inconsistencies(view)):
        yield f"{item.what.removeprefix('label ')} is {item.observed!r}, expected {item.expected} ({item.source})"
    yield from _driver_parts(labels)
    yield from _product(labels, view)


def _missing(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    if view.vgpu:
        return
    for name in _REQUIRED:
        if f"{_GPU}{name}" not in labels:
            yield f"{_GPU}{name} is missing"
    for new, old in _EITHER:
        if new not in labels and old not in labels:
            yield f"{new} is missing"
    for entry in view.mig:
        for name in ("product", "count", "replicas"):
            if f"{entry.resource}.{name}" not in labels:
                yield f"{entry.resource}.{name} is missing"


def _malformed(labels: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(key for key in labels if key.startswith(PREFIX)):
        if problem := _misshapen(key, labels[key]):
            yield problem


@lru_cache(maxsize=8192)  # nodes of a cluster have the same labels
def _misshapen(key: str, value: str) -> str:
    """What is wrong with the shape of a label's value, or empty."""
    name = key.removeprefix(PREFIX)
    rule = next(((shape, words) for pattern, shape, words in _SHAPES if pattern.match(name)), None)
    return f"{key} is {value!r}, which is not {rule[1]}" if rule is not None and not rule[0].match(value) else ""


def _driver_parts(labels: Mapping[str, str]) -> Iterator[str]:
    for new, old in _TWINS:
        values = (labels.get(f"{_CUDA}{new}"), labels.get(f"{_CUDA}{old}"))
        if None not in values and values[0] != values[1]:
            yield f"{_CUDA}{new} is {values[0]!r} and its older twin {old} is {values[1]!r}"
    for noun, parts in (("driver-version", ("major", "minor", "revision")), ("runtime-version", ("major", "minor"))):
        full = labels.get(f"{_CUDA}{noun}.full")
        stated = [labels.get(f"{_CUDA}{noun}.{part}") for part in parts]
        if full and None not in stated and ".".join(part for part in stated if part) != full:
            yield f"{_CUDA}{noun}.full is {full!r} and its parts say {'.'.join(part for part in stated if part)!r}"


def _product(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    product, family = view.gpu.product, labels.get(f"{_GPU}family", "")
    major, minor = labels.get(f"{_GPU}compute.major", ""), labels.get(f"{_GPU}compute.minor", "")
    words = product.model.split("-")
    named = next((_FAMILY_OF_WORD[word] for word in words if word in _FAMILY_OF_WORD), "")
    if named and family and family != named:
        yield f"{_GPU}product {product.text!r} is of family {named} and {_GPU}family says {family!r}"
    computed = _FAMILY_OF_COMPUTE.get(major) or {("8", "9"): "ada-lovelace", ("7", "5"): "turing", ("7", "0"): "volta"}.get((major, minor))
    computed = computed or ("ampere" if major == "8" and minor != "9" else "")
    if computed and family and family != computed:
        yield f"compute capability {major}.{minor} is of family {computed} and {_GPU}family says {family!r}"
    size = next((int(match[1]) for word in words if (match := _SIZE.match(word))), 0)
    memory = labels.get(f"{_GPU}memory", "")
    # 480GB in the name of a Grace Hopper is the memory of its CPU
    if size and size != 480 and not product.mig_profile and not product.mig_invalid and _NUMBER.match(memory):
        gib = int(memory) / 1024
        if abs(gib - size) > 0.2 * size:
            yield f"{_GPU}product {product.text!r} names {size} GB and {_GPU}memory says {memory} MiB"
