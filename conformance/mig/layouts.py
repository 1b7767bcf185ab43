"""Which layout a node's ``mig.config`` asks for: where that is written, and mig-parted's configurations.

Facts: docs/facts/mig.md#configurations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from conformance.mig.mig_nodes import MigNode
from fixtures.kubernetes.models import ConfigMap, Json
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.mig_geometry import Geometry
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, operators_of
from fixtures.text import yaml_text
from fixtures.text.yaml_text import NotYaml

MAX_BYTES = 1024 * 1024
_FILTER = re.compile(r"0x([0-9A-Fa-f]{4})10DE\Z", re.IGNORECASE)
# PCI device ids (pci.ids and mig-parted's own tables) of the products that have a geometry table.
_OF_PCI: Mapping[str, Geometry] = {
    **dict.fromkeys(("20B0", "20B1", "20F1", "20F6"), mig_geometry.A100_40),
    **dict.fromkeys(("20B2", "20B5", "20F3", "20F5"), mig_geometry.A100_80),
    "20B7": mig_geometry.A30,
    **dict.fromkeys(("2330", "2331", "2322", "2324"), mig_geometry.H100_80),
    "2321": mig_geometry.H100_94,
    **dict.fromkeys(("2329", "2342"), mig_geometry.H100_96),
    **dict.fromkeys(("2335", "233B"), mig_geometry.H200),
    "2348": mig_geometry.GH200_144,
    "2901": mig_geometry.B200,
    "2941": mig_geometry.GB200,
    "3182": mig_geometry.B300,
    "31C2": mig_geometry.GB300,
    "2BB5": mig_geometry.RTX_PRO_6000,
}


class PartedError(Exception):
    """The configuration cannot be read; the message is one clause."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a configuration. ``devices`` None is all; ``filters`` are PCI device ids in upper case, empty for every product."""

    filters: tuple[str, ...]
    devices: tuple[int, ...] | None
    enabled: bool
    layout: Mapping[str, int]

    def concerns(self, geometry: Geometry | None) -> bool:
        """Whether the entry can be meant for a product: by the PCI ids known here, else by its profiles being in the table."""
        if geometry is None or not self.filters:
            return True
        known = [_OF_PCI[item] for item in self.filters if item in _OF_PCI]
        if geometry in known or len(known) == len(self.filters):
            return geometry in known
        return all(count <= geometry.maxima.get(profile, 0) for profile, count in self.layout.items())


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What a name asks for on one product: instances per device where all devices are alike, else only on some."""

    rows: tuple[Row, ...]

    @property
    def per_device(self) -> dict[str, int] | None:
        """The layout of every device, or None where the devices differ."""
        layouts = {tuple(sorted(row.layout.items())) for row in self.rows}
        whole = all(row.devices is None for row in self.rows)
        return dict(self.rows[0].layout) if whole and len(layouts) == 1 else None

    def total(self, devices: int) -> dict[str, int] | None:
        """Instances on a node of so many devices; None where alternatives of unknown products contradict each other."""
        if (same := self.per_device) is not None:
            return {profile: count * devices for profile, count in same.items() if count}
        if any(row.devices is None for row in self.rows):
            return None
        found: dict[str, int] = {}
        for row in self.rows:
            number = sum(index < devices for index in row.devices or ())
            for profile, count in row.layout.items():
                found[profile] = found.get(profile, 0) + count * number
        return {profile: count for profile, count in found.items() if count}


def parse(text: str) -> dict[str, tuple[Row, ...]]:
    """The rows of each configuration by name. Raises :class:`PartedError`."""
    if len(text) > MAX_BYTES:
        raise PartedError(f"it is longer than {MAX_BYTES} bytes")
    try:
        document = yaml_text.load(text, most=MAX_BYTES)
    except NotYaml as error:
        raise PartedError(f"malformed YAML: {error}") from error
    configs = document.get("mig-configs") if isinstance(document, dict) else None
    if not isinstance(configs, dict):
        raise PartedError("it has no mig-configs")
    return {str(name): tuple(_row(entry, str(name)) for entry in _list(rows, str(name))) for name, rows in configs.items()}


def requested(configs: Mapping[str, tuple[Row, ...]], name: str, model: str) -> Requested | None:
    """What a configuration asks for on a product; None when there is no such name or no entry of it concerns the product."""
    geometry = mig_geometry.geometry_of(model)
    rows = tuple(row for row in configs.get(name, ()) if row.concerns(geometry))
    return Requested(rows=rows) if rows else None


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise PartedError(f"{name[:60]!r} is not a list")
    return value


def _row(entry: Any, name: str) -> Row:
    if not isinstance(entry, dict):
        raise PartedError(f"an entry of {name[:60]!r} is not a mapping")
    filters = entry.get("device-filter") or ()
    filters = [filters] if isinstance(filters, str) else filters
    if not isinstance(filters, list | tuple):
        raise PartedError(f"device-filter of {name[:60]!r} is neither text nor a list")
    devices = entry.get("devices")
    layout = entry.get("mig-devices") or {}
    if not isinstance(layout, dict) or not all(isinstance(count, int) and not isinstance(count, bool) for count in layout.values()):
        raise PartedError(f"mig-devices of {name[:60]!r} does not map profiles to numbers")
    if devices != "all" and not (isinstance(devices, list) and all(isinstance(index, int) for index in devices)):
        raise PartedError(f"devices of {name[:60]!r} is neither 'all' nor a list of indexes")
    enabled = entry.get("mig-enabled") is True
    return Row(
        filters=tuple(match[1].upper() if (match := _FILTER.match(str(item))) else str(item)[:40] for item in filters),
        devices=None if devices == "all" else tuple(devices),
        enabled=enabled,
        layout={str(profile): count for profile, count in layout.items()} if enabled else {},
    )


STATIC = "default-mig-parted-config"
KEY = "config.yaml"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one node: a layout, or the problem. ``missing``: the place was read and does not hold the name.

    ``read``: the answer is a ConfigMap's of the cluster, not what NVIDIA ships under the name.
    """

    wanted: Requested | None = None
    source: str
    problem: str = ""
    missing: bool = False
    read: bool = True


class Requests:
    """Looks up configurations: the node's own generated map, else the operator's, else NVIDIA's standard names."""

    def __init__(self, scope: Scope) -> None:
        homes, maps = _homes(scope), scope.snapshot.listing("configmaps").items
        self._maps: dict[str, list[ConfigMap]] = {}
        for item in maps:
            if item.namespace in homes or (not homes and scope.platform.of(item.namespace).components):
                self._maps.setdefault(item.name, []).append(item)
        self._static = _named(scope) or STATIC
        self._parsed: dict[str, dict[str, tuple[Row, ...]] | PartedError] = {}

    def of(self, node: MigNode) -> Request:
        """What the node's ``mig.config`` asks for on its product."""
        name = node.view.mig_config
        found = self._maps.get(f"{node.node.name}-mig-config") or self._maps.get(self._static) or []
        if not found:
            return _standard(node, name)
        if len(found) > 1:
            names = " and ".join(sorted(f"{item.namespace}/{item.name}" for item in found))
            return Request(source="ConfigMaps", problem=f"ConfigMaps {names} could both be the mig-parted ConfigMap")
        [holder] = found
        source = f"ConfigMap {holder.namespace}/{holder.name}"
        configs = self._read(holder)
        if isinstance(configs, PartedError):
            return Request(source=source, problem=f"{source} cannot be read: {configs}")
        if name not in configs:
            return Request(source=source, problem=f"{source} has no configuration {name!r}", missing=True)
        wanted = requested(configs, name, node.model)
        if wanted is None:
            return Request(source=source, problem=f"{name!r} of {source} has no entry for {node.model or 'its product'}", missing=True)
        return Request(wanted=wanted, source=source)

    def _read(self, holder: ConfigMap) -> dict[str, tuple[Row, ...]] | PartedError:
        if holder.name not in self._parsed:
            data = holder.data or {}
            text = data.get(KEY) or (next(iter(data.values())) if len(data) == 1 else "")
            try:
                self._parsed[holder.name] = parse(text)
            except PartedError as error:
                self._parsed[holder.name] = error
        return self._parsed[holder.name]


def _standard(node: MigNode, name: str) -> Request:
    source = "NVIDIA's standard configurations"
    layout = mig_geometry.config_layout(node.model, name)
    if layout is None:
        problem = f"no ConfigMap of mig-parted was found, and {name!r} on {node.model or 'its product'} is no standard configuration"
        return Request(source=source, problem=problem, read=False)
    row = Row(filters=(), devices=None, enabled=name != "all-disabled", layout=layout)
    return Request(wanted=Requested(rows=(row,)), source=source, read=False)


def _homes(scope: Scope) -> set[str]:
    """Namespaces of the operator's operands, as ClusterPolicies tell."""
    return {operator.namespace for operator in operators_of(_policies(scope)) if operator.namespace}


def _policies(scope: Scope) -> list[tuple[str, Json]]:
    """ClusterPolicies that their operator acts upon, with their kind."""
    items = scope.snapshot.listing(CLUSTER_POLICIES).objects
    return [("ClusterPolicy", item) for item in items if operators_of([("ClusterPolicy", item)])]


def _named(scope: Scope) -> str:
    for _, policy in _policies(scope):
        if value := text_of(mapping(policy, "spec", "migManager", "config").get("name")):
            return value
    return ""
