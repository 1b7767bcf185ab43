"""The parts that AMD's DeviceConfigs enable, with their DaemonSets and the nodes that have none.

The operator counts pods per part, but none for a DaemonSet that is gone while the operator is away, and none for the node labeller.
Facts: docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fixtures.kubernetes.models import DaemonSet, Json, Node
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope
from fixtures.model.placement.affinity import admits
from fixtures.verdict.subjects import Subject

DEVICE_CONFIGS = "amd.com/deviceconfigs"
_DRIVER_READY = "kmm.node.kubernetes.io/"
"""How the labels begin by which agents wait for the driver's module on a node (Kernel Module Management)."""


class DeviceConfigPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that a DeviceConfig enables: its DaemonSets, and nodes that it selects and no DaemonSet does."""

    place: Subject
    selector: str
    sets: list[DaemonSet]
    left: list[Node]
    source: str


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A part: where the spec has it, the field that enables it, whether it is installed without that field, and its DaemonSet's suffix."""

    section: str
    field: str
    default: bool
    suffix: str
    own_selector: bool = False


_KINDS = (
    _Kind(section="devicePlugin", field="enableDevicePlugin", default=True, suffix="device-plugin"),
    _Kind(section="devicePlugin", field="enableNodeLabeller", default=False, suffix="node-labeller"),
    _Kind(section="draDriver", field="enable", default=False, suffix="dra-driver", own_selector=True),
    _Kind(section="metricsExporter", field="enable", default=False, suffix="metrics-exporter", own_selector=True),
)


def parts_of_device_configs(scope: Scope) -> Iterator[DeviceConfigPart]:
    """Each part that a DeviceConfig enables, if it selects a node that is judged."""
    for item in scope.snapshot.listing(DEVICE_CONFIGS).objects:
        spec = mapping(item.get("spec"))
        for kind in _KINDS:
            section = mapping(spec.get(kind.section))
            enabled = section.get(kind.field)
            if kind.default if enabled is None else enabled is True:
                own = mapping(section.get("selector")) if kind.own_selector else {}
                if found := _part(scope, item, kind, own or mapping(spec.get("selector"))):
                    yield found


def _part(scope: Scope, item: Json, kind: _Kind, selector: Json) -> DeviceConfigPart | None:
    meta = mapping(item.get("metadata"))
    name, namespace = str(meta.get("name")), str(meta.get("namespace"))
    wanted = [
        node
        for node in scope.accelerator_nodes
        if selector and all(node.metadata.label.get(key) == value for key, value in selector.items())
    ]
    if not wanted:
        return None
    sets = [one for one in scope.snapshot.daemonsets if one.namespace == namespace and one.name.startswith(f"{name}-{kind.suffix}")]
    return DeviceConfigPart(
        place=Subject("DeviceConfig", f"{name} {kind.suffix}", namespace),
        selector=", ".join(f"{key}={value}" for key, value in sorted(selector.items())),
        sets=sets,
        left=[node for node in wanted if not any(admits(one.spec.template.spec, node) or _awaits_driver(one, node) for one in sets)],
        source=f"spec.{kind.section}.{kind.field}, spec.selector, DaemonSets",
    )


def _awaits_driver(daemonset: DaemonSet, node: Node) -> bool:
    """Whether a DaemonSet lacks nothing of a node but that the driver's module is ready there, which is not this part's fault."""
    wanted = daemonset.spec.template.spec.node_selector or {}
    missing = [key for key, value in wanted.items() if node.metadata.label.get(key) != value]
    return bool(missing) and all(key.startswith(_DRIVER_READY) for key in missing)
