"""Pods of DRA drivers: which DaemonSets are kubelet plugins of DRA, and which of them serves a driver. Pure.

Facts: docs/facts/dra.md#kubelet-plugins.
"""

from __future__ import annotations

import re

import msgspec

from conformance.scope.agents import is_ready
from conformance.scope.components import UNPROVEN
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Pod, PodSpec
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.placement.affinity import names_nodes
from fixtures.text.sentences import listed

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
    """Pods of DRA drivers' kubelet plugins that are not finished, where agents are. Empty where pods were not read."""
    return [pod for pod in scope.cached(_look_like_plugins) if scope.platform_workloads.admits(pod.namespace)]


def _look_like_plugins(scope: Scope) -> list[Pod]:
    return [pod for pod in scope.snapshot.listing("pods").items if not pod.finished and is_kubelet_plugin(pod.spec)]


_GENERIC = frozenset(["com", "io", "net", "org", "dev", "k8s", "x", "sigs", "dra", "driver", "kubernetes"])
"""Words of drivers' names that tell no driver from another."""


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a driver's pod on a node: that it is Ready, what is wrong, or why nobody can tell."""

    observed: str = ""
    problem: str = ""
    unsure: str = ""


class DriverPods:
    """Pods of DRA drivers by driver and node.

    A driver's pods are those of the owner (a DaemonSet) whose kubelet plugins run on nodes for which the driver publishes. Where several
    owners do, words of the driver's name tell; where these do not, all of them count. Owners are where agents are: anybody can copy one.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._owners: dict[tuple[str, str], dict[str, list[Pod]]] = {}
        self._words: dict[tuple[str, str], str] = {}
        self._strangers: set[tuple[str, str]] = set()
        for pod in scope.cached(_look_like_plugins):
            owner = pod.controller
            key = (pod.namespace, owner.name if owner is not None and owner.kind == "DaemonSet" else "")
            if not scope.platform_workloads.admits(pod.namespace):
                self._strangers.add(key)
                continue
            self._owners.setdefault(key, {}).setdefault(pod.spec.node_name, []).append(pod)
            self._words.setdefault(key, _text(key, pod.spec))
        for item in scope.snapshot.listing("apps/daemonsets").items:
            if is_kubelet_plugin(item.spec.template.spec) and scope.platform_workloads.admits(item.namespace):
                key = (item.namespace, item.name)
                self._owners.setdefault(key, {})
                self._words.setdefault(key, _text(key, item.spec.template.spec))
        self._nodes: dict[str, set[str]] = {}
        for entry in scope.slices.every:
            self._nodes.setdefault(entry.driver, set()).update({entry.node, *(device.node for device in entry.devices)} - {""})
        self._chosen: dict[str, list[tuple[str, str]]] = {}

    def owners(self, driver: str) -> list[tuple[str, str]]:
        """Namespaces and names of the DaemonSets that may serve a driver; empty where none looks like it."""
        if driver not in self._chosen:
            scores = self._scores(driver)
            best = max(scores.values(), default=0)
            named = [key for key, score in scores.items() if score and score == best]
            self._chosen[driver] = sorted(named or self._near(driver))
        return self._chosen[driver]

    def _scores(self, driver: str) -> dict[tuple[str, str], int]:
        words = set(re.split(r"[^a-z0-9]+", driver.lower())) - _GENERIC - {""}
        return {key: sum(word in text for word in words) for key, text in self._words.items()}

    def _near(self, driver: str) -> list[tuple[str, str]]:
        """Owners whose pods run where the driver publishes, without those that another driver's name names."""
        others = {key for other in self._nodes if other != driver for key, score in self._scores(other).items() if score}
        return [key for key, pods in self._owners.items() if key not in others and self._nodes.get(driver, set()) & pods.keys()]

    def nodes_of(self, driver: str) -> set[str]:
        """Nodes with a pod of the driver."""
        return {node for key in self.owners(driver) for node in self._owners[key]} - {""}

    def without_devices(self, driver: str) -> dict[str, Pod]:
        """Nodes that nothing calls accelerator nodes, with the pod of the driver there: somebody labelled them for its DaemonSet.

        A DaemonSet for every node says nothing of one.
        """
        aimed = {
            (item.namespace, item.name)
            for item in self._scope.snapshot.listing("apps/daemonsets").items
            if names_nodes(item.spec.template.spec)
        }
        owners = [key for key in self.owners(driver) if key in aimed]
        return {node: pods[0] for key in owners for node, pods in self._owners[key].items() if node and node not in self._scope.sources}

    def of(self, driver: str, node: str) -> Pod | None:
        """The driver's pod on a node, a Ready one if there is."""
        pods = [pod for key in self.owners(driver) for pod in self._owners[key].get(node, ())]
        return next((pod for pod in pods if is_ready(pod)), pods[0] if pods else None)

    def state(self, driver: str, node: str) -> PodState:
        """What is known of the driver's pod on a node."""
        listing = self._scope.snapshot.listing("pods")
        if listing.trouble or not listing.collected:
            return PodState(unsure=f"whether a pod of {driver} runs on {node} is not known: pods were not read")
        owners = self.owners(driver)
        if not owners:
            named = listed([f"{namespace}/{name}" for namespace, name in sorted(self._strangers)], 3)
            but = f" where agents are ({named} may be it: {UNPROVEN})" if named else ""
            return PodState(unsure=f"no pod or DaemonSet looks like a kubelet plugin of {driver}{but}: whether it still runs is not known")
        pod = self.of(driver, node)
        names = listed([f"{namespace}/{name}" for namespace, name in owners])
        if pod is None:
            return PodState(problem=f"no pod of {driver} ({names}) runs on {node}: new claims are bound there and their pods never start")
        if is_ready(pod):
            return PodState(observed=f"{pod.namespace}/{pod.name} Ready")
        what = "being deleted" if pod.metadata.deletion_timestamp else "not Ready"
        message = f"{pod.namespace}/{pod.name}, the pod of {driver} on {node}, is {what}: new claims are bound there and their pods wait"
        return PodState(problem=message)


def _text(key: tuple[str, str], spec: PodSpec) -> str:
    parts = [*key, *(word for one in spec.containers for word in (one.name, one.image.partition("@")[0].partition(":")[0]))]
    return " ".join(parts).lower()
