"""What a pod counts for by the amounts of its containers, as the scheduler adds them up. Pure.

Facts: docs/facts/admission.md#extended-resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

from fixtures.kubernetes.models import Container, PodSpec

N = TypeVar("N", int, Fraction)


def of_pod(spec: PodSpec, amounts: Callable[[Container], dict[str, N]]) -> dict[str, N]:
    """Containers and sidecars together, or the peak while an init container runs.

    Each container is looked at for its own names only: a pod may have thousands of sidecars with a resource each.
    """
    total: dict[str, N] = {}  # of sidecars, as long as init containers run
    peak: dict[str, N] = {}
    for container in spec.init_containers or ():
        own = amounts(container)
        if container.restart_policy == "Always":
            add(total, own)
            own = {name: total[name] for name in own}
        else:
            own = {name: amount + total[name] if name in total else amount for name, amount in own.items()}
        for name, amount in own.items():
            peak[name] = max(peak[name], amount) if name in peak else amount
    for container in spec.containers:
        add(total, amounts(container))
    for name, amount in peak.items():
        total[name] = max(total[name], amount) if name in total else amount
    return total


def add(total: dict[str, N], more: Mapping[str, N]) -> None:
    """Add amounts to others."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
