"""MIG-01: what the MIG manager, vGPU's and AMD's managers report of the layout that a label asks for, and since when.

Facts: docs/facts/mig.md#mig-manager, docs/facts/mig.md#other-managers, docs/facts/labels.md#operator-labels.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import AMD_PARTITION, AMD_PARTITION_LABELS, TIMES, amd_units, model_of, physical_counts
from fixtures.model.devices.mig_nodes import CONFIG
from fixtures.model.devices.node_labels import view_of
from fixtures.model.facts import reported
from fixtures.model.nodes.accelerators import type_of
from fixtures.model.nodes.holds import label, last_write
from fixtures.model.platform.agents import DEPLOY, paused_agents
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text import yaml_text
from fixtures.text.json_text import NotJson, decode
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

PROFILE = "dcm.amd.com/gpu-config-profile"


class _Manager(msgspec.Struct, frozen=True, kw_only=True):
    """A program that cuts devices. ``paused`` is what it writes into labels of agents meanwhile, ``nothing`` what an empty label asks for.

    ``retry_minutes``: how long it may go on, by its own design, and also after it has reported a failure.
    """

    name: str
    config: str
    state: str
    failed: str
    changing: tuple[str, ...]
    paused: str = ""
    retry_minutes: int = 0
    nothing: str = "its default"

    @property
    def ageing(self) -> tuple[str, ...]:
        """States whose age decides."""
        return (*self.changing, self.failed) if self.retry_minutes else self.changing

    def left_paused(self, node: Node) -> list[str]:
        """Agents that it keeps off a node."""
        return paused_agents(node.metadata.label, self.paused) if self.paused else []


@cache
def _managers() -> tuple[_Manager, ...]:
    return yaml_text.packaged(Path(__file__).with_name("managers.yaml"), tuple[_Manager, ...])


def is_changing(state: str) -> bool:
    """Whether the MIG manager is at work, by the state that it reports."""
    return state in _managers()[0].changing


def unsettled(scope: Scope) -> list[Node]:
    """Nodes on which one of these managers is at work or may try again: since when tells whether it takes too long."""
    nodes = scope.accelerator_nodes
    return [node for node in nodes if any(node.metadata.label.get(one.state) in one.ageing for one in _managers())]


def check_managers(scope: Scope, now: float, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per node and manager that was asked for something, that tells a state, or that left agents paused. ``now``: Unix seconds.

    The MIG manager writes a state only where a layout is asked for.
    """
    for manager in _managers():
        for node in scope.accelerator_nodes:
            state = node.metadata.label.get(manager.state) if manager.config != CONFIG else ""
            if node.metadata.label.get(manager.config) or state or manager.left_paused(node):
                yield _judge(scope, node, manager, now, fields.get(node.name))


def _judge(scope: Scope, node: Node, manager: _Manager, now: float, fields: object) -> Finding:
    place = subject(node) if manager.config == CONFIG else Subject("Node", f"{node.name} {manager.config}")
    config, state = (node.metadata.label.get(key, "") for key in (manager.config, manager.state))
    paused, limit = manager.left_paused(node), max(scope.policy.advertisement.mig_pending_minutes, manager.retry_minutes)
    wanted = reported(config, 80) if config else manager.nothing
    observed = f"{wanted}: {reported(state, 40) or 'no state'}" + (f", paused: {', '.join(paused)}" if paused else "")
    about = About(place, f"label {manager.state}", f"success within {limit:g} min, no agent left paused", observed)
    write = last_write(fields, label(manager.state))
    if state in manager.changing or (state in manager.ageing and write):
        since, unknown = write.at if write else None, f"{observed}, and {_ageless(scope, node)}"
        age = overdue(about, since, now, limit * 60, observed, cause="AgeUnknown", unknown=unknown)
        if isinstance(age, Finding):
            return age
        if state in manager.changing:
            so_long, source = f"at least {duration(age)} (limit: {limit:g} min)", "metadata.managedFields"
            message = f"{manager.name} has been at work for {so_long}: it is stuck, usually because a pod still holds a device"
            return about.bad(message, cause="LayoutChangeStuck", observed=f"{observed} for {duration(age)}", source=source)
    if state == manager.failed:
        message = f"{manager.name} failed to apply {wanted}: the devices keep what they had, and jobs wait for what was asked for"
        return about.bad(message, cause="LayoutChangeFailed")
    if paused:
        message = f"{manager.paused} is left behind on {', '.join(paused)}: these agents stay away until somebody resets the labels"
        return about.bad(message, cause="AgentsLeftPaused", source=f"labels {DEPLOY}*")
    if state == "success" and manager.config == PROFILE and config and (problem := unapplied(scope, node, config)):
        message = f"the state says that {wanted} is applied, but {problem}: jobs find other devices than they ask for"
        source = f"label {manager.state}, capacity, label {AMD_PARTITION}"
        return about.bad(message, cause="LayoutNotApplied", expected=f"the partitions of {wanted}", source=source)
    if state == "success":
        return about.ok()
    if manager.config != CONFIG:
        why = "what its state means" if state else f"{manager.name} has said nothing about it, and whether it runs"
        return about.undecided(f"{observed}: {why} is not known", cause="LayoutStateUnknown")
    if not state and node.metadata.label.get("nvidia.com/mig.capable") != "true":
        return about.not_judged("its devices cannot be cut, so no MIG manager reports on them", source="label nvidia.com/mig.capable")
    why = f"its state {state!r} is not one that the MIG manager writes" if state else "no MIG manager has reported on it"
    return about.bad(f"{config!r} is requested and {why}: whether it is applied is not known", cause="LayoutStateUnknown")


def _ageless(scope: Scope, node: Node) -> str:
    """Why the age of a state is not known, as a clause."""
    if scope.snapshot.offline and node.name not in scope.snapshot.managed_fields:
        return "nothing tells since when: the snapshot was taken without --show-managed-fields"
    return "since when is not known: the node's managedFields have no entry of the program that wrote the state"


_CONFIGURATION, _PROFILES = "config.json", "gpu-config-profiles"
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
        if _CONFIGURATION in (item.data or {}) and scope.platform.of(item.namespace).components:
            with contextlib.suppress(NotJson):
                found.append(mapping(decode((item.data or {})[_CONFIGURATION]), _PROFILES))
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
