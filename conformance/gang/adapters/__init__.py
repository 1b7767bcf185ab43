"""Gang schedulers behind one contract: what is asked of each is the same, how it is asked is its own."""

from __future__ import annotations

from conformance.gang.adapters.base import Adapter, Availability, Gang, Guarantee
from conformance.gang.adapters.kueue import Kueue
from conformance.gang.adapters.native import Native
from conformance.gang.adapters.volcano import Volcano
from conformance.scope import Scope

__all__ = ["Adapter", "Availability", "Gang", "Guarantee", "Kueue", "Native", "Volcano", "adapters", "chosen"]


def adapters() -> list[Adapter]:
    """One of every known adapter, fresh: adapters keep what they set up."""
    return [Volcano(), Kueue(), Native()]


def chosen(scope: Scope) -> list[Adapter]:
    """The adapters the policy names, or all."""
    names = scope.policy.gang.adapters
    return [adapter for adapter in adapters() if not names or adapter.name in names]
