"""Pod Security levels of tenants: what the policy asks, what a namespace enforces."""

from __future__ import annotations

import re

from conformance.scope.scope import Scope
from fixtures.kubernetes.podsecurity import Level

_MINOR = re.compile(r"v?1\.(\d{1,3})\b")


def required_level(scope: Scope, namespace: str) -> Level:
    """The level the policy asks of a tenant."""
    tenants = scope.policy.tenants
    return Level(tenants.pod_security_exceptions.get(namespace, tenants.pod_security))


def server_minor(scope: Scope) -> int | None:
    """Minor version of the API server, which evaluates ``latest`` as its own; None when it is not known."""
    match = _MINOR.match(scope.snapshot.version)
    return int(match[1]) if match else None
