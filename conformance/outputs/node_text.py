"""Nodes out of captured text, in the forms people capture: Node JSON or YAML, a labels object, ``kubectl describe node``, key and value
excerpts, and custom-columns tables."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs.unreadable import Unreadable, readable_text
from conformance.outputs.yaml_text import load_objects, looks_like_json, mapping, text_of
from fixtures.models import Json

_PAIR = re.compile(
    r"(?<![\w./-])\"?(?P<key>(?:[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?/)[A-Za-z0-9][\w.-]{0,62})\"?"
    r"(?:=|\s{0,32}[:=]\s{0,32})(?:\"(?P<quoted>[^\"]{0,63})\"|(?P<bare>[^\s\",]{0,256}))"
)
_SECTION = re.compile(r"\s{0,16}\"?(Capacity|Allocatable|capacity|allocatable)\"?:")
_OTHER_SECTION = re.compile(r"[A-Z][A-Za-z ]{1,40}:(?:\s|\Z)")
_NAME = re.compile(r"Name:\s{1,32}(\S{1,253})\s*\Z")
_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-\d{1,2}g\.\d{1,4}gb(?:[.-][a-z]{1,8}(?:\.all)?)?)(?:\.shared)?\Z")
_TAINT_EFFECT = re.compile(r":(?:PreferNo|No)(?:Schedule|Execute)\Z")
_COLUMNS = re.compile(r"NAME(?:\s{2,}\S+)*\s*\Z")
_COLUMN_LABELS: Mapping[str, str] = {
    "COUNT": "nvidia.com/gpu.count",
    "GPUS": "nvidia.com/gpu.count",
    "REPLICAS": "nvidia.com/gpu.replicas",
    "PRODUCT": "nvidia.com/gpu.product",
    "STRATEGY": "nvidia.com/gpu.sharing-strategy",
    "SHARING": "nvidia.com/gpu.sharing-strategy",
    "CONFIG": "nvidia.com/device-plugin.config",
    "MIG": "nvidia.com/mig.strategy",
    "INSTANCE": "node.kubernetes.io/instance-type",
}
_COLUMN_RESOURCES: Mapping[str, str] = {"GPU": "nvidia.com/gpu", "SHARED": "nvidia.com/gpu.shared", "ALLOCATABLE": "nvidia.com/gpu"}


class NodeView(msgspec.Struct, frozen=True):
    """One node. ``capacity`` and ``allocatable`` are ``None`` when the text does not hold them, ``name`` is ``""`` when it does not say."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str] | None
    allocatable: Mapping[str, str] | None
    form: str


def parse_nodes(text: str) -> list[NodeView]:
    """Nodes of a captured text.

    Raises:
        Unreadable: empty, binary or oversized text, malformed JSON or YAML, or nothing of a node in it.
    """
    text = readable_text(text)
    if looks_like_json(text) or re.search(r"^(?:- )?(?:kind: (?:Node|NodeList|List)|items:) *$", text, re.MULTILINE):
        nodes = [node for item in load_objects(text) if (node := _from_object(item)) is not None]
    else:
        nodes = _from_table(text) or _from_lines(text)
    if not nodes:
        raise Unreadable("no node, node labels or device resources found")
    return nodes


def _strings(values: Json) -> dict[str, str]:
    return {str(key): text_of(value) for key, value in values.items()}


def _from_object(item: Json) -> NodeView | None:
    metadata, status = mapping(item.get("metadata")), mapping(item.get("status"))
    if item.get("kind") == "Node" or "capacity" in status or "labels" in metadata:
        return NodeView(
            text_of(metadata.get("name")),
            _strings(mapping(metadata.get("labels"))),
            _strings(mapping(status.get("capacity"))) if "capacity" in status else None,
            _strings(mapping(status.get("allocatable"))) if "allocatable" in status else None,
            "object",
        )
    if item and all("/" in str(key) and not isinstance(value, dict | list) for key, value in item.items()):
        return NodeView(text_of(item.get("kubernetes.io/hostname")), _strings(item), None, None, "labels")
    return None


class _Building:
    """A node being read out of lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.labels: dict[str, str] = {}
        self.resources: dict[str, dict[str, str]] = {}

    def view(self) -> NodeView | None:
        if not self.labels and not self.resources:
            return None
        capacity, allocatable = self.resources.get("capacity"), self.resources.get("allocatable")
        return NodeView(self.name or self.labels.get("kubernetes.io/hostname", ""), self.labels, capacity, allocatable, "lines")


def _from_lines(text: str) -> list[NodeView]:
    """``kubectl describe node`` (whole or cut) and lists of ``key: value`` or ``key=value`` lines."""
    building = [_Building("")]
    section = ""
    for raw in text.split("\n"):
        line = raw[:4096]
        if line.startswith("#"):
            continue
        if name := _NAME.match(line):
            building.append(_Building(name[1]))
        if match := _SECTION.match(line):
            section = match[1].lower()
        elif _OTHER_SECTION.match(line):
            section = line.partition(":")[0].lower()
        if section in ("taints", "annotations"):
            continue
        for pair in _PAIR.finditer(line):
            key, value = pair["key"], pair["quoted"] if pair["quoted"] is not None else pair["bare"]
            if _TAINT_EFFECT.search(value):
                continue
            if _RESOURCE.match(key):
                where = section if section in ("capacity", "allocatable") else "capacity"
                building[-1].resources.setdefault(where, {})[key] = value
            elif "nvidia.com/" in key or key.startswith(("feature.node.kubernetes.io/", "kubernetes.io/")):
                building[-1].labels[key] = value
    return [view for node in building if (view := node.view()) is not None]


def _from_table(text: str) -> list[NodeView]:
    """``kubectl get nodes -o custom-columns``: columns by their heads, ``<none>`` for an absent label."""
    nodes: list[NodeView] = []
    heads: list[str] = []
    for raw in text.split("\n"):
        line = raw[:4096].rstrip()
        if _COLUMNS.match(line):
            heads = line.split()
            continue
        cells = line.split()
        if not heads or len(cells) != len(heads):
            continue
        row = dict(zip(heads, cells, strict=True))
        labels = {_COLUMN_LABELS[head]: cell for head, cell in row.items() if head in _COLUMN_LABELS and cell != "<none>"}
        units = {_COLUMN_RESOURCES[head]: cell for head, cell in row.items() if head in _COLUMN_RESOURCES and cell != "<none>"}
        if labels or units:
            nodes.append(NodeView(row["NAME"], labels, units if units else None, None, "table"))
    return nodes
