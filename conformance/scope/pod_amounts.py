"""What a pod counts for by the amounts of its containers, as the scheduler adds them up. Pure.

Facts: docs/facts/admission.md#extended-resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from fixtures.kubernetes.models import Container, PodSpec

N = TypeVar("N", int, Fraction)

SIDECAR = "Always"
"""Restart policy of an init container that runs as long as its pod."""


def of_pod(spec: PodSpec, amounts: Callable[[Container], dict[str, N]]) -> dict[str, N]:
    """Containers and sidecars together, or the peak while an init container runs."""
    init = ((amounts(container), container.restart_policy == SIDECAR) for container in spec.init_containers or ())
    return together(init, map(amounts, spec.containers))


def together(init: Iterable[tuple[dict[str, N], bool]], containers: Iterable[dict[str, N]]) -> dict[str, N]:
    """The same by the containers' amounts. ``init``: those of each init container in order, and whether it is a sidecar.

    Each container is looked at for its own names only: a pod may have thousands of sidecars with a resource each.
    """
    total: dict[str, N] = {}  # of sidecars, as long as init containers run
    peak: dict[str, N] = {}
    for own, sidecar in init:
        if sidecar:
            add(total, own)
            now = {name: total[name] for name in own}
        else:
            now = {name: amount + total[name] if name in total else amount for name, amount in own.items()}
        for name, amount in now.items():
            peak[name] = max(peak[name], amount) if name in peak else amount
    for own in containers:
        add(total, own)
    for name, amount in peak.items():
        total[name] = max(total[name], amount) if name in total else amount
    return total


def add(total: dict[str, N], more: Mapping[str, N]) -> None:
    """Add amounts to others."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
