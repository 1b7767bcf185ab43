"""Pods of DRA drivers: which DaemonSets are kubelet plugins of DRA, and which of them serves a driver. Pure.

Facts: docs/facts/dra.md#kubelet-plugins.
"""

from __future__ import annotations

import re

from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Pod, PodSpec
from fixtures.kubernetes.untyped import mapping, text_of

_REGISTRY = "/plugins_registry"
_STORAGE = re.compile(r"(?i)(?:\A|[^a-z])csi(?:\Z|[^a-z])")


def is_kubelet_plugin(spec: PodSpec) -> bool:
    """Whether a pod registers a plugin of DRA with the kubelet: it mounts the kubelet's registry, and is no storage driver."""
    paths = [text_of(mapping(volume.get("hostPath")).get("path")).rstrip("/") for volume in spec.volumes or ()]
    if not any(path.endswith(_REGISTRY) for path in paths):
        return False
    words = [*paths, *(word for container in spec.every_container() for word in (container.name, container.image.partition("@")[0]))]
    return not any(_STORAGE.search(word) for word in words)


def kubelet_plugins(scope: Scope) -> list[Pod]:
    """Pods of DRA drivers' kubelet plugins that are not finished. Empty where pods were not read."""
    return scope.once(_kubelet_plugins)


def _kubelet_plugins(scope: Scope) -> list[Pod]:
    return [pod for pod in scope.snapshot.listing("pods").items if not pod.finished and is_kubelet_plugin(pod.spec)]
