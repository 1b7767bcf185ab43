"""Namespaces that are the platform's by a default name alone: whoever creates one of that name is exempt from rules for tenants.

The names are usual ones, and a product that is not installed leaves its name free. So a run tells which of them it has believed.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.scope.scope import Scope
from fixtures.text.sentences import listed


def notes(scope: Scope) -> Iterator[str]:
    """A sentence that names those that run pods with devices or on accelerator nodes; none where pods or nodes were not read."""
    nodes, pods = scope.snapshot.listing("nodes"), scope.snapshot.listing("pods")
    if nodes.trouble or pods.trouble or not (nodes.collected and pods.collected):
        return
    accelerators = {node.name for node in scope.accelerator_nodes}
    running = [pod for pod in pods.items if not pod.finished and scope.platform.is_default_name(pod.namespace)]
    found = {pod.namespace for pod in running if pod.spec.node_name in accelerators or scope.device_demand_of(pod).devices}
    if found:
        where = "in namespaces that are the platform's by a default name of tenants.infrastructure alone, which nothing proves"
        yield f"no rule for tenants was applied {where}: {listed(sorted(found))}"
