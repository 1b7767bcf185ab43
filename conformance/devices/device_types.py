"""Types of devices, so that a probe can ask one node of each type."""

from __future__ import annotations

import re
from functools import lru_cache

from fixtures.kubernetes.models import Node
from fixtures.model.devices.node_labels import NodeAdvertisement

_MODEL = re.compile(
    r"[/.\-_](?:product(?:[.\-_]name)?|model|accelerator(?:[.\-_](?:name|type))?|(?:instance|machine)[.\-_]type)\Z"
    r"|(?:gpu|tpu|npu|xpu|accelerator).*[/.\-_](?:name|type|class|family|sku|kind|memory|vram)\Z"
)
"""Labels of any vendor that name the model of a device or machine: ``nvidia.com/gpu.product``, ``gpu.nvidia.com/model``."""

_LONGEST_KEY = 317
"""Most characters that a label's key can have in Kubernetes (docs/facts/kubernetes-limits.md#sizes)."""

GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
"""GKE shares devices without GFD's labels (docs/facts/vendors-and-clouds.md#gke)."""

_NOT_OF_DEVICES = ("feature.node.kubernetes.io/", "nvidia.com/mig-")
_SHARING = ("cloud.google.com/gke-gpu-sharing-strategy", GKE_CLIENTS, "nvidia.com/device-plugin.config")
"""Labels that configure how a node shares devices, besides those of GPU Feature Discovery.

Facts: docs/facts/labels.md#operator-labels, docs/facts/vendors-and-clouds.md#gke.
"""


def device_type(node: Node, view: NodeAdvertisement, resource: str) -> tuple[str, ...]:
    """What tells a node's units of a resource from another node's; equal for nodes of which one can speak for the other.

    The resource, every label that names a model, and how the devices are shared. Without such a label, how many there are.
    """
    labels = node.metadata.label
    models = [f"{key}={labels[key]}" for key in sorted(labels) if _names_model(key)]
    plain = resource.removesuffix(".shared")
    sharing = [f"{item.product.text} {item.sharing_strategy}x{item.factor}" for item in (view.gpu, *view.mig) if item.resource == plain]
    sharing += [f"{key}={labels[key]}" for key in _SHARING if key in labels]
    return (resource, *(models or [str(node.status.capacity.get(resource, ""))]), *sharing)


@lru_cache(maxsize=4096)  # nodes carry the same keys
def _names_model(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _MODEL.search(key) is not None and not key.startswith(_NOT_OF_DEVICES)
