"""Marks: labels and taints that show that a node had accelerators, when it no longer offers any."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fixtures.kubernetes.models import Node

EMPTY = "capacity of "
"""How the mark of a resource that a node once had begins: ``capacity of amd.com/gpu is 0``."""


def marks_of(node: Node, is_device: Callable[[str], bool], is_mark: Callable[[str], bool]) -> tuple[str, ...]:
    """Marks of a node whose capacity offers no device, labels first.

    A label ``key=value`` that ``is_mark`` knows, a taint whose key is a device resource, a device resource that the kubelet
    keeps at 0 after its plugin went.
    """
    labels = (f"{key}={value}" for key, value in sorted(node.metadata.label.items()))
    found = [f"label {text}" for text in labels if is_mark(text)]
    found += [f"taint {taint.key}" for taint in node.spec.taints if is_device(taint.key)]
    found += [f"{EMPTY}{name} is 0" for name in sorted(node.status.capacity) if is_device(name)]
    return tuple(found)


def is_faint(marks: Iterable[str]) -> bool:
    """Whether nothing but capacities of 0 name the node: one source, the kubelet's memory."""
    return all(mark.startswith(EMPTY) for mark in marks)
