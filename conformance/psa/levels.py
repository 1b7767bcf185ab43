"""Pod Security levels of tenants: what the policy asks, what a namespace enforces."""

from __future__ import annotations

from fixtures.kubernetes.podsecurity import Level
from fixtures.model.cluster import Scope


def required_level(scope: Scope, namespace: str) -> Level:
    """The level the policy asks of a tenant."""
    tenants = scope.policy.tenants
    return Level(tenants.pod_security_exceptions.get(namespace, tenants.pod_security))
