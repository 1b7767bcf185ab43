"""Whether one GPU of a node may be reset without its peers, by the labels that feature discovery gives the node.

GPUs that NVLink joins are reset together before Ampere, and behind NVSwitch on Ampere unless Fabric Manager runs, which the API does
not tell. Hopper and later reset one by one. What the labels do not say is refused: a reset asked for anyway would hit the peers.

Facts: docs/facts/device-health.md#gpu-reset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fixtures.kubernetes.models import Json

COUNT, FAMILY, PRODUCT, CLIQUE = (f"nvidia.com/gpu.{name}" for name in ("count", "family", "product", "clique"))

_ALONE = frozenset({"ada-lovelace", "hopper", "blackwell", "rubin"})
_JOINED = frozenset({"pascal", "volta", "turing"})
_WITHOUT_NVLINK = re.compile(r"(?i)\bPCIE\b|\bTesla-(?:T4|P4|P40)\b")
_NO_CLUSTER = re.compile(r"[0-]+\.[0-9]+")
"""A clique of no cluster: the node's GPUs are joined to those of no other node."""


def reset_obstacle(labels: Mapping[str, str], elsewhere: Iterable[str] = ()) -> str:
    """Why a GPU of the node cannot be reset alone, or nobody knows; empty when it can. ``elsewhere``: cliques of the other nodes."""
    clique = labels.get(CLIQUE, "")
    if clique and not _NO_CLUSTER.fullmatch(clique) and clique in set(elsewhere):
        return f"NVLink joins its GPUs to those of other nodes ({CLIQUE}={clique})"
    count, family, product = (labels.get(key, "") for key in (COUNT, FAMILY, PRODUCT))
    if not (count.isascii() and count.isdigit() and int(count)):
        return f"how many GPUs it has is not known (label {COUNT})"
    if int(count) == 1 or family in _ALONE or (product and _WITHOUT_NVLINK.search(product)):
        return ""
    if family == "ampere" and product:
        return "it may have NVSwitch, and whether Fabric Manager runs cannot be told" if "SXM" in product.upper() else ""
    if family in _JOINED:
        return f"NVLink may join its {count} GPUs ({product or family}), which are then reset together"
    return f"how NVLink joins its {count} GPUs is not known (labels {FAMILY} and {PRODUCT})"


def reset_obstacles(nodes: Iterable[Json]) -> dict[str, str]:
    """:func:`reset_obstacle` of every node, by name."""
    labels = {str(node["metadata"]["name"]): dict(node["metadata"].get("labels") or {}) for node in nodes}
    return {
        name: reset_obstacle(own, [other.get(CLIQUE, "") for where, other in labels.items() if where != name])
        for name, own in labels.items()
    }
