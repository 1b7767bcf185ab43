"""Selectors: how an experiment chooses its targets, by the name under ``target.select``."""

from __future__ import annotations

from chaos.plan.selectors.base import Choice, NotApplicable, PlanningView, PlanRefused, Selector, TargetUnclear
from chaos.plan.selectors.controllers import choose_controller, choose_operand
from chaos.plan.selectors.nodes import choose_daemon_pod, choose_gpu, choose_node

SELECTORS: dict[str, Selector] = {
    "daemon-pod": choose_daemon_pod,
    "controller-pod": choose_controller,
    "operand": choose_operand,
    "node": choose_node,
    "gpu": choose_gpu,
}
"""``daemon-pod``: an agent's pod on one node; ``controller-pod``: a controller's pod; ``operand``: an object that a ClusterPolicy
owns; ``node``: one GPU node; ``gpu``: one device of one node."""

__all__ = ["SELECTORS", "Choice", "NotApplicable", "PlanRefused", "PlanningView", "Selector", "TargetUnclear"]
