"""Signals of nodes: what they advertise, whether they are in service, their labels, taints and conditions."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import TypeVar

import msgspec

from chaos.cluster.gpu_names import names_another, names_of, names_this
from chaos.cluster.node_work import cordon, fault_conditions, is_unschedulable, work_of
from chaos.model.conditions import JsonValue
from chaos.model.plan import PlanFacts
from chaos.observe.sampler import MEMORY, NodeHistory
from chaos.observe.view import NoData, Reading, View, condition, dig, items_of, labels_of, name_of, number_of, text_of, uid_of
from fixtures.kubernetes.models import Condition, Json
from fixtures.model.nodes.holds import STATE_LABEL, Kind
from fixtures.model.nodes.work import Why
from fixtures.verdict.record import TargetKind

T = TypeVar("T")

VOLATILE_LABELS = frozenset({"nvidia.com/gfd.timestamp"})
"""Labels that change without anything having changed: GFD writes the time of its start."""

OWN_LABELS = "gpu-conformance.io/"
"""What keys of this suite's own labels begin with: an owner's consent to experiments, and published verdicts."""

OTHERS_SECONDS, OTHERS_SECONDS_SIMULATED = 10.0, 1.0
"""How often, at most, the whole fleet is read: nobody may touch it, so a late look is as good."""


def allocatable(reading: Reading) -> JsonValue:
    """``{node: {resource: count}}`` of the target nodes' devices."""
    return {name: _devices(reading, node, "allocatable") for name, node in _targets(reading).items()}


def capacity(reading: Reading) -> JsonValue:
    """As :func:`allocatable`, of the capacity."""
    return {name: _devices(reading, node, "capacity") for name, node in _targets(reading).items()}


def allocatable_devices(reading: Reading) -> JsonValue:
    """Number of allocatable devices of the target nodes."""
    return sum(sum(_devices(reading, node, "allocatable").values()) for node in _targets(reading).values())


def capacity_devices(reading: Reading) -> JsonValue:
    """Number of devices in the target nodes' capacity."""
    return sum(sum(_devices(reading, node, "capacity").values()) for node in _targets(reading).values())


def gpus_out(reading: Reading) -> JsonValue:
    """How many GPUs' worth of the target node's devices are in its capacity and not allocatable; a part of a GPU is a fraction."""
    target = next((target for target in reading.plan.targets if target.kind == "nodes"), None)
    units = number_of(target.facts.get("units")) if target else 0
    if not units:
        raise NoData("how many devices make a GPU was not known when the experiment was planned")
    missing = sum(
        sum(_devices(reading, node, "capacity").values()) - sum(_devices(reading, node, "allocatable").values())
        for node in _targets(reading).values()
    )
    return missing / units


def gpus_returned(reading: Reading) -> JsonValue:
    """Whether a device that was out of service came back, since the sampler began."""
    out = gpus_out(reading)
    worst: float = reading.memory.get("gpus.out", 0.0)
    if isinstance(out, float):
        worst = reading.memory["gpus.out"] = max(worst, out)
        return out < worst
    return False


def allocatable_fabric(reading: Reading) -> JsonValue:
    """``{resource: count}`` of what else than devices the target nodes' plugins advertise (``rdma/*`` and the like), summed."""
    facts, total = PlanFacts.of(reading.plan), dict[str, int]()
    for node in _targets(reading).values():
        for resource, value in dig(node, "status", "allocatable").items():
            if "/" in resource and not facts.is_device(resource) and not resource.startswith(("hugepages", "attachable-volumes")):
                total[resource] = total.get(resource, 0) + number_of(value)
    return total


def ready(reading: Reading) -> JsonValue:
    """Whether every target node is Ready."""
    return all(condition(node, "Ready") == "True" for node in _targets(reading).values())


def present(reading: Reading) -> JsonValue:
    """Whether every target node has its Node object."""
    return all(View.at(reading).find("nodes", name) is not None for name in reading.plan.nodes)


def node_uids(reading: Reading) -> JsonValue:
    """UIDs of the target nodes' objects."""
    return {name: uid_of(node) for name, node in _targets(reading).items()}


def registered_anew(reading: Reading) -> JsonValue:
    """Whether every target node is another object than was planned, with the labels and the people's taints it had then.

    Labels of this suite do not count: no kubelet and no cloud knows them, and the undo puts them back.
    """
    view = View.at(reading)
    for target in [target for target in reading.plan.targets if target.kind == "nodes"]:
        node = view.find("nodes", target.name)
        if node is None or uid_of(node) == target.uid:
            return False
        labels, planned = labels_of(node), dict(target.facts.get("labels") or {})
        kept = {key: value for key, value in planned.items() if key not in VOLATILE_LABELS and not key.startswith(OWN_LABELS)}
        if any(labels.get(key) != value for key, value in kept.items()):
            return False
        if _people_taints(dig(node, "spec").get("taints")) != _people_taints(target.facts.get("taints")):
            return False
    return True


def _people_taints(taints: object) -> list[str]:
    """Taints that the cluster itself does not write."""
    return sorted(_taint(taint) for taint in items_of(taints) if not text_of(taint.get("key")).startswith("node.kubernetes.io/"))


def unschedulable(reading: Reading) -> JsonValue:
    """Whether a target node is cordoned."""
    return any(map(is_unschedulable, _targets(reading).values()))


def cordoned_by_another(reading: Reading) -> JsonValue:
    """Target nodes that neither remediation nor this suite cordoned, each with who did; sorted."""
    found = {name: _read(cordon, node) for name, node in _targets(reading).items()}
    others = {name: one for name, one in found.items() if one and one.kind in (Kind.OTHER, Kind.UNKNOWN)}
    return sorted(f"{name}: {one.owner or one.kind}" for name, one in others.items())


def taints(reading: Reading) -> JsonValue:
    """Taints of the target nodes, as ``key=value:effect``, sorted."""
    return sorted(_taint(taint) for node in _targets(reading).values() for taint in items_of(dig(node, "spec").get("taints")))


def labels(reading: Reading) -> JsonValue:
    """A digest of the target nodes' labels, those left out that change by themselves."""
    return _digest({name: _lasting(node) for name, node in _targets(reading).items()})


def label_changes(reading: Reading) -> JsonValue:
    """How often :func:`labels` changed since the sampler began: what is lost and restored has changed twice, however soon."""
    seen = ([_digest(_without_volatile(one)) for one in states] for states in _label_states(reading))
    return sum(one != other for digests in seen for one, other in pairwise(digests))


def deploy_labels(reading: Reading) -> JsonValue:
    """``nvidia.com/gpu.deploy.*`` of the target nodes: what the operator runs there."""
    return {
        key: value
        for node in _targets(reading).values()
        for key, value in labels_of(node).items()
        if key.startswith("nvidia.com/gpu.deploy.")
    }


def mig_state(reading: Reading) -> JsonValue:
    """``nvidia.com/mig.config.state`` of the target node; empty without."""
    return next((labels_of(node).get("nvidia.com/mig.config.state", "") for node in _targets(reading).values()), "")


def mig_states(reading: Reading) -> JsonValue:
    """Every :func:`mig_state` of the target node since the sampler began, in order."""
    return _in_turn(reading, ("nvidia.com/mig.config.state",))


def mig_config(reading: Reading) -> JsonValue:
    """``nvidia.com/mig.config`` of the target node; empty without."""
    return next((labels_of(node).get("nvidia.com/mig.config", "") for node in _targets(reading).values()), "")


def faults(reading: Reading) -> JsonValue:
    """Types of the target nodes' health conditions that tell a fault, sorted."""
    return sorted(found for node in _targets(reading).values() for found in faults_of(node))


def faults_of(node: Json) -> list[str]:
    """Types of a node's conditions that tell a fault."""
    return [item.type for item in _bad_conditions(node)]


def _bad_conditions(node: Json) -> list[Condition]:
    return _read(fault_conditions, node)


def _read(ask: Callable[[Json], T], node: Json) -> T:
    """An answer of the model about a node. Raises :class:`NoData` for a node that cannot be read."""
    try:
        return ask(node)
    except msgspec.ValidationError as error:
        raise NoData(f"node {name_of(node)} cannot be read: {error}") from error


def fault_messages(reading: Reading) -> JsonValue:
    """Messages of the target nodes' health conditions that tell a fault."""
    return " | ".join(item.message for node in _targets(reading).values() for item in _bad_conditions(node))


def faults_name_target(reading: Reading) -> JsonValue:
    """Whether the conditions that tell a fault name the targeted device, by UUID, PCI address or index."""
    target = next((target for target in reading.plan.targets if target.facts.get("uuid")), None)
    if target is None:
        raise NoData("the plan names no device")
    return names_this(str(fault_messages(reading)), names_of(target.facts))


def faults_of_others(reading: Reading) -> JsonValue:
    """Conditions of the target nodes that tell a fault of another device than the experiment's, since the sampler began; sorted."""
    names = [name for target in reading.plan.targets for name in names_of(target.facts)]
    now = {
        f"{name} {item.type}: {item.message[:200]}"
        for name, node in _targets(reading).items()
        for item in _bad_conditions(node)
        if names_another(item.message, names)
    }
    return sorted(now - reading.memory.setdefault("node.faults.first", now))


def remediation_state(reading: Reading) -> JsonValue:
    """The remediation system's label on the target node; empty without."""
    return next((labels_of(node).get(STATE_LABEL, "") for node in _targets(reading).values()), "")


def remediation_history(reading: Reading) -> JsonValue:
    """States of remediation on the target node since the sampler began, in order, each once in a row."""
    return _in_turn(reading, (STATE_LABEL,))


_QUARANTINE = (Why.CORDONED, Why.TAINTED, Why.FAULT, Why.REPAIR)
REMEDIATION_ORDER = ("quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded")


def remediation_in_order(reading: Reading) -> JsonValue:
    """Whether the states seen so far are those of a repair that goes well, in order. A short one may lie between two samples."""
    left = iter(REMEDIATION_ORDER)
    return all(state in left for state in remediation_history(reading))


def quarantined(reading: Reading) -> JsonValue:
    """Nodes that are cordoned, tainted for a time, in repair or with a fault, sorted. One that joined since does not count."""
    facts, joined = PlanFacts.of(reading.plan), joined_nodes(reading)
    try:
        works = work_of(View.at(reading).select("nodes"), facts.is_fence)
    except msgspec.ValidationError as error:
        raise NoData(f"nodes cannot be read: {error}") from error
    return sorted(name for name, work in works.items() if name not in joined and work.first(*_QUARANTINE))


def joined_nodes(reading: Reading) -> set[str]:
    """Names of nodes that joined the cluster since the sampler began: what is new on them is no damage."""
    now = {name_of(node) for node in View.at(reading).select("nodes")}
    first: set[str] = reading.memory.setdefault("nodes.known", now)
    return now - first


def others(reading: Reading) -> JsonValue:
    """Nodes that are no target and are not as the sampler first saw them: labels, taints, cordon, readiness, faults told, devices; sorted.

    A node that joins later is nobody's damage; one that leaves is.
    """

    def read() -> JsonValue:
        targets = set(reading.plan.nodes)
        now = {name_of(node): digest_of(reading, node) for node in View.at(reading).select("nodes") if name_of(node) not in targets}
        first: dict[str, str] = reading.memory.setdefault("nodes.first", now)
        return sorted(name for name, digest in first.items() if now.get(name) != digest)

    return slowly(reading, "nodes.others", read)


def digest_of(reading: Reading, node: Json) -> str:
    """What must not change about a node that is left alone."""
    spec = dig(node, "spec")
    return _digest(
        {
            "labels": _lasting(node),
            "taints": sorted(_taint(taint) for taint in items_of(spec.get("taints"))),
            "unschedulable": is_unschedulable(node),
            "ready": condition(node, "Ready"),
            "faults": sorted(faults_of(node)),
            "devices": _devices(reading, node, "allocatable"),
        }
    )


def slowly(reading: Reading, name: str, read: object) -> JsonValue:
    """The value of ``read()``, asked for at most every ``OTHERS_SECONDS``: it reads what the experiment is not about, all of it."""
    kept = reading.memory.get(name)
    seconds = OTHERS_SECONDS if reading.plan.target_kind is TargetKind.LIVE else OTHERS_SECONDS_SIMULATED
    if kept is not None and time.monotonic() - kept[0] < seconds:
        return kept[1]
    value: JsonValue = read()  # type: ignore[operator]
    reading.memory[name] = (time.monotonic(), value)
    return value


def _targets(reading: Reading) -> dict[str, Json]:
    view, found = View.at(reading), dict[str, Json]()
    for name in reading.plan.nodes:
        node = view.find("nodes", name)
        if node is None:
            raise NoData(f"node {name} is not there")
        found[name] = node
    if not found:
        raise NoData("the plan names no node")
    return found


def _label_states(reading: Reading) -> list[list[dict[str, str]]]:
    """The labels that each target node had in turn: as its watch tells, or as samples saw them where nothing watches."""
    history: NodeHistory | None = reading.memory.get(MEMORY)
    if history is not None:
        return [history.labels(name) for name in reading.plan.nodes]
    seen: dict[str, list[dict[str, str]]] = reading.memory.setdefault("node.labels.seen", {})
    for name, node in _targets(reading).items():
        seen.setdefault(name, []).append(labels_of(node))
    return list(seen.values())


def _in_turn(reading: Reading, keys: tuple[str, ...]) -> list[str]:
    """Values of the first of the labels that a target node has, in order, each once in a row."""
    found = (labels[key] for states in _label_states(reading) for labels in states for key in keys if labels.get(key))
    return [value for value, _ in groupby(found)]


def _devices(reading: Reading, node: Json, field: str) -> dict[str, int]:
    facts = PlanFacts.of(reading.plan)
    return {name: number_of(value) for name, value in sorted(dig(node, "status", field).items()) if facts.is_device(name)}


def _lasting(node: Json) -> dict[str, str]:
    return _without_volatile(labels_of(node))


def _without_volatile(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in VOLATILE_LABELS}


def _taint(taint: Json) -> str:
    return f"{text_of(taint.get('key'))}={text_of(taint.get('value'))}:{text_of(taint.get('effect'))}"


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


SIGNALS = {
    "allocatable": allocatable,
    "allocatable.devices": allocatable_devices,
    "allocatable.fabric": allocatable_fabric,
    "gpus.out": gpus_out,
    "gpus.returned": gpus_returned,
    "capacity": capacity,
    "capacity.devices": capacity_devices,
    "node.ready": ready,
    "node.present": present,
    "node.uids": node_uids,
    "node.registered.anew": registered_anew,
    "node.unschedulable": unschedulable,
    "node.cordoned.by.others": cordoned_by_another,
    "node.taints": taints,
    "node.labels": labels,
    "node.labels.changes": label_changes,
    "node.deploy": deploy_labels,
    "node.faults": faults,
    "node.fault.messages": fault_messages,
    "node.faults.name.target": faults_name_target,
    "node.faults.of.others": faults_of_others,
    "mig.state": mig_state,
    "mig.states": mig_states,
    "mig.config": mig_config,
    "remediation.state": remediation_state,
    "remediation.history": remediation_history,
    "remediation.in.order": remediation_in_order,
    "nodes.quarantined": quarantined,
    "nodes.others": others,
}
