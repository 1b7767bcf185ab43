"""Every signal by name. A module of its own, because the signals stand on the components and these on the view of a sample."""

from __future__ import annotations

from chaos.observe.sample import Signal
from chaos.observe.signals import agents, allocations, claims, compute_domains, gangs, metrics, nodes, podresources, pods, pods_of_others

SIGNALS: dict[str, Signal] = {
    **nodes.SIGNALS,
    **pods.SIGNALS,
    **pods_of_others.SIGNALS,
    **agents.SIGNALS,
    **metrics.SIGNALS,
    **gangs.SIGNALS,
    **claims.SIGNALS,
    **compute_domains.SIGNALS,
    **podresources.SIGNALS,
    **allocations.SIGNALS,
}
"""What experiments may name under ``signals``, ``steady``, ``detect``, ``contained``, ``expect`` and ``collateral``."""
