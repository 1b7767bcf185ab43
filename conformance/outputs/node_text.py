"""Nodes out of captured text, in the forms people capture: Node JSON or YAML, a labels object, ``kubectl describe node``, key and value
excerpts, and custom-columns tables."""

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs.captured_objects import load_objects, looks_like_json
from conformance.outputs.captured_text import COLUMNS, Unreadable, readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, text_of

_PAIR = re.compile(
    r"(?<![\w./-])\"?(?P<key>(?:[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?/)[A-Za-z0-9][\w.-]{0,62})\"?"
    r"(?:=|\s{0,32}[:=]\s{0,32})(?:\"(?P<quoted>[^\"]{0,63})\"|(?P<bare>[^\s\",]{0,256}))"
)
_SECTION = re.compile(r"\s{0,16}\"?(Capacity|Allocatable|capacity|allocatable)\"?:")
_OTHER_SECTION = re.compile(r"[A-Z][A-Za-z ]{1,40}:(?:\s|\Z)")
_ASKED = re.compile(r"\s{1,64}(?:- )?\"?(?:Limits|Requests|limits|requests|resources)\"?:")
_NAME = re.compile(r"Name:\s{1,32}(\S{1,253})\s*\Z")
_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-\d{1,2}g\.\d{1,4}gb(?:[.-][a-z]{1,8}(?:\.all)?)?)(?:\.shared)?\Z")
_OTHER_DEVICES = re.compile(
    r"amd\.com/(?:gpu|[sdtqc]px_nps\d)|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi|google\.com/tpu"
    r"|aws\.amazon\.com/neuron(?:core|device)?|vpc\.amazonaws\.com/efa|rdma/[\w.-]{1,63}"
)
_LABEL = re.compile(
    r"(?:[\w.-]{1,64}\.)?(?:nvidia\.com|amd\.com|intel\.com|habana\.ai|google\.com|amazonaws\.com|azure\.com|k8s\.aws)/"
    r"|(?:intel\.)?feature\.node\.kubernetes\.io/|kubernetes\.io/|node\.kubernetes\.io/instance-type\Z"
)
_TAINT_EFFECT = re.compile(r":(?:PreferNo|No)(?:Schedule|Execute)\Z")
_COLUMNS = re.compile(r"NAME(?:\s{2,64}\S{1,64}){0,40}\s*\Z")
_NO_WORD = re.compile(r"[^A-Za-z0-9]")


_SPLIT = re.compile(r"\b(?:hami|4pd)\.io/node-\w{1,20}-register\b")


class NodeView(msgspec.Struct, frozen=True):
    """One node. ``capacity`` and ``allocatable`` are ``None`` when the text does not hold them, ``name`` is ``""`` when it does not say."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str] | None
    allocatable: Mapping[str, str] | None
    form: str
    annotations: Mapping[str, str] = {}
    split_by_scheduler: bool = False  # lines hold an annotation of HAMi, whose value they may cut


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
        if _SPLIT.search(text):
            nodes = [msgspec.structs.replace(node, split_by_scheduler=True) for node in nodes]
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
            _strings(mapping(metadata.get("annotations"))),
        )
    if "capacity" in item or "allocatable" in item:
        return _from_object({"kind": "Node", "status": item})
    if item and "memory" in item and any("/" in str(key) for key in item):  # one of the two, by jq
        return NodeView("", {}, _strings(item), None, "object")
    if item and all("/" in str(key) and not isinstance(value, dict | list) for key, value in item.items()):
        return NodeView(text_of(item.get("kubernetes.io/hostname")), _strings(item), None, None, "labels")
    return None


class _Building:
    """A node being read out of lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.labels: dict[str, str] = {}
        self.resources: dict[str, dict[str, str]] = {}

    def is_full(self, key: str) -> bool:
        """Whether capacity and allocatable of a resource are known: lines found by grep name neither, and come in this order."""
        return all(key in self.resources.get(where, {}) for where in ("capacity", "allocatable"))

    def add(self, where: str, key: str, value: str) -> None:
        """Take an amount in. Without a section the first is capacity, the second allocatable."""
        section = where or ("allocatable" if key in self.resources.get("capacity", {}) else "capacity")
        self.resources.setdefault(section, {})[key] = value

    def view(self) -> NodeView | None:
        if not self.labels and not self.resources:
            return None
        capacity, allocatable = self.resources.get("capacity"), self.resources.get("allocatable")
        return NodeView(self.name or self.labels.get("kubernetes.io/hostname", ""), self.labels, capacity, allocatable, "lines")


def _from_lines(text: str) -> list[NodeView]:
    """``kubectl describe node`` (whole or cut) and lists of ``key: value`` or ``key=value`` lines."""
    building = [_Building("")]
    section, depth = "", 0
    asked: int | None = None
    for raw in text.split("\n"):
        line = raw[:4096]
        if line.startswith("#"):
            continue
        if name := _NAME.match(line):
            building.append(_Building(name[1]))
        if asked is not None and line.strip() and _indent(line) <= asked:
            asked = None
        if asked is None and _ASKED.match(line):
            asked = _indent(line)  # what a pod asks for is nothing that a node has
        if asked is not None:
            continue
        if match := _SECTION.match(line):
            section, depth = match[1].lower(), _indent(line)
        elif _OTHER_SECTION.match(line):
            section, depth = line.partition(":")[0].lower(), 0
        if section in ("taints", "annotations"):
            continue
        resources = section in ("capacity", "allocatable")
        inside = resources and (_indent(line) > depth or _SECTION.match(line) is not None)
        for pair in _PAIR.finditer(line):
            key, value = pair["key"], pair["quoted"] if pair["quoted"] is not None else pair["bare"]
            if _TAINT_EFFECT.search(value):
                continue
            if inside or _RESOURCE.match(key) or (_OTHER_DEVICES.fullmatch(key) and value.isdigit()):
                if not resources and building[-1].is_full(key):
                    building.append(_Building(""))
                building[-1].add(section if resources else "", key, value)
            elif section == "labels" or _LABEL.match(key):
                building[-1].labels[key] = value
    return [view for node in building if (view := node.view()) is not None]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _from_table(text: str) -> list[NodeView]:
    """``kubectl get nodes -o custom-columns``: columns by their heads, ``<none>`` for an absent label."""
    nodes: list[NodeView] = []
    heads: list[str] = []
    for raw in text.split("\n"):
        line = raw[:4096].rstrip()
        if _COLUMNS.match(line):
            heads = [_NO_WORD.sub("", head).upper() for head in line.split()]
            continue
        cells = line.split()
        if not heads or len(cells) != len(heads):
            continue
        row = dict(zip(heads, cells, strict=True))
        labels = {COLUMNS["labels"][head]: cell for head, cell in row.items() if head in COLUMNS["labels"] and cell != "<none>"}
        units = {COLUMNS["resources"][head]: cell for head, cell in row.items() if head in COLUMNS["resources"] and cell != "<none>"}
        if labels or units:
            nodes.append(NodeView(row["NAME"], labels, units if units else None, None, "table"))
    return nodes
