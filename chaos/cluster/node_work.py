"""Nodes of the API as the model reads them: whether each may work, who cordoned it, and which of its conditions tell a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chaos.cluster.requests import field
from fixtures.kubernetes.models import Condition, Json
from fixtures.model.nodes.health import KUBELETS, tells_fault
from fixtures.model.nodes.holds import Cordon, Kind, cordon_of
from fixtures.model.nodes.pools import labelled_product
from fixtures.model.nodes.work import NodeWork, as_node, fields_of_json, work_by_node


def work_of(nodes: Iterable[Json], is_fence: Callable[[str], bool], is_device: Callable[[str], bool] | None = None) -> dict[str, NodeWork]:
    """Each node by name. ``is_fence``, ``is_device`` as for :func:`work_by_node`. Raises ``msgspec.ValidationError``."""
    read = [(as_node(node), fields_of_json(node)) for node in nodes]
    fields = {node.name: written for node, written in read}
    return work_by_node([node for node, _ in read], is_fence=is_fence, is_device=is_device, pool_of=labelled_product, fields=fields)


def is_unschedulable(node: Json) -> bool:
    """Whether ``spec.unschedulable`` is set: what ``kubectl cordon`` writes and ``kubectl uncordon`` takes away."""
    return field(node, "spec", "unschedulable") is True


def cordon(node: Json) -> Cordon | None:
    """The cordon of a node by its spec; None for one without. Raises ``msgspec.ValidationError``."""
    return cordon_of(as_node(node), fields_of_json(node)) if is_unschedulable(node) else None


def named_cordoner(node: Json) -> str:
    """The person or program, neither remediation nor this suite, that the API server names for the cordon; empty when there is none."""
    found = cordon(node)
    return found.owner if found and found.kind is Kind.OTHER else ""


def fault_conditions(node: Json) -> list[Condition]:
    """Conditions of a node that tell a fault, or may, without those of the kubelet itself. Raises ``msgspec.ValidationError``."""
    known = as_node(node)
    return [item for item in known.status.conditions if item.type not in KUBELETS and tells_fault(item, known)]
