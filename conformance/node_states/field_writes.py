"""When a field of a node was last written, and by which program (docs/facts/nodes.md#field-managers).

Lists of nodes are kept without ``metadata.managedFields``. A saved snapshot may hold it; a live cluster is asked for single nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.times import moment
from fixtures.kubernetes.untyped import mapping
from fixtures.snapshot.state import Snapshot

FieldsByNode = Mapping[str, object]
"""``metadata.managedFields`` by node, as the API has it."""

MOST_ASKED = 32
"""Of how many nodes a live cluster is asked at most: requests must not grow with the cluster."""

MERGED = "ancient-changes"
SPEC_UNSCHEDULABLE = ("f:spec", "f:unschedulable")
SPEC_TAINTS = ("f:spec", "f:taints")


class Write(msgspec.Struct, frozen=True):
    """The newest write of a manager that owns a field: not earlier than that of the field."""

    at: float
    manager: str


def label(key: str) -> tuple[str, ...]:
    """The path of a label."""
    return ("f:metadata", "f:labels", f"f:{key}")


def fields_of(snapshot: Snapshot, nodes: Iterable[Node], cluster: Callable[[], Cluster]) -> FieldsByNode:
    """managedFields of these nodes, where they can be had: from the snapshot, else each node is read from the cluster, once."""
    names = [node.name for node in nodes]
    missing = [name for name in names if name not in snapshot.managed_fields]
    if missing and not snapshot.offline and (room := MOST_ASKED - len(snapshot.managed_fields)) > 0:
        snapshot.managed_fields |= ask(cluster(), missing[:room])
    return {name: snapshot.managed_fields[name] for name in names if name in snapshot.managed_fields}


def ask(cluster: Cluster, names: Iterable[str]) -> dict[str, object]:
    """managedFields of single nodes of a live cluster, without those that cannot be read."""
    found: dict[str, object] = {}
    for name in names:
        try:
            answer = cluster.get("nodes", name)
            if answer.ok:
                found[name] = mapping(answer.json().get("metadata")).get("managedFields")
        except ApiTrouble:
            continue
    return found


def last_write(fields: object, path: tuple[str, ...]) -> Write | None:
    """The newest write of the field at ``path`` (``("f:spec", "f:taints")``), or None where no entry owns it."""
    entries = [mapping(entry) for entry in fields] if isinstance(fields, list) else []
    writes = [Write(at, str(entry.get("manager") or "")) for entry in entries if owns(entry, path) if (at := moment(entry.get("time")))]
    return max(writes, key=lambda write: write.at, default=None)


def owns(entry: Json, path: tuple[str, ...]) -> bool:
    """Whether an entry of managedFields names the field at ``path``."""
    here = mapping(entry.get("fieldsV1"))
    for name in path:
        if name not in here:
            return False
        here = mapping(here[name])
    return True
