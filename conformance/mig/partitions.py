"""Whether AMD's devices have the partitions of the profile that their node asks for. Facts: docs/facts/mig.md#other-managers."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator

from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.devices.arithmetic import AMD_PARTITION, AMD_PARTITION_LABELS, TIMES, amd_units
from fixtures.model.devices.node_view import view_of
from fixtures.model.devices.physical import model_of, physical_counts
from fixtures.model.nodes.machines import type_of
from fixtures.text.json_text import NotJson, decode

PROFILE = "dcm.amd.com/gpu-config-profile"
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
        for text in (item.data or {}).values() if scope.platform_workloads.admits(item.namespace) else ():
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
