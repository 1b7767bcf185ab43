"""Signals of nodes: what they advertise, whether they are in service, their labels, taints and conditions."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby, pairwise
from typing import Any, TypeVar

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.plan import PlanFacts
from chaos.observe.sampler import MEMORY, NodeHistory
from chaos.observe.view import NoData, Reading, Signal, View, target_gpu
from fixtures.kubernetes.models import Condition, Json
from fixtures.model import objects
from fixtures.model.devices.gpu_names import names_another, names_of, names_this
from fixtures.model.devices.mig_geometry import max_instances, profile_of
from fixtures.model.nodes.holds import STATE_LABEL, Kind
from fixtures.model.nodes.untyped_nodes import cordon, fault_conditions, is_leaving, product, work_of
from fixtures.model.nodes.work import Why
from fixtures.model.platform.agents import DRIVER_PAUSE, paused_agents
from fixtures.model.platform.remediators import BREAKER, breaker_status, fence_limit
from fixtures.model.standing import NODES, Difference, Kept, Standing, differences, kept_of
from fixtures.verdict.record import TargetKind

T = TypeVar("T")

MIG_CONFIG = "nvidia.com/mig.config"

OWN_LABELS = "gpu-conformance.io/"
"""What keys of this suite's own labels begin with: an owner's consent to experiments, and published verdicts."""

OTHERS_SECONDS, OTHERS_SECONDS_SIMULATED = 10.0, 1.0
"""How often, at most, the whole fleet is read: nobody may touch it, so a late look is as good."""


def amounts(reading: Reading, field: str) -> JsonValue:
    """``{node: {resource: count}}`` of the target nodes' devices: their ``capacity`` or ``allocatable``."""
    return {name: _devices(reading, node, field) for name, node in _targets(reading).items()}


def amount(reading: Reading, field: str) -> int:
    """Number of devices of the target nodes: in their ``capacity``, or ``allocatable``."""
    return sum(sum(_devices(reading, node, field).values()) for node in _targets(reading).values())


def gpus_out(reading: Reading) -> float:
    """How many GPUs' worth of the target node's devices are in its capacity and not allocatable; a part of a GPU is a fraction."""
    target = next((target for target in reading.plan.targets if target.kind == "nodes"), None)
    units = objects.number_of(target.facts.get("units")) if target else 0
    if not units:
        raise NoData("how many devices make a GPU was not known when the experiment was planned")
    return (amount(reading, "capacity") - amount(reading, "allocatable")) / units


def gpus_returned(reading: Reading) -> JsonValue:
    """Whether a device that was out of service came back, since the sampler began."""
    out = gpus_out(reading)
    worst: float = max(reading.memory.get("gpus.out", 0.0), out)
    reading.memory["gpus.out"] = worst
    return out < worst


def allocatable_fabric(reading: Reading) -> JsonValue:
    """``{resource: count}`` of what else than devices the target nodes' plugins advertise (``rdma/*`` and the like), summed."""
    facts, total = PlanFacts.of(reading.plan), dict[str, int]()
    for node in _targets(reading).values():
        for resource, value in objects.amounts_of(node, "allocatable").items():
            if facts.is_fabric(resource):
                total[resource] = total.get(resource, 0) + objects.number_of(value)
    return total


def registered_anew(reading: Reading) -> JsonValue:
    """Whether every target node is another object than was planned, with the labels and the people's taints it had then.

    Labels of this suite do not count: no kubelet and no cloud knows them, and the undo puts them back.
    """
    view = View.at(reading)
    for target in [target for target in reading.plan.targets if target.kind == "nodes"]:
        node = view.find("nodes", target.name)
        if node is None or objects.uid_of(node) == target.uid:
            return False
        labels, planned = objects.labels_of(node), dict(target.facts.get("labels") or {})
        kept = {key: value for key, value in planned.items() if key not in objects.VOLATILE_LABELS and not key.startswith(OWN_LABELS)}
        if any(labels.get(key) != value for key, value in kept.items()):
            return False
        had, has = target.facts.get("taints"), objects.taints_of(node)
        if sorted(map(_taint, objects.lasting_taints(has))) != sorted(map(_taint, objects.lasting_taints(had))):
            return False
    return True


def cordoned_by_another(reading: Reading) -> JsonValue:
    """Target nodes that neither remediation nor this suite cordoned, each with who did; sorted."""
    found = {name: _read(cordon, node) for name, node in _targets(reading).items()}
    others = {name: one for name, one in found.items() if one and one.kind in (Kind.OTHER, Kind.UNKNOWN)}
    return sorted(f"{name}: {one.owner or one.kind}" for name, one in others.items())


def taints(reading: Reading) -> JsonValue:
    """Taints of the target nodes, as ``key=value:effect``, sorted."""
    return sorted(_taint(taint) for node in _targets(reading).values() for taint in objects.taints_of(node))


def labels(reading: Reading) -> JsonValue:
    """``{node: {label: value}}`` of the target nodes, those left out that change by themselves."""
    return {name: _without_volatile(objects.labels_of(node)) for name, node in _targets(reading).items()}


def label_changes(reading: Reading) -> JsonValue:
    """How often :func:`labels` changed since the sampler began: what is lost and restored has changed twice, however soon."""
    seen = ([_digest(_without_volatile(one)) for one in states] for states in _label_states(reading))
    return sum(one != other for digests in seen for one, other in pairwise(digests))


def driver_pauses(reading: Reading) -> JsonValue:
    """How often agents of a target node were paused for another driver since the sampler began. Any other label says nothing of that."""
    paused = ([bool(paused_agents(one, DRIVER_PAUSE)) for one in states] for states in _label_states(reading))
    return sum(now and not before for states in paused for before, now in pairwise(states))


def label(reading: Reading, key: str) -> str:
    """A label of the target node; empty without."""
    return next((objects.labels_of(node).get(key, "") for node in _targets(reading).values()), "")


def layout_applied(reading: Reading) -> JsonValue:
    """Whether every target node offers the MIG devices that its label asks for, all of them and no other; null for a layout that is
    not known by its name (``all-1g.10gb``).
    """
    profile = label(reading, MIG_CONFIG).removeprefix("all-")
    facts = PlanFacts.of(reading.plan)
    for name, node in _targets(reading).items():
        most = max_instances(_read(product, node), profile)
        if not most:
            return None
        offers = objects.amounts_of(node, "allocatable")
        offered = {
            known: count for resource, amount in offers.items() if (known := profile_of(resource)) and (count := objects.number_of(amount))
        }
        if offered != {profile: most * len(facts.devices.get(name, ()))}:
            return False
    return True


def in_turn(reading: Reading, key: str) -> list[str]:
    """Values of a label that the target node has had since the sampler began, in order, each once in a row."""
    found = (labels[key] for states in _label_states(reading) for labels in states if labels.get(key))
    return [value for value, _ in groupby(found)]


def faults(reading: Reading) -> JsonValue:
    """Types of the target nodes' health conditions that tell a fault, sorted."""
    return sorted(found for node in _targets(reading).values() for found in _faults(node))


def _faults(node: Json) -> list[str]:
    return [item.type for item in _bad_conditions(node)]


def _bad_conditions(node: Json) -> list[Condition]:
    return _read(fault_conditions, node)


def _read(ask: Callable[[Json], T], node: Json) -> T:
    """An answer of the model about a node. Raises :class:`NoData` for a node that cannot be read."""
    try:
        return ask(node)
    except msgspec.ValidationError as error:
        raise NoData(f"node {objects.name_of(node)} cannot be read: {error}") from error


def fault_messages(reading: Reading) -> JsonValue:
    """Messages of the target nodes' health conditions that tell a fault."""
    return " | ".join(item.message for node in _targets(reading).values() for item in _bad_conditions(node))


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


_QUARANTINE = (Why.CORDONED, Why.TAINTED, Why.FAULT, Why.REPAIR)
REMEDIATION_ORDER = ("quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded")


def remediation_in_order(reading: Reading) -> JsonValue:
    """Whether the states seen so far are those of a repair that goes well, in order. A short one may lie between two samples."""
    left = iter(REMEDIATION_ORDER)
    return all(state in left for state in in_turn(reading, STATE_LABEL))


def quarantined(reading: Reading) -> JsonValue:
    """Nodes that are cordoned, tainted for a time, in repair or with a fault, sorted. One that joined since or leaves does not count."""
    facts, others = PlanFacts.of(reading.plan), joined_nodes(reading) | leaving(reading)
    try:
        works = work_of(View.at(reading).select("nodes"), facts.is_fence)
    except msgspec.ValidationError as error:
        raise NoData(f"nodes cannot be read: {error}") from error
    return sorted(name for name, work in works.items() if name not in others and work.first(*_QUARANTINE))


def breaker(reading: Reading) -> JsonValue:
    """``CLOSED`` or ``TRIPPED``. Raises :class:`NoData` where remediation has no such ConfigMap."""
    if status := breaker_status(_config_map(reading, BREAKER)):
        return status
    raise NoData(f"no ConfigMap {BREAKER} of remediation says whether its breaker is closed")


def beyond_limit(reading: Reading) -> JsonValue:
    """How many nodes more are cordoned than remediation's breaker allows. Raises :class:`NoData` where its settings do not say."""
    nodes = View.at(reading).select("nodes")
    limit = fence_limit(_config_map(reading, "fault-quarantine"), nodes)
    if limit is None:
        raise NoData("no ConfigMap fault-quarantine of remediation says how many nodes it may cordon")
    return max(sum(map(objects.is_unschedulable, nodes)) - limit, 0)


def _config_map(reading: Reading, name: str) -> Json | None:
    found = PlanFacts.of(reading.plan).components.get("remediation")
    return View.at(reading).find("configmaps", name, found.namespace) if found else None


def known_nodes(reading: Reading) -> set[str]:
    """Names of the nodes that there were when the sampler began."""
    first: set[str] = reading.memory.setdefault("nodes.known", {objects.name_of(node) for node in View.at(reading).select("nodes")})
    return first


def joined_nodes(reading: Reading) -> set[str]:
    """Names of nodes that joined the cluster since the sampler began: what is new on them is no damage."""
    first = known_nodes(reading)
    return {objects.name_of(node) for node in View.at(reading).select("nodes")} - first


def others(reading: Reading) -> JsonValue:
    """What is not as the sampler first saw it on nodes that are no target: ``node: field was … and is …``; sorted."""
    return listed(f"{one.subject}: gone" if not one.field else f"{one.subject}: {one}" for one in _changes_elsewhere(reading))


def out_of_service(reading: Reading) -> JsonValue:
    """Of :func:`others`, what takes a node out of service: gone, not Ready, cordoned, tainted against pods, or with fewer devices."""
    facts = PlanFacts.of(reading.plan)
    found = (one for one in _changes_elsewhere(reading) if _takes_out(one, facts))
    return listed(f"{one.subject}: gone" if not one.field else f"{one.subject}: {one}" for one in found)


def _takes_out(one: Difference, facts: PlanFacts) -> bool:
    if not one.field:
        return True
    if one.field == "status.conditions.Ready.status":
        return bool(one.after != "True")
    if one.field.startswith("spec.taints."):
        return one.field.endswith(".effect") and one.after in ("NoSchedule", "NoExecute")
    resource = one.field.removeprefix("status.allocatable.")
    fewer = resource != one.field and facts.is_device(resource) and objects.number_of(one.after) < objects.number_of(one.before)
    return fewer or (one.field == "spec.unschedulable" and one.after is True)


def _changes_elsewhere(reading: Reading) -> list[Difference]:
    """What is not as the sampler first saw it on nodes that are no target.

    A node that joins later is nobody's damage; one that leaves is, unless an autoscaler announced that. What somebody else wrote is theirs.
    """

    def read() -> list[Difference]:
        targets, memory = set(reading.plan.nodes), reading.memory
        nodes = [node for node in View.at(reading).select("nodes") if objects.name_of(node) not in targets]
        now = Standing(objects={objects.name_of(node): _kept(memory, node) for node in nodes})
        left = leaving(reading)
        first, since = memory.setdefault("nodes.first", (now, reading.now))
        gone = [Difference(subject=name, before="there", after="gone") for name in sorted(first.objects.keys() - now.objects.keys() - left)]
        return [*gone, *(one for one in differences(first, now, since) if not one.by and one.subject not in left)]

    found: list[Difference] = slowly(reading, "nodes.others", read)
    return found


LEAVING = "nodes.leaving"
"""Under this name a reading's memory holds them."""


def leaving(reading: Reading) -> set[str]:
    """Names of nodes that an autoscaler or the cloud takes away, or has taken away: what becomes of them is not the experiment's."""
    names: set[str] = reading.memory.setdefault(LEAVING, set())
    names |= {objects.name_of(node) for node in View.at(reading).select("nodes") if _read(is_leaving, node)}
    return names


def _kept(memory: dict[str, Any], node: Json) -> Kept:
    """What is kept of a node: a view gives the same object for the same text."""
    known: dict[str, tuple[Json, Kept]] = memory.setdefault("nodes.kept", {})
    name = objects.name_of(node)
    if name not in known or known[name][0] is not node:
        known[name] = (node, kept_of(NODES, node))
    return known[name][1]


MOST = 500
"""Entries that a signal lists. A sample has room for no more."""


def listed(found: Iterable[str]) -> list[str]:
    """The first of some texts in order, and how many more there are."""
    ordered = sorted(text[:200] for text in found)
    return [*ordered[:MOST], *([f"and {len(ordered) - MOST} more"] if len(ordered) > MOST else [])]


def slowly(reading: Reading, name: str, read: Callable[[], Any]) -> Any:
    """The value of ``read()``, asked for at most every ``OTHERS_SECONDS``: it reads what the experiment is not about, all of it."""
    kept = reading.memory.get(name)
    seconds = OTHERS_SECONDS if reading.plan.target_kind is TargetKind.LIVE else OTHERS_SECONDS_SIMULATED
    if kept is not None and time.monotonic() - kept[0] < seconds:
        return kept[1]
    reading.memory[name] = (time.monotonic(), read())
    return reading.memory[name][1]


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
        seen.setdefault(name, []).append(objects.labels_of(node))
    return list(seen.values())


def _devices(reading: Reading, node: Json, field: str) -> dict[str, int]:
    return objects.device_amounts(node, field, PlanFacts.of(reading.plan).is_device)


def _without_volatile(labels: dict[str, str]) -> dict[str, str]:
    """Labels that stay by themselves, without this suite's: its undo puts those back, and verifies it."""
    return {key: value for key, value in labels.items() if key not in objects.VOLATILE_LABELS and not key.startswith(OWN_LABELS)}


def _taint(taint: Json) -> str:
    return f"{objects.text_of(taint.get('key'))}={objects.text_of(taint.get('value'))}:{objects.text_of(taint.get('effect'))}"


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


SIGNALS: dict[str, Signal] = {
    "allocatable": partial(amounts, field="allocatable"),
    "allocatable.devices": partial(amount, field="allocatable"),
    "allocatable.fabric": allocatable_fabric,
    "gpus.out": gpus_out,
    "gpus.returned": gpus_returned,
    "capacity": partial(amounts, field="capacity"),
    "capacity.devices": partial(amount, field="capacity"),
    # Whether every target node is Ready.
    "node.ready": lambda reading: all(objects.condition(node, "Ready") == "True" for node in _targets(reading).values()),
    # Whether every target node has its Node object.
    "node.present": lambda reading: all(View.at(reading).find("nodes", name) is not None for name in reading.plan.nodes),
    # UIDs of the target nodes' objects.
    "node.uids": lambda reading: {name: objects.uid_of(node) for name, node in _targets(reading).items()},
    "node.registered.anew": registered_anew,
    # Boot ids of the target nodes: another one shows that the machine booted.
    "node.boots": lambda reading: {name: objects.boot_of(node) for name, node in _targets(reading).items()},
    # Whether a target node is cordoned.
    "node.unschedulable": lambda reading: any(map(objects.is_unschedulable, _targets(reading).values())),
    "node.cordoned.by.others": cordoned_by_another,
    "node.taints": taints,
    "node.labels": labels,
    # ``{node: {annotation: value}}`` of the target nodes.
    "node.annotations": lambda reading: {name: objects.annotations_of(node) for name, node in _targets(reading).items()},
    "node.labels.changes": label_changes,
    "node.driver.pauses": driver_pauses,
    # ``nvidia.com/gpu.deploy.*`` of the target nodes: what the operator runs there.
    "node.deploy": lambda reading: {
        key: value
        for node in _targets(reading).values()
        for key, value in objects.labels_of(node).items()
        if key.startswith("nvidia.com/gpu.deploy.")
    },
    "node.faults": faults,
    "node.fault.messages": fault_messages,
    # Whether the conditions that tell a fault name the targeted device, by UUID, PCI address or index.
    "node.faults.name.target": lambda reading: names_this(str(fault_messages(reading)), names_of(target_gpu(reading).facts)),
    "node.faults.of.others": faults_of_others,
    "mig.state": partial(label, key=f"{MIG_CONFIG}.state"),
    "mig.states": partial(in_turn, key=f"{MIG_CONFIG}.state"),
    "mig.config": partial(label, key=MIG_CONFIG),
    "mig.applied": layout_applied,
    "remediation.state": partial(label, key=STATE_LABEL),
    "remediation.history": partial(in_turn, key=STATE_LABEL),
    "remediation.in.order": remediation_in_order,
    "nodes.quarantined": quarantined,
    "breaker": breaker,
    "breaker.exceeded": beyond_limit,
    "nodes.others": others,
    "harm.nodes": out_of_service,
}
