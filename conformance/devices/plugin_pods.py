"""Pods of device plugins: whose devices each registers, and whether the plugin of a resource is away from a node."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.devices.words_of_nodes import words_by_node
from conformance.scope.agents import is_ready
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.nodes.polarity import Health
from fixtures.model.platform.components import VENDORS, mounts_plugin_folder, vendor_of
from fixtures.model.since import said
from fixtures.text.sentences import in_order, listed


def plugin_vendor(pod: Pod) -> str:
    """Whose devices a plugin registers, by its owner's and its images' names; empty if it is none of accelerators, or of an unknown one."""
    owner = pod.controller
    return vendor_of(owner.name if owner else pod.metadata.name, [container.image for container in pod.spec.containers])


def plugin_pods(scope: Scope, node: Node) -> Iterator[tuple[str, Pod]]:
    """Pods of device plugins on a node that have not ended, with the vendor whose devices they register."""
    for pod in scope.snapshot.pods_by_node.get(node.name, ()):
        if not pod.finished and mounts_plugin_folder(pod.spec) and (vendor := plugin_vendor(pod)):
            yield vendor, pod


def why_none_allocatable(scope: Scope, node: Node, resource: str) -> str:
    """Why a node has devices of a resource and can allocate none, as a clause: its plugin is away, as far as pods show.

    Facts: docs/facts/resources.md#allocatable.
    """
    away = "its device plugin is not registered with the kubelet"
    listing = scope.snapshot.listing("pods")
    domain = resource.partition("/")[0]
    vendor = next((vendor for vendor, known, _ in VENDORS if known == domain), "")
    served = [name for name, count in scope.device_allocatable(node).items() if count and name.partition("/")[0] == domain]
    if served:
        return f"its device plugin serves {listed(in_order(served), 3)} and no longer {resource}, or calls every such device unhealthy"
    if listing.trouble or not listing.collected or not vendor:
        unread = " (the snapshot holds no pods that would tell)" if scope.snapshot.lacks("pods") else ""
        return f"{away}, or calls every device unhealthy{unread}"
    own = [pod for known, pod in plugin_pods(scope, node) if known == vendor]
    if not own:
        return (
            f"{away}: no pod of it is on the node"
            if vendor in scope.cached(_served_vendors)
            else f"{away}, or calls every device unhealthy"
        )
    if unready := [pod for pod in own if not is_ready(pod)]:
        return f"{away}: its pod {unready[0].namespace}/{unready[0].name} is {_state(unready[0])}{_last_words(unready[0])}"
    return f"{away}, or calls every device unhealthy, although its pod {own[0].namespace}/{own[0].name} is Ready"


def _served_vendors(scope: Scope) -> frozenset[str]:
    """Vendors whose device plugin has a pod anywhere."""
    return frozenset(plugin_vendor(pod) for pod in scope.snapshot.pods if mounts_plugin_folder(pod.spec))


def faults_of_devices(scope: Scope, node: Node) -> str:
    """What conditions and labels of a node say of a fault of its devices, as a clause with ``;`` before it, or empty."""
    faults = [word.text for word in words_by_node(scope).get(node.name, ()) if word.health is Health.FAULT and word.reading.devices]
    return f"; the node says {listed(faults, 3)}" if faults else ""


def _last_words(pod: Pod) -> str:
    """What a container of a plugin wrote when it ended last, which names a lost device: a plugin may exit for one."""
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        for state in (status.state, status.last_state):
            if words := said(text_of(mapping(mapping(state).get("terminated")).get("message")).strip(), 200):
                return f", and said when it ended: {words}"
    return ""


def _state(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp:
        return "being deleted"
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        if reason := text_of(mapping(mapping(status.state).get("waiting")).get("reason")):
            return f"not Ready ({reason[:60]})"
    return f"not Ready ({pod.status.phase or 'no phase'})"
