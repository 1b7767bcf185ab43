"""How an experiment says what it is about: selector kinds, by the name under ``target.select``."""

from __future__ import annotations

from chaos.selectors.base import Choice, Field, NotApplicable, PlanRefused, Selector, TargetUnclear
from chaos.selectors.controllers import choose_controller, choose_operand
from chaos.selectors.nodes import choose_daemon_pod, choose_gpu, choose_node

SELECTORS: dict[str, Selector] = {
    "daemon-pod": choose_daemon_pod,
    "controller-pod": choose_controller,
    "operand": choose_operand,
    "node": choose_node,
    "gpu": choose_gpu,
}
"""``daemon-pod``: an agent's pod on one node; ``controller-pod``: a controller's pod; ``operand``: an object that a ClusterPolicy
owns; ``node``: one GPU node; ``gpu``: one device of one node."""

__all__ = ["SELECTORS", "Choice", "Field", "NotApplicable", "PlanRefused", "Selector", "TargetUnclear"]
