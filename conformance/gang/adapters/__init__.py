"""Adapters: one interface for the gang schedulers that are probed, and a smaller one for Run:ai, which is only read."""

from conformance.gang.adapters.base import Adapter, Availability, Gang, Guarantee
from conformance.gang.adapters.grouped import Coscheduling, Kai, Native, Volcano
from conformance.gang.adapters.kueue import Kueue
from conformance.gang.adapters.watched import Watched, watched
from fixtures.model.cluster import Scope

__all__ = [
    "Adapter",
    "Availability",
    "Coscheduling",
    "Gang",
    "Guarantee",
    "Kai",
    "Kueue",
    "Native",
    "Volcano",
    "Watched",
    "adapters",
    "chosen",
    "watched",
]


def adapters() -> list[Adapter]:
    """One of every known adapter, fresh: adapters keep what they set up."""
    return [Volcano(), Kueue(), Native(), Kai(), Coscheduling()]


def chosen(scope: Scope) -> list[Adapter]:
    """The adapters the policy names, or all."""
    names = scope.policy.gang.adapters
    return [adapter for adapter in adapters() if not names or adapter.name in names]
