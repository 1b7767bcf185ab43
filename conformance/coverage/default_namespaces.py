"""Namespaces that are the platform's by a default name alone, because what would prove it was not read.

Whoever creates one of that name is exempt from rules for tenants, so a run names those that it has believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.requirement import Requirement
from fixtures.model.cluster import Scope
from fixtures.text.sentences import listed


def notes(scope: Scope, judged: Iterable[Requirement]) -> Iterator[str]:
    """A sentence that names those that run pods with devices or on accelerator nodes, or all of them where pods or nodes were not read.

    None where no requirement that was judged tells tenants from the platform.
    """
    if any(one.tells_tenants for one in judged) and (found := sorted(_skipped(scope))):
        only = "only the default list tenants.infrastructure says it is the platform's. Confirm it in the policy."
        yield f"Tenant rules were skipped in {listed(found)}: {only}"


def _skipped(scope: Scope) -> set[str]:
    nodes, pods, platform = scope.snapshot.listing("nodes"), scope.snapshot.listing("pods"), scope.platform
    if nodes.trouble or pods.trouble or not (nodes.collected and pods.collected):
        names = [item.name for item in scope.snapshot.listing("namespaces").items]
        return {name for name in names if platform.of(name).unread or (platform.of(name).free and not scope.is_tenant(name))}
    accelerators = {node.name for node in scope.accelerator_nodes}
    running = [pod for pod in pods.items if not pod.finished and platform.of(pod.namespace).unread]
    return {pod.namespace for pod in running if pod.spec.node_name in accelerators or scope.device_demand_of(pod).devices}
