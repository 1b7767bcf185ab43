"""Adapters: one interface for Volcano, Kueue and the native gang scheduler, and a smaller one for those that are only read."""

from __future__ import annotations

from conformance.gang.adapters.base import Adapter, Availability, Gang, Guarantee
from conformance.gang.adapters.grouped import Native, Volcano
from conformance.gang.adapters.kueue import Kueue
from conformance.gang.adapters.watched import Watched, watched
from fixtures.model.cluster import Scope

__all__ = ["Adapter", "Availability", "Gang", "Guarantee", "Kueue", "Native", "Volcano", "Watched", "adapters", "chosen", "watched"]


def adapters() -> list[Adapter]:
    """One of every known adapter, fresh: adapters keep what they set up."""
    return [Volcano(), Kueue(), Native()]


def chosen(scope: Scope) -> list[Adapter]:
    """The adapters the policy names, or all."""
    names = scope.policy.gang.adapters
    return [adapter for adapter in adapters() if not names or adapter.name in names]
