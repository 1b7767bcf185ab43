"""Signals by name: functions of a sample's reading that give one JSON value, or raise ``NoData``."""

from chaos.observe.signals import agents, allocations, gangs, metrics, nodes, pace, pods
from chaos.observe.view import Signal

SIGNALS: dict[str, Signal] = {
    name: signal for module in (nodes, pods, pace, agents, metrics, gangs, allocations) for name, signal in module.SIGNALS.items()
}
"""What experiments may name under ``signals``, ``steady``, ``detect``, ``contained``, ``expect`` and ``collateral``."""
