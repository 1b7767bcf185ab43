"""What kind of machine a node is, as far as the node tells. Facts: docs/facts/nodes.md#pools."""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.labels import keys_with
from fixtures.kubernetes.models import Node

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_NO_TYPES = ("k3s", "rke2", "k0s", "unknown", "")
"""Instance types that say nothing of the machine: distributions write their own name."""

_ROLE = "node-role.kubernetes.io/"


def type_of(node: Node) -> str:
    """The type of machine that a node's label names; empty where it names none."""
    named = node.metadata.label.get(INSTANCE_TYPE, "")
    return "" if named in _NO_TYPES else named


def machine_of(node: Node) -> Iterator[tuple[str, str]]:
    """What nodes of one kind of machine and one role have in common."""
    labels = node.metadata.label
    yield _ROLE, ",".join(sorted(keys_with(labels, _ROLE)))
    if machine := type_of(node):
        yield INSTANCE_TYPE, machine
    else:  # nodes of another size are other machines
        yield "cpu", str(node.status.capacity.get("cpu", ""))
    yield "kubernetes.io/arch", labels.get("kubernetes.io/arch", "")
