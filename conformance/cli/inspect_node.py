"""Inspection of nodes of every vendor, with the arithmetic of ADV: all of capacity allocatable, and as many units as devices make."""

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs import node_text
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst
from fixtures.kubernetes.models import Node
from fixtures.model.demand.amounts import whole
from fixtures.model.devices import node_labels
from fixtures.model.devices.counts import PhysicalCount, physical_counts, terms_of
from fixtures.model.devices.node_advertisement import NodeAdvertisement, advertisement
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.nodes.accelerators import makers_served, marks_of, may_be_of_cpu
from fixtures.policy.model import Policy
from fixtures.text import typed
from fixtures.text.globs import matches

_POLICY = Policy()
_NVIDIA = "nvidia.com/"
_BY_CLAIM = re.compile(r"\.deploy\.dra-|dra-kubelet-plugin|dra-driver")

Verdict = tuple[Judged, str, list[InspectionFinding]]


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the text, taken apart."""

    text: node_text.NodeView
    node: Node
    view: NodeAdvertisement
    sources: list[PhysicalCount]

    @property
    def name(self) -> str:
        """Its name, if the text tells it."""
        return self.text.name or "node"

    @property
    def units(self) -> dict[str, int]:
        """Device resources of capacity."""
        return _units(self.text.capacity)


def _read(text: node_text.NodeView) -> _Node:
    node = _node(text)
    view = advertisement(text.labels, text.capacity, text.allocatable)
    return _Node(text=text, node=node, view=view, sources=physical_counts(node, view, _POLICY, []))


def _is_device(resource: str) -> bool:
    known = _POLICY.accelerators
    return matches(resource, known.resources) and not matches(resource, known.no_devices)


def _is_fabric(resource: str) -> bool:
    return matches(resource, _POLICY.network.resources)


def inspect_node(text: str) -> Inspection:
    """``node``: advertisement and label arithmetic of every accelerator node in the text. Raises ``Unreadable``."""
    views = node_text.parse_nodes(text)
    accelerators = [_read(view) for view in views if _is_accelerator_node(view)]
    judged = [(item, *_judge(item)) for item in accelerators]
    findings = [finding for _, _, _, found in judged for finding in found]
    facts: dict[str, object] = {"nodes": len(views), "acceleratorNodes": [_facts(item) for item in accelerators]}
    if not accelerators:
        message = f"{len(views)} node(s), none with labels or resources of an accelerator"
        return Inspection("node", Judged.UNDECIDABLE, "NO_DEVICES", message, facts, [])
    verdict = worst([each for _, each, _, _ in judged])
    code = next(code for _, each, code, _ in judged if each is verdict)
    if verdict is Judged.GOOD:
        message = "; ".join(f"{item.name}: {_words(item)}" for item in accelerators[:8])
        return Inspection("node", verdict, code, f"consistent: {message}", facts, findings)
    first = next(finding for finding in findings if finding.verdict is verdict)
    return Inspection("node", verdict, code, f"{first.subject}: {first.message}", facts, findings)


def _node(view: node_text.NodeView) -> Node:
    capacity, allocatable = dict(view.capacity or {}), dict(view.allocatable or {})
    metadata = {"name": view.name, "labels": dict(view.labels), "annotations": dict(view.annotations)}
    return typed.convert({"metadata": metadata, "status": {"capacity": capacity, "allocatable": allocatable}}, Node)


def _is_accelerator_node(view: node_text.NodeView) -> bool:
    names = (*view.labels, *(view.capacity or {}), *(view.allocatable or {}))
    return any(_NVIDIA in key for key in names) or any(map(_is_device, names)) or bool(_marks(_node(view)))


def _marks(node: Node) -> tuple[str, ...]:
    return marks_of(node, _is_device, lambda text: matches(text, _POLICY.accelerators.marks))


def _units(quantities: Mapping[str, str] | None) -> dict[str, int]:
    return {name: whole(value) for name, value in sorted((quantities or {}).items()) if _is_device(name)}


def _words(item: _Node) -> str:
    expected = node_labels.expectations(item.view) or {n: u for n, u in item.units.items() if u}
    return ", ".join(f"{name} {units}" for name, units in sorted(expected.items()))


def _facts(item: _Node) -> dict[str, object]:
    text, node = item.text, item.view
    return {
        "name": text.name,
        "form": text.form,
        "product": node.gpu.product.text,
        "model": node.gpu.product.model,
        "count": node.gpu.count,
        "replicas": node.gpu.replicas,
        "shared": node.gpu.product.shared or node.gpu.factor > 1,
        "renamed": node.gpu.renamed,
        "migStrategy": node.strategy,
        "migConfig": node.mig_config,
        "migConfigState": node.mig_config_state,
        "vgpu": node.vgpu,
        "expected": node_labels.expectations(node),
        "capacity": dict(node.capacity) | item.units if text.capacity is not None else None,
        "allocatable": dict(node.allocatable) | _units(text.allocatable) if text.allocatable is not None else None,
        "counts": {source.source: source.devices for source in item.sources},
    }


def _judge(item: _Node) -> Verdict:
    """By the labels of GPU Feature Discovery where they are, else by whatever else counts devices."""
    name, text, node = item.name, item.text, item.view
    if node.vgpu:
        return _undecided(name, "VIRTUAL_GPU", "vGPU guest: MIG, GPUDirect RDMA and DCGM profiling do not apply")
    wrong = [
        InspectionFinding(
            name, Judged.BAD, f"{fault.what} {fault.observed}, expected {fault.expected} ({fault.source})", fault.observed, fault.expected
        )
        for fault in node_labels.inconsistencies(node, capacity=text.capacity is not None, allocatable=text.allocatable is not None)
    ]
    if node.mig_config_state == "failed":
        wrong.append(InspectionFinding(name, Judged.BAD, f"mig.config {node.mig_config} failed: labels show the last applied geometry"))
    if wrong and (why := _elsewhere(item)):
        return _undecided(name, "OFFERED_ELSEWHERE", why)
    if split := _split(item):
        short = _shortfalls(name, text)
        return (Judged.BAD, "INCONSISTENT", short) if short else _undecided(name, "SPLIT_BY_SCHEDULER", split)
    stated = {finding.message.split(",")[0] for finding in wrong}
    wrong += [finding for finding in _shortfalls(name, text) if finding.message.split(",")[0] not in stated]
    wrong += _disagreements(item)
    if not node.labelled and any(item.units.values()):
        wrong += _wrong_terms(item)
    if wrong:
        return Judged.BAD, "INCONSISTENT", wrong
    if node.mig_config_state not in ("", "success"):
        return _undecided(name, "MIG_CONFIG_CHANGING", f"mig.config.state is {node.mig_config_state}: the node is changing")
    return (Judged.GOOD, "CONSISTENT", []) if node.labelled else _judge_advertised(item)


def _undecided(name: str, code: str, message: str) -> Verdict:
    return Judged.UNDECIDABLE, code, [InspectionFinding(name, Judged.UNDECIDABLE, message)]


def _elsewhere(item: _Node) -> str:
    """Why a node may offer nothing by a device plugin although it has devices; empty where nothing says so."""
    if any(item.units.values()):
        return ""
    labels = item.text.labels
    if (config := labels.get("nvidia.com/gpu.workload.config", "")).startswith("vm-"):
        return f"nvidia.com/gpu.workload.config is {config}: its devices are for virtual machines"
    if any(_BY_CLAIM.search(key) and value == "true" for key, value in labels.items()):
        return "its labels speak of a DRA driver: its devices may be offered in ResourceSlices"
    return ""


def _split(item: _Node) -> str:
    """That a scheduler's own plugin offers parts of devices, which capacity counts; empty where nothing says so."""
    if (split := split_of(item.node)) is not None:
        return f"HAMi splits its devices ({split.key}): {split.doubt or split.formula + ' ' + split.resource}; capacity counts the parts"
    return "HAMi's annotation says that it splits the devices: capacity counts the parts" if item.text.split_by_scheduler else ""


def _shortfalls(name: str, view: node_text.NodeView) -> list[InspectionFinding]:
    """ADV-02 for devices of every vendor, and the same of fabric resources: what is not allocatable no pod gets."""
    if view.capacity is None or view.allocatable is None:
        return []
    found = []
    for resource in sorted({*view.capacity, *view.allocatable}):
        have, can = whole(view.capacity.get(resource)), whole(view.allocatable.get(resource))
        if have != can and (_is_device(resource) or _is_fabric(resource)):
            why = f"{have - can} unhealthy or away" if can < have else "never above capacity"
            message = f"allocatable {resource} {can}, expected {have} (capacity; {why})"
            found.append(InspectionFinding(name, Judged.BAD, message, str(can), str(have)))
    return found


def _disagreements(item: _Node) -> list[InspectionFinding]:
    """Sources that count different numbers of devices."""
    if len({source.devices for source in item.sources}) < 2:
        return []
    observed = ", ".join(f"{source.devices} by {source.source}" for source in item.sources)
    return [InspectionFinding(item.name, Judged.BAD, f"its sources count different numbers of devices: {observed}", observed, "one number")]


def _wrong_terms(item: _Node) -> list[InspectionFinding]:
    """ADV-03: what its capacity is not a product of."""
    return [
        InspectionFinding(
            item.name,
            Judged.BAD,
            f"capacity {term.resource} {term.observed}, expected {term.formula} ({term.problem or term.source})",
            str(term.observed),
            term.formula,
        )
        for term in terms_of(item.node, item.view, item.units, item.sources)
        if not term.agrees
    ]


def _judge_advertised(item: _Node) -> Verdict:
    """ADV-01, and what is left of ADV-03 without GPU Feature Discovery."""
    name, text = item.name, item.text
    units = {resource: count for resource, count in item.units.items() if count}
    if text.capacity is None:
        return _undecided(name, "NO_CAPACITY", "the text holds no capacity: nothing to compare its labels with")
    if not units:
        if why := _elsewhere(item):
            return _undecided(name, "OFFERED_ELSEWHERE", why)
        marks = _marks(item.node)
        if not marks:
            return _undecided(name, "NO_DEVICE_COUNT", "no device resource and nothing that says that it has devices")
        if all(may_be_of_cpu(mark, makers_served(text.labels)) for mark in marks):
            return _undecided(name, "NO_DEVICE_COUNT", f"no device resource, and {marks[0]} may be of its CPU's own graphics")
        message = f"it advertises no device and {marks[0]} says that it has some: no plugin has registered with the kubelet"
        return Judged.BAD, "NOT_ADVERTISED", [InspectionFinding(name, Judged.BAD, message, "nothing", "a device resource > 0")]
    terms = terms_of(item.node, item.view, units, item.sources)
    if terms:
        notes = [InspectionFinding(name, Judged.GOOD, f"{term.shown} ({term.source})") for term in terms]
        return Judged.GOOD, "CONSISTENT", notes
    gpu = item.view.gpu
    shared = gpu.factor > 1 or gpu.product.shared
    if gpu.factor > 1 and (have := units.get(gpu.advertised_as, 0)):
        if have % gpu.factor:
            message = f"capacity {gpu.advertised_as} {have} is no multiple of replicas {gpu.factor}"
            return Judged.BAD, "INCONSISTENT", [InspectionFinding(name, Judged.BAD, message, str(have), f"a multiple of {gpu.factor}")]
        message = f"no gpu.count: {have} is consistent if the node has {have // gpu.factor} device(s) x {gpu.factor} replicas"
        return _undecided(name, "NO_DEVICE_COUNT", message)
    offered = ", ".join(f"{count} x {resource}" for resource, count in units.items())
    if text.allocatable is None or shared:
        kind = "shared" if shared else "exclusive"
        return _undecided(name, "NO_DEVICE_COUNT", f"no gpu.count: {offered} cannot be checked ({kind})")
    message = f"{offered}, all allocatable; no label counts its devices, so a lost one would not show"
    return Judged.GOOD, "ADVERTISED", [InspectionFinding(name, Judged.GOOD, message)]
