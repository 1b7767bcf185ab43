"""ADV-04: what feature labels of NVIDIA and AMD say, compared with each other, with capacity and with the clock.

Which labels AMD's node labeller writes is a choice of flags: none is required.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label, docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import amd_terms, gke_terms, label_terms, number
from fixtures.model.devices.node_advertisement import NodeAdvertisement
from fixtures.model.devices.node_labels import sharing_inconsistencies, strategy_inconsistencies, view_of
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.verdict.findings import About, Finding

AMD = "amd.com/gpu."
AMD_LEGACY = f"beta.{AMD}"

_AMD_SHAPES: Mapping[str, tuple[re.Pattern[str], str]] = {
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


def labelled_by_amd(labels: Mapping[str, str]) -> bool:
    """Whether the labeller wrote anything on the node."""
    return bool(keys_with(labels, AMD, AMD_LEGACY))


def amd_count(labels: Mapping[str, str]) -> int:
    """How many labels of it the node carries."""
    return sum(key.startswith((AMD, AMD_LEGACY)) for key in labels)


def amd_problems(labels: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: malformed, or contradicting each other."""
    for name, (shape, words) in _AMD_SHAPES.items():
        for key in (f"{AMD}{name}", f"{AMD_LEGACY}{name}"):
            if key in labels and not shape.match(labels[key]):
                yield f"{key} is {labels[key]!r}, which is not {words}"
        new, old = labels.get(f"{AMD}{name}"), labels.get(f"{AMD_LEGACY}{name}")
        if new is not None and old is not None and new != old:
            yield f"{AMD}{name} is {new!r} and its legacy twin is {old!r}"
    product, vram = labels.get(f"{AMD}product-name", ""), labels.get(f"{AMD}vram", "")
    size = next((size for model, size in _VRAM.items() if model in product), 0)
    partition = labels.get(f"{AMD}compute-memory-partition", "spx").lower()
    if size and re.match(r"\d{1,4}G\Z", vram) and partition.startswith("spx") and abs(int(vram[:-1]) - size) > 0.1 * size:
        yield f"{AMD}product-name {product!r} has {size} GB and {AMD}vram says {vram}"


NVIDIA = "nvidia.com/"
TIMESTAMP = f"{NVIDIA}gfd.timestamp"
_GPU = f"{NVIDIA}gpu."
_CUDA = f"{NVIDIA}cuda."

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


def gfd_count(labels: Mapping[str, str]) -> int:
    """How many labels of discovery the node carries."""
    parts = (_GPU, _CUDA, f"{NVIDIA}mig", f"{NVIDIA}mps.", f"{NVIDIA}vgpu.", TIMESTAMP)
    return sum(not key.startswith(f"{_GPU}deploy.") for key in keys_with(labels, *parts))


def gfd_problems(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: missing, malformed, contradicting. ``view``: the same taken apart."""
    yield from _missing_labels(labels, view)
    yield from _malformed(labels)
    for item in (*sharing_inconsistencies(view), *strategy_inconsistencies(view)):
        yield f"{item.what.removeprefix('label ')} is {item.observed!r}, expected {item.expected} ({item.source})"
    yield from _driver_parts(labels)
    yield from _product(labels, view)


def _missing_labels(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
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
    for key in sorted(key for key in labels if key.startswith(NVIDIA)):
        if problem := _misshapen(key, labels[key]):
            yield problem


@lru_cache(maxsize=8192)  # nodes of a cluster have the same labels
def _misshapen(key: str, value: str) -> str:
    """What is wrong with the shape of a label's value, or empty."""
    name = key.removeprefix(NVIDIA)
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


HOUR = 3600.0
_SOURCE = "node labels of gpu-feature-discovery"
_EXPECTED = "complete, well-formed labels that agree with each other and with capacity"


def check_labels(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per accelerator node. ``now`` is Unix seconds. Nodes without any label of discovery are not judged."""
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        if labelled_by_amd(labels) and not discovered(labels):
            yield _amd(scope, node)
            continue
        about = About(subject(node), _SOURCE)
        if not discovered(labels):
            yield about.not_judged("GPU Feature Discovery wrote no labels here: clouds and other vendors do without")
            continue
        faults = [*gfd_problems(labels, view_of(scope, node)), *_against_capacity(scope, node)]
        if stale := _stale(scope, labels, now):
            faults.append(stale)
        count = gfd_count(labels)
        if faults:
            more = f" (and {len(faults) - 1} more: {'; '.join(faults[1:4])})" if len(faults) > 1 else ""
            message = f"{faults[0]}{more}: jobs and tools that rely on these labels are misled"
            yield about.bad(message, cause="FeatureLabelsWrong", observed=f"{count} labels; {faults[0]}", expected=_EXPECTED)
        elif scope.policy.advertisement.max_label_age_hours > 0 and TIMESTAMP not in labels:
            message = f"the policy limits the age of labels, and {TIMESTAMP} is absent (gfd.noTimestamp), so their age is unknown"
            yield about.undecided(message, cause="AgeUnknown")
        else:
            age = (
                ""
                if scope.policy.advertisement.max_label_age_hours
                else "; their age is not judged (policy advertisement.maxLabelAgeHours)"
            )
            yield about.ok(f"{count} labels agree", expected=f"{_EXPECTED}{age}")


def _amd(scope: Scope, node: Node) -> Finding:
    labels, source = node.metadata.label, "node labels of the AMD node labeller"
    faults = list(amd_problems(labels))
    faults += [
        f"capacity of {term.resource} is {term.observed} and {term.problem}"
        for term in amd_terms(labels, scope.device_capacity(node), [])
        if term.problem
    ]
    count = amd_count(labels)
    about = About(subject(node), source, _EXPECTED)
    if faults:
        message = f"{'; '.join(faults[:4])}: jobs and tools that rely on these labels are misled"
        return about.bad(message, cause="FeatureLabelsWrong", observed=f"{count} labels; {faults[0]}")
    return about.ok(f"{count} labels agree")


def _against_capacity(scope: Scope, node: Node) -> Iterator[str]:
    """Labels against what is advertised. A resource that is not advertised at all is ADV-01's and ADV-03's finding."""
    view = view_of(scope, node)
    if view.vgpu or split_of(node) or gke_terms(node.metadata.label, scope.device_capacity(node)):
        return
    for term in label_terms(view):
        if term.observed and not term.agrees:
            why = f": {term.problem}" if term.problem else f" ({term.source})"
            yield f"capacity of {term.resource} is {term.observed} and the labels give {term.formula}{why}"


def _stale(scope: Scope, labels: dict[str, str], now: float) -> str:
    limit = scope.policy.advertisement.max_label_age_hours
    written = number(labels.get(TIMESTAMP))
    if limit <= 0 or written is None:
        return ""
    hours = (now - written) / HOUR
    return f"{TIMESTAMP} is {hours:.1f} hours old, the policy allows {limit:g}" if hours > limit else ""
