"""Pods that reach the fabric through their host, where the policy says that the platform has no other way."""

from __future__ import annotations

from fixtures.model.cluster import Scope, matches
from fixtures.model.demand.template import Template


def by_host(scope: Scope, template: Template) -> bool:
    """Whether the policy excuses a pod: of a named tenant, on the host's network, and alone with all devices of its node."""
    named = template.spec.host_network and matches(template.namespace, scope.policy.tenants.host_rdma)
    return bool(named) and takes_whole_nodes(scope, template)


def takes_whole_nodes(scope: Scope, template: Template) -> bool:
    """Whether a pod takes every device of its node, and so sees none of others, privileged or not.

    A template that is bound to no node must take the devices of any node that offers them.
    """
    asked = {name: count for name, count in scope.devices_of(template.spec).items() if count}
    bound = scope.snapshot.node_by_name.get(template.spec.node_name)
    nodes = [bound] if bound is not None else scope.accelerator_nodes
    offers = [scope.device_allocatable(node) for node in nodes]
    offers = [offer for offer in offers if any(offer.get(name) for name in asked)]
    return bool(offers) and all(asked.get(name, 0) >= count for offer in offers for name, count in offer.items())
