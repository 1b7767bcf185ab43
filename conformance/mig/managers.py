"""MIG-01: what the MIG manager, vGPU's and AMD's managers report of the layout that a label asks for, and since when.

Facts: docs/facts/mig.md#mig-manager, docs/facts/mig.md#other-managers, docs/facts/labels.md#operator-labels.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import AMD_PARTITION, AMD_PARTITION_LABELS, TIMES, amd_units, model_of, physical_counts
from fixtures.model.devices.mig_nodes import CONFIG, STATE
from fixtures.model.devices.node_labels import view_of
from fixtures.model.facts import said
from fixtures.model.nodes.accelerators import type_of
from fixtures.model.nodes.holds import label, last_write
from fixtures.model.platform.agents import DEPLOY, paused_agents
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.json_text import NotJson, decode
from fixtures.text.sentences import ask_again, duration
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import Subject

PROFILE = "dcm.amd.com/gpu-config-profile"


class _Manager(msgspec.Struct, frozen=True, kw_only=True):
    """A program that cuts devices. ``paused`` is what it writes into labels of agents meanwhile.

    ``retry_minutes``: how long it may go on, by its own design, and also after it has said that it failed.
    """

    name: str
    config: str
    state: str
    failed: str
    changing: str
    paused: str = ""
    retry_minutes: int = 0


_MANAGERS = (
    _Manager(
        name="the vGPU device manager",
        config="nvidia.com/vgpu.config",
        state="nvidia.com/vgpu.config.state",
        failed="failed",
        changing="pending",
        paused="paused-for-vgpu-change",
    ),
    _Manager(
        name="AMD's device config manager",
        config=PROFILE,
        state="dcm.amd.com/gpu-config-profile-state",
        failed="failure",
        changing="in-progress",
        retry_minutes=30,
    ),
)


def unsettled(scope: Scope) -> list[Node]:
    """Nodes on which one of these managers is at work or may try again: since when tells whether it takes too long."""
    return [
        node
        for node in scope.accelerator_nodes
        if any(node.metadata.label.get(one.state, "") in _ageing(one) for one in _MANAGERS if one.state in node.metadata.label)
    ]


def _ageing(manager: _Manager) -> tuple[str, ...]:
    return (manager.changing, manager.failed) if manager.retry_minutes else (manager.changing,)


def check_others(scope: Scope, now: float, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per node and manager that was asked for something or that tells a state. ``now`` in Unix seconds."""
    for node in scope.accelerator_nodes:
        for manager in _MANAGERS:
            labels = node.metadata.label
            if labels.get(manager.config) or labels.get(manager.state) or _paused(node, manager):
                yield _judge(scope, node, manager, now, fields.get(node.name))


def _paused(node: Node, manager: _Manager) -> list[str]:
    return paused_agents(node, manager.paused) if manager.paused else []


def _judge(scope: Scope, node: Node, manager: _Manager, now: float, fields: object) -> Finding:
    place, source = Subject("Node", f"{node.name} {manager.config}"), f"label {manager.state}"
    config, state = (node.metadata.label.get(key, "") for key in (manager.config, manager.state))
    paused, limit = _paused(node, manager), max(scope.policy.advertisement.mig_pending_minutes, manager.retry_minutes)
    wanted = said(config, 80) if config else "its default"
    observed = f"{wanted}: {said(state, 40) or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
    expected = f"success within {limit:g} min, no agent left paused"
    about = About(place, source, expected, observed)
    write = last_write(fields, label(manager.state))
    age = now - write.at if write else None
    if state in _ageing(manager) and age is not None and age <= limit * 60:
        return about.undecided(f"{observed} for {duration(age)}: {ask_again(age, limit * 60)}", cause=CHANGE_UNDER_WAY)
    if state == manager.failed:
        message = f"{manager.name} failed to apply {wanted}: the devices keep what they had, and jobs wait for what was asked for"
        return about.bad(message, cause="LayoutChangeFailed")
    if state == manager.changing:
        if age is None:
            return about.undecided(f"{observed}, and since when is not known", cause="AgeUnknown")
        message = f"{manager.name} has been at work for at least {duration(age)} (limit: {limit:g} min): it is stuck"
        return about.bad(message, cause="LayoutChangeStuck", observed=f"{observed} for {duration(age)}")
    if paused:
        message = f"{manager.paused} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the labels"
        return about.bad(message, cause="AgentsLeftPaused", source=f"labels {DEPLOY}*")
    if state == "success" and manager.config == PROFILE and config and (problem := unapplied(scope, node, config)):
        message = f"the state says that {wanted} is applied, but {problem}: jobs find other devices than they ask for"
        source = f"label {manager.state}, capacity, label {AMD_PARTITION}"
        return about.bad(message, cause="LayoutNotApplied", expected=f"the partitions of {wanted}", source=source)
    if state == "success":
        return about.ok()
    why = "what its state means is not known" if state else f"{manager.name} has said nothing about it, and whether it runs is not known"
    return about.undecided(f"{observed}: {why}", cause="LayoutStateUnknown")


_PROFILES = "gpu-config-profiles"
_COMPUTE = re.compile(r"spx|dpx|tpx|qpx|cpx")
_NEAR = 0.125
"""Share of its units that a node may lack and still be partitioned so: the kernel lists 63 of 64 where the BMC's graphics take a file."""


def unapplied(scope: Scope, node: Node, profile: str) -> str:
    """How a node shows that it lacks the partitions of a profile, as a clause; empty if it has them, or if nothing tells.

    The node labeller and the number of units tell, against the devices that the policy or a peer with whole devices counts.
    """
    compute, total = _compute(scope, profile), sum(_units(scope, node).values())
    labels = node.metadata.label
    shown = next((labels[key] for key in AMD_PARTITION_LABELS if labels.get(key)), "").lower()
    mixed = any(key.startswith(f"{AMD_PARTITION}.") for key in labels)
    if not compute or not total or mixed or shown.startswith(compute):
        return ""
    units, devices = amd_units(compute, labels.get("amd.com/gpu.product-name", "")), _devices(scope, node)
    expected = units * devices
    if devices and abs(total - expected) <= _NEAR * expected:
        return ""
    names = " + ".join(sorted(_units(scope, node)))
    if devices:
        return f"{names} is {total}, and {devices} devices {TIMES} {units} ({compute}) are {expected}"
    return f"the node labeller says {shown}, and {names} is {total}" if shown else ""


def _compute(scope: Scope, profile: str) -> str:
    """Into what a profile partitions every device (``cpx``), by the manager's ConfigMap, else by its name; empty if that is not known."""
    bodies = [body for known in scope.cached(_profiles) if (body := mapping(known, profile))]
    found = {kind for body in bodies for kind in _kinds(body)} or set(_COMPUTE.findall(profile.lower()))
    return found.pop() if len(found) == 1 else ""


def _profiles(scope: Scope) -> list[Json]:
    """What ConfigMaps of the platform say of profiles, by name."""
    found = []
    for item in scope.snapshot.listing("configmaps").items:
        for text in (item.data or {}).values() if scope.platform.of(item.namespace).components else ():
            if _PROFILES in text:
                with contextlib.suppress(NotJson):
                    found.append(mapping(decode(text), _PROFILES))
    return found


def _kinds(body: Json) -> Iterator[str]:
    """The kinds of partitions of a profile; devices that it skips have an unknown one."""
    for part in mappings(body.get("profiles")):
        yield str(part.get("computePartition")).lower()
    if mapping(body.get("skippedGPUs")).get("ids"):
        yield ""


def _units(scope: Scope, node: Node) -> dict[str, int]:
    return {name: units for name, units in scope.device_capacity(node).items() if name.startswith("amd.com/") and units}


def _devices(scope: Scope, node: Node) -> int:
    """Devices of a node by the policy, else by a machine of the same kind whose devices are whole; 0 if nothing counts them."""
    stated = [count.devices for count in physical_counts(node, view_of(scope, node), scope.policy, []) if count.boot]
    return next(iter(stated), 0) or scope.cached(_whole_devices).get(_kind(node), 0)


def _whole_devices(scope: Scope) -> dict[tuple[str, ...], int]:
    """Devices of a machine by its kind, as most nodes offer them that say that theirs are whole; of two numbers as common, the smaller."""
    found: dict[tuple[str, ...], Counter[int]] = {}
    for node in scope.accelerator_nodes:
        if any(kind := _kind(node)) and _is_whole(node) and (total := sum(_units(scope, node).values())):
            found.setdefault(kind, Counter())[total] += 1
    return {kind: max(counted, key=lambda total: (counted[total], -total)) for kind, counted in found.items()}


def _kind(node: Node) -> tuple[str, ...]:
    return model_of(node), node.metadata.label.get("amd.com/gpu.device-id", ""), type_of(node)


def _is_whole(node: Node) -> bool:
    """Whether a node says that its devices are not partitioned."""
    says = [text for key in (PROFILE, *AMD_PARTITION_LABELS) if (text := node.metadata.label.get(key, "").lower())]
    return bool(says) and all("spx" in text for text in says)


CHANGING = ("pending", "rebooting")
PAUSED = "paused-for-mig-change"
_SOURCE = f"label {STATE}"


def changing(scope: Scope) -> list[Node]:
    """Nodes whose MIG manager says that it is at work."""
    return [node for node in scope.accelerator_nodes if node.metadata.label.get(STATE) in CHANGING]


def since_of(fields: FieldsByNode) -> dict[str, float]:
    """When the state label of each node was last written at the latest, by its managedFields."""
    writes = {name: last_write(entries, label(STATE)) for name, entries in fields.items()}
    return {name: write.at for name, write in writes.items() if write is not None}


def check_state(scope: Scope, now: float, since: Mapping[str, float]) -> Iterator[Finding]:
    """One finding per node with ``mig.config``. ``now`` and ``since`` (last write of the state, by node) are Unix seconds."""
    limit = scope.policy.advertisement.mig_pending_minutes
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        config, state = labels.get(CONFIG, ""), labels.get(STATE, "")
        paused = paused_agents(node, PAUSED)
        if not config and not paused:
            continue
        observed = f"{config or 'no mig.config'}: {state or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
        about = About(subject(node), _SOURCE, f"success within {limit:g} min, no agent left paused", observed)
        if state in CHANGING and scope.snapshot.offline and node.name not in scope.snapshot.managed_fields:
            message = f"{observed}, and nothing tells since when: the snapshot was taken without --show-managed-fields"
            yield about.undecided(message, cause="AgeUnknown")
        elif state in CHANGING:
            yield _under_way(about, now, since.get(node.name), limit)
        elif state == "failed":
            message = f"the MIG manager failed to apply {config!r}: the devices keep their old geometry and jobs wait for the new one"
            yield about.bad(message, cause="LayoutChangeFailed")
        elif paused:
            message = f"{PAUSED} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the label"
            yield about.bad(message, cause="AgentsLeftPaused", source=f"labels {DEPLOY}*")
        elif state == "success":
            yield about.ok()
        elif not state and labels.get("nvidia.com/mig.capable") != "true":
            message = "its devices cannot be cut, so no MIG manager reports on them"
            yield about.not_judged(message, source="label nvidia.com/mig.capable")
        else:
            why = f"its state {state!r} is not one that the MIG manager writes" if state else "no MIG manager has reported on it"
            yield about.bad(f"{config!r} is requested and {why}: whether it is applied is not known", cause="LayoutStateUnknown")


def _under_way(about: About, now: float, since: float | None, limit: float) -> Finding:
    if since is None:
        why = "since when is not known: the node's managedFields have no entry of the program that wrote the state"
        return about.undecided(f"{about.observed}, and {why}", cause="AgeUnknown")
    age, source = now - since, "metadata.managedFields"
    observed = f"{about.observed} for {duration(age)}"
    if age <= limit * 60:
        return about.undecided(f"{observed}: the change is still under way", cause=CHANGE_UNDER_WAY, source=source)
    message = (
        f"the change has been under way for at least {duration(age)} (policy: {limit:g} min): "
        "it is stuck, usually because a pod still holds a device; until it ends, the node offers none"
    )
    return about.bad(message, cause="LayoutChangeStuck", observed=observed, source=source)
