"""Marks: labels and taints that show that a node had accelerators, when it no longer offers any."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping

from conformance.scope.machines import machine_of, type_of
from fixtures.kubernetes.models import Node

EMPTY = "capacity of "
"""How the mark of a resource that a node once had begins: ``capacity of amd.com/gpu is 0``."""

_GRAPHICS = {
    "AMD": re.compile(r"label feature\.node\.kubernetes\.io/pci-(?:(?:03[08]0|0403)_)?1002(?:_[0-9a-f]{4})*\.present=true"),
    "Intel": re.compile(r"label feature\.node\.kubernetes\.io/pci-0380_8086(?:_[0-9a-f]{4})*\.present=true"),
}
"""Marks that graphics of a CPU, and their sound, have as well as cards (docs/facts/vendors-and-clouds.md#pci-vendors)."""

_SERVED = {
    "AMD": re.compile(r"(?:beta\.|operator\.|gpu\.)?amd\.com(?:/.*)?|feature\.node\.kubernetes\.io/(?:amd-v?gpu|pci-1200_1002.*)"),
    "Intel": re.compile(r"gpu\.intel\.com(?:/.*)?|intel\.feature\.node\.kubernetes\.io/gpu.*"),
}
"""Names that only cards of a maker have, and what serves them."""

_ADAPTERS = ("feature.node.kubernetes.io/pci-15b3.present", "feature.node.kubernetes.io/rdma.available")


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


def adapter_labels(node: Node) -> list[str]:
    """Labels of Node Feature Discovery that a node has of adapters for a fabric (docs/facts/rdma.md#network-operator)."""
    return [label for label in _ADAPTERS if node.metadata.label.get(label) == "true"]


def is_faint(marks: Iterable[str]) -> bool:
    """Whether nothing but capacities of 0 name the node: one source, the kubelet's memory."""
    return all(mark.startswith(EMPTY) for mark in marks)


def makers_served(words: Iterable[str]) -> frozenset[str]:
    """Makers whose cards a cluster serves, by its keys of labels, names of resources and drivers, and API groups."""
    known = list(words)
    return frozenset(maker for maker, pattern in _SERVED.items() if any(map(pattern.fullmatch, known)))


def may_be_of_cpu(mark: str, served: Container[str]) -> bool:
    """Whether graphics of a CPU have a mark too, and nothing serves cards of their maker."""
    return any(maker not in served and pattern.fullmatch(mark) for maker, pattern in _GRAPHICS.items())


class ServedMachines:
    """By machine, the makers whose cards nodes have. ``drivers`` are the DRA drivers that publish for each node.

    One node has a card, another of the same size only its CPU's graphics: both may have the same label of a PCI device. So a node is like
    one that has a card where both name one type of machine, or else where nothing tells them apart: neither size, role and PCI labels,
    nor a label that only cards get. Facts: docs/facts/vendors-and-clouds.md#pci-vendors.
    """

    def __init__(self, nodes: Iterable[Node], drivers: Mapping[str, Iterable[str]]) -> None:
        self._makers: dict[object, set[str]] = {}
        for node in nodes:
            labelled = makers_served(node.metadata.label)
            makers = labelled | makers_served([*node.status.capacity, *drivers.get(node.name, ())])
            if makers:
                self._makers.setdefault(node.name, set()).update(makers)
                self._makers.setdefault(_alike(node), set()).update(makers if type_of(node) else makers - labelled)

    def makers(self, node: Node) -> frozenset[str]:
        """Makers of whose cards the node itself tells, or a node like it."""
        return frozenset(self._makers.get(node.name, set()) | self._makers.get(_alike(node), set()))


def _alike(node: Node) -> object:
    """What nodes have in common that are taken for alike."""
    if machine := type_of(node):
        return (machine,)
    labels = (f"label {key}={value}" for key, value in node.metadata.label.items())
    return (*machine_of(node), frozenset(text for text in labels if may_be_of_cpu(text, ())))
