"""Sorts of devices: what tells the devices of one node from those of another, for whoever asks one node of each sort."""

from __future__ import annotations

import re
from functools import lru_cache

from conformance.outputs.node_labels import advertisement
from fixtures.models import Node

_MODEL = re.compile(
    r"[/.\-_](?:product(?:[.\-_]name)?|model|accelerator(?:[.\-_](?:name|type))?|(?:instance|machine)[.\-_]type)\Z"
    r"|(?:gpu|tpu|npu|xpu|accelerator).*[/.\-_](?:name|type|class|family|sku|kind|memory|vram)\Z"
)
"""Labels that name a model of device or of machine, whoever writes them: ``nvidia.com/gpu.product``, ``gpu.nvidia.com/model``."""

_LONGEST_KEY = 317
"""Characters of a label's key (prefix, slash, name); what is longer is none that Kubernetes took."""

GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
"""GKE shares devices without GFD's labels (facts 7.2)."""

_NOT_OF_DEVICES = ("feature.node.kubernetes.io/", "nvidia.com/mig-")
_SHARING = (
    "cloud.google.com/gke-gpu-sharing-strategy",
    GKE_CLIENTS,
    "nvidia.com/device-plugin.config",
)
"""Labels by which nodes are told how to share, beside those of GPU Feature Discovery (facts 1.2, 7.2)."""


def sort_of(node: Node, resource: str) -> tuple[str, ...]:
    """What tells a node's units of a resource from another node's; equal for nodes of which one can speak for the other.

    The resource, every label that names a model, and how the devices are shared. Without such a label, how many there are.
    """
    labels = node.metadata.label
    models = [f"{key}={labels[key]}" for key in sorted(labels) if _names_model(key)]
    view, plain = advertisement(labels), resource.removesuffix(".shared")
    sharing = [f"{item.product.text} {item.sharing_strategy}x{item.factor}" for item in (view.gpu, *view.mig) if item.resource == plain]
    sharing += [f"{key}={labels[key]}" for key in _SHARING if key in labels]
    return (resource, *(models or [str(node.status.capacity.get(resource, ""))]), *sharing)


@lru_cache(maxsize=4096)  # nodes carry the same keys
def _names_model(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _MODEL.search(key) is not None and not key.startswith(_NOT_OF_DEVICES)
