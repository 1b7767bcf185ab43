"""The peers of an accelerator node: nodes that somebody set up alike, on machines of one kind.

What people choose tells nodes apart: product, type of machine, pool, role, and the configuration that they asked for. What breaks does
not: counts, drivers and images are compared, so they never divide a pool. Facts: docs/facts/nodes.md#pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.devices.availability import withheld
from conformance.devices.products import NVIDIA_PRODUCT, PRODUCT_LABELS
from conformance.devices.vendors import vendors_of
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.models import Node
from fixtures.model.nodes.machines import INSTANCE_TYPE, machine_of

_MACHINE = "nvidia.com/gpu.machine"
_CONFIGURED = (
    "nvidia.com/mig.config",
    "nvidia.com/mig.strategy",
    "nvidia.com/device-plugin.config",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.workload.config",
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "amd.com/gpu.compute-memory-partition",
    "dcm.amd.com/gpu-config-profile",
)
"""Labels of what devices were cut or shared into: they decide which resources a node offers."""

Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""Product and machine; vendors where no discovery label names a product; and everything else that tells pools apart."""


def pools_of_peers(scope: Scope) -> list[list[Node]]:
    """Accelerator nodes by pool, both in order of name. Nodes whose devices are withheld on purpose, and virtual ones, are in none."""
    nodes = [node for node in scope.accelerator_nodes if not (withheld(scope, node) or scope.virtual(node))]
    told_apart = _pool_labels(nodes, scope.policy.accelerators.pool_labels)
    found: dict[Key, list[Node]] = {}
    vendors: dict[Key, set[str]] = {}
    for node in nodes:
        own = vendors_of(node, scope)
        key = (_discovered(node), "" if _discovered(node) else " ".join(sorted(own)), tuple(_setup(node, told_apart)))
        found.setdefault(key, []).append(node)
        vendors.setdefault(key, set()).update(own)
    for key in sorted(key for key in found if not key[0]):  # its discovery labels or devices went: it stays with those that are like it
        alike = [other for other in found if _is_more(other, key) and (not vendors[key] or vendors[key] & vendors[other])]
        if len(alike) == 1:
            found[alike[0]] += found.pop(key)
    return sorted((sorted(pool, key=lambda node: node.name) for pool in found.values()), key=lambda pool: pool[0].name)


def _is_more(other: Key, key: Key) -> bool:
    """Whether a pool is like another in its setup, and more is known of its devices."""
    return other[2] == key[2] and (bool(other[0]) or (bool(other[1]) and not key[1]))


def _discovered(node: Node) -> str:
    labels = node.metadata.label
    product = next((labels[key] for key in (NVIDIA_PRODUCT, *PRODUCT_LABELS) if key != INSTANCE_TYPE and labels.get(key)), "")
    return f"{product} {labels.get(_MACHINE, '')}".strip()


def _setup(node: Node, pool_labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    labels = node.metadata.label
    for key in (*pool_labels, *_CONFIGURED):
        if value := labels.get(key):
            yield key, value
    yield from machine_of(node)


def keys_of(nodes: Iterable[Node]) -> set[str]:
    """Keys of labels of nodes. Nodes of a fleet have the same hundred, so patterns are matched with these and not with each node's."""
    return set().union(*(node.metadata.label for node in nodes))


def _pool_labels(nodes: list[Node], globs: tuple[str, ...]) -> list[str]:
    """Keys that name pools here. A label that has another value on each node names the node."""
    values: dict[str, list[str]] = {key: [] for key in keys_of(nodes) if matches(key, globs)}
    for node in nodes:
        labels = node.metadata.label
        for key, found in values.items():
            if key in labels:
                found.append(labels[key])
    return sorted(key for key, found in values.items() if len(found) < 2 or len(set(found)) < len(found))
