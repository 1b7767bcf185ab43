"""Activities of the engine's own tests: a label on a node, and everything that may go wrong while it is there."""

import os
import signal
import sys
import threading
from typing import Any

import pytest

from chaos.act.context import current
from chaos.cluster.requests import merge, read
from chaos.ledger.undos.nodes import NodeLabels
from fixtures.kubernetes.models import Json


def the_node() -> Json:
    """The target as it is now."""
    acting = current()
    node = read(acting.cluster, "nodes", acting.plan.targets[0].name)
    assert node is not None
    return node


def label(keys: list[str]) -> dict[str, Any]:
    """The fault: one label, which the document names."""
    acting = current()
    node = the_node()
    with acting.fault("node.labels", NodeLabels().args(node, dict.fromkeys(keys, "on"))) as fault:
        merge(acting.cluster, "nodes", node, {"metadata": {"labels": dict.fromkeys(keys, "on")}})
        fault.applied({"node": acting.plan.targets[0].name})
    return {"node": acting.plan.targets[0].name}


def forget_to_label(keys: list[str]) -> None:
    """A fault that is armed and never lands."""
    acting = current()
    node = the_node()
    with acting.fault("node.labels", NodeLabels().args(node, dict.fromkeys(keys, "on"))):
        pass


def nothing() -> None:
    """An action that does nothing at all."""


def undo() -> dict[str, Any]:
    acting = current()
    left = acting.restore(30)
    if left:
        raise RuntimeError("; ".join(map(str, left)))
    return {}


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


def misbehave(how: str) -> None:
    if how == "pytest.fail":
        pytest.fail("inside an activity")
    if how == "keyboard":
        raise KeyboardInterrupt
    if how == "sys.exit(30)":  # what chaostoolkit takes for "no rollbacks"
        sys.exit(30)
    if how == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(30)
    if how == "SIGUSR2":
        os.kill(os.getpid(), signal.SIGUSR2)
        threading.Event().wait(30)
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "alarm":
        signal.signal(signal.SIGALRM, _alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        threading.Event().wait(30)
    if how == "hang":
        while True:
            try:
                threading.Event().wait(1)
            except BaseException:
                continue


def _alarm(_number: int, _frame: object) -> None:
    raise _OutOfTime


class _OutOfTime(BaseException):
    pass
