"""ADV-04: what feature labels of NVIDIA and AMD say, compared with each other, with capacity and with the clock.

Which labels AMD's node labeller writes is a choice of flags: none is required.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/labels.md#product-label, docs/facts/vendors-and-clouds.md#amd.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from conformance.common_findings import overdue
from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import Node
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import amd_terms, gke_terms, label_terms, number
from fixtures.model.devices.node_advertisement import NodeAdvertisement
from fixtures.model.devices.node_labels import sharing_inconsistencies, strategy_inconsistencies, view_of
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.platform.agents import agents_if_read, is_ready
from fixtures.text import yaml_text
from fixtures.text.globs import matches
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding

AMD = "amd.com/gpu."
AMD_LEGACY = f"beta.{AMD}"
NVIDIA = "nvidia.com/"
TIMESTAMP = f"{NVIDIA}gfd.timestamp"
_GPU = f"{NVIDIA}gpu."
_CUDA = f"{NVIDIA}cuda."
_OF_GFD = (f"{_GPU}count", f"{_GPU}replicas", f"{_GPU}memory", f"{_GPU}family", f"{_GPU}compute.major", f"{_GPU}machine", TIMESTAMP)
_SIZE = re.compile(r"(\d{2,3})GB\Z")


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``labels.yaml``, which says what each part is."""

    required: tuple[str, ...]
    twins: dict[str, str]
    either: tuple[str, ...]
    nvidia: tuple[tuple[str, str, str], ...]
    amd: tuple[tuple[str, str, str], ...]
    vram: dict[str, int]
    words: dict[str, tuple[str, ...]]
    compute: dict[str, str]


_RULES = yaml_text.packaged(Path(__file__).with_name("labels.yaml"), _Rules)
_FAMILIES = {word: family for family, words in _RULES.words.items() for word in words}


@lru_cache(maxsize=8192)  # nodes of a cluster have the same labels
def _misshapen(key: str, value: str) -> str:
    """What is wrong with the shape of a label's value, or empty."""
    shapes = _RULES.nvidia if key.startswith(NVIDIA) else _RULES.amd
    name = key.removeprefix(NVIDIA).removeprefix(AMD_LEGACY).removeprefix(AMD)
    rule = next(((shape, words) for which, shape, words in shapes if re.fullmatch(which, name)), None)
    return f"{key} is {value!r}, which is not {rule[1]}" if rule is not None and not re.fullmatch(rule[0], value) else ""


def amd_problems(labels: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: malformed, or contradicting each other."""
    for name, _, _ in _RULES.amd:
        written = [key for key in (f"{AMD}{name}", f"{AMD_LEGACY}{name}") if key in labels]
        yield from filter(None, (_misshapen(key, labels[key]) for key in written))
        new, old = labels.get(f"{AMD}{name}"), labels.get(f"{AMD_LEGACY}{name}")
        if new is not None and old is not None and new != old:
            yield f"{AMD}{name} is {new!r} and its legacy twin is {old!r}"
    product, vram = labels.get(f"{AMD}product-name", ""), labels.get(f"{AMD}vram", "")
    size = next((size for model, size in _RULES.vram.items() if model in product), 0)
    partition = labels.get(f"{AMD}compute-memory-partition", "spx").lower()
    if size and re.fullmatch(r"\d{1,4}G", vram) and partition.startswith("spx") and abs(int(vram[:-1]) - size) > 0.1 * size:
        yield f"{AMD}product-name {product!r} has {size} GB and {AMD}vram says {vram}"


def discovered(labels: Mapping[str, str]) -> bool:
    """Whether GPU Feature Discovery wrote labels on the node. ``gpu.present`` and a lone product are set by clouds and people too."""
    return any(key in labels for key in _OF_GFD) or bool(keys_with(labels, _CUDA))


def gfd_problems(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    """What is wrong with the labels by themselves, one clause each: missing, malformed, contradicting. ``view``: the same taken apart."""
    yield from _missing_labels(labels, view)
    yield from (problem for key in sorted(labels) if key.startswith(NVIDIA) and (problem := _misshapen(key, labels[key])))
    for item in (*sharing_inconsistencies(view), *strategy_inconsistencies(view)):
        yield f"{item.what.removeprefix('label ')} is {item.observed!r}, expected {item.expected} ({item.source})"
    yield from _driver_parts(labels)
    yield from _product(labels, view)


def _missing_labels(labels: Mapping[str, str], view: NodeAdvertisement) -> Iterator[str]:
    if view.vgpu:
        return
    wanted: list[tuple[str, ...]] = [(f"{_GPU}{name}",) for name in _RULES.required]
    wanted += [(f"{_CUDA}{new}", f"{_CUDA}{_RULES.twins[new]}") for new in _RULES.either]
    wanted += [(f"{entry.resource}.{name}",) for entry in view.mig for name in ("product", "count", "replicas")]
    yield from (f"{forms[0]} is missing" for forms in wanted if not any(form in labels for form in forms))


def _driver_parts(labels: Mapping[str, str]) -> Iterator[str]:
    for new, old in _RULES.twins.items():
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
    capability = f"{labels.get(f'{_GPU}compute.major', '')}.{labels.get(f'{_GPU}compute.minor', '')}"
    words = product.model.split("-")
    named = next((_FAMILIES[word] for word in words if word in _FAMILIES), "")
    if named and family and family != named:
        yield f"{_GPU}product {product.text!r} is of family {named} and {_GPU}family says {family!r}"
    computed = _RULES.compute.get(capability) or _RULES.compute.get(capability.partition(".")[0], "")
    if computed and family and family != computed:
        yield f"compute capability {capability} is of family {computed} and {_GPU}family says {family!r}"
    size = next((int(match[1]) for word in words if (match := _SIZE.match(word))), 0)
    memory = labels.get(f"{_GPU}memory", "")
    # 480GB in the name of a Grace Hopper is the memory of its CPU
    if size and size != 480 and not product.mig_profile and not product.mig_invalid and re.fullmatch(r"\d{1,12}", memory):
        gib = int(memory) / 1024
        if abs(gib - size) > 0.2 * size:
            yield f"{_GPU}product {product.text!r} names {size} GB and {_GPU}memory says {memory} MiB"


HOUR = 3600.0
_SOURCE = "node labels of gpu-feature-discovery"
_EXPECTED = "complete, well-formed labels that agree with each other and with capacity"


def check_labels(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per accelerator node. One without any label of discovery is judged where an agent runs that writes them."""
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        about = About(subject(node), _SOURCE)
        if not discovered(labels) and keys_with(labels, AMD, AMD_LEGACY):
            yield _amd(scope, node)
            continue
        if not discovered(labels):
            yield _unlabelled(scope, node, now)
            continue
        faults = [*gfd_problems(labels, view_of(scope, node)), *_against_capacity(scope, node)]
        if stale := _stale(scope, labels, now):
            faults.append(stale)
        own = keys_with(labels, _GPU, _CUDA, f"{NVIDIA}mig", f"{NVIDIA}mps.", f"{NVIDIA}vgpu.", TIMESTAMP)
        count = sum(not key.startswith(f"{_GPU}deploy.") for key in own)
        if faults:
            more = f" (and {len(faults) - 1} more: {'; '.join(faults[1:4])})" if len(faults) > 1 else ""
            message = f"{faults[0]}{more}: jobs and tools that rely on these labels are misled"
            yield about.bad(message, cause="FeatureLabelsWrong", observed=f"{count} labels; {faults[0]}", expected=_EXPECTED)
        elif scope.policy.advertisement.max_label_age_hours > 0 and TIMESTAMP not in labels:
            message = f"the policy limits the age of labels, and {TIMESTAMP} is absent (gfd.noTimestamp), so their age is unknown"
            yield about.undecided(message, cause="AgeUnknown")
        else:
            judged = scope.policy.advertisement.max_label_age_hours
            age = "" if judged else "; their age is not judged (policy advertisement.maxLabelAgeHours)"
            yield about.ok(f"{count} labels agree", expected=f"{_EXPECTED}{age}")


_DISCOVERY = {"nvidia.com/": "*gpu-feature-discovery*", "amd.com/": "*node-labeller*"}
"""Agents that write labels about devices, by what the names of these begin with."""


def _unlabelled(scope: Scope, node: Node, now: float) -> Finding:
    """A node without labels of discovery: nothing is wrong with that unless an agent runs there to write them."""
    about, devices = About(subject(node), _SOURCE, _EXPECTED), [name for name, count in scope.device_capacity(node).items() if count]
    names = [name for prefix, name in _DISCOVERY.items() if any(device.startswith(prefix) for device in devices)]
    pods = {item.daemonset.name: item.pods[node.name] for item in agents_if_read(scope) if node.name in item.pods}
    running = [(name, pod) for name, pod in pods.items() if matches(name, names) and is_ready(pod)]
    if not running:
        return about.not_judged("GPU Feature Discovery wrote no labels here: clouds and other vendors do without")
    name, pod = running[0]
    state, limit = f"{name} runs here and none of its labels is on the node", scope.policy.operators.rollout_minutes * 60
    age = overdue(about, unix(pod.metadata.creation_timestamp), now, limit, state, cause="FeatureLabelsWrong")
    if isinstance(age, Finding):
        return age
    message = f"{state} after {duration(age)}: it finds nothing, or its labels are refused; jobs and tools that rely on them are misled"
    return about.bad(message, cause="FeatureLabelsWrong", observed="no label of discovery")


def _amd(scope: Scope, node: Node) -> Finding:
    labels, source = node.metadata.label, "node labels of the AMD node labeller"
    faults = list(amd_problems(labels))
    faults += [
        f"capacity of {term.resource} is {term.observed} and {term.problem}"
        for term in amd_terms(labels, scope.device_capacity(node), [])
        if term.problem
    ]
    count = len(keys_with(labels, AMD, AMD_LEGACY))
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
