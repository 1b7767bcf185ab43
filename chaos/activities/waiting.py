"""Waiting for what an experiment expects: by the same signals that its samples are judged by, and never without end.

A wait that is not met is no failure of the activity: whether it was expected in time is for the verdict to say.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import current, plan_facts, poll, seconds
from chaos.cluster.requests import read
from chaos.model.conditions import Condition, JsonValue, holds, parse_condition, signals_of
from chaos.model.experiment import of_own_pods
from chaos.observe.signals import SIGNALS
from chaos.observe.view import NoData, Reading
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.objects import amounts_of


def wait_for(condition: dict[str, Any], within: str) -> dict[str, Any]:
    """Wait until the condition holds, for at most the duration of that name. ``baseline`` is what holds when the wait begins."""
    wanted = parse_condition(condition, "wait_for")
    memory: dict[str, Any] = {}
    baseline = values_of(wanted, memory)
    start = time.monotonic()
    limit = seconds(within, starting=within == "recovery" or any(map(of_own_pods, signals_of(wanted))))
    limit += 2 * current().plan.seconds.get("sample", 1.0)  # samples must show that it was watched to the end
    met = poll(lambda: holds(wanted, values_of(wanted, memory), baseline) is True, limit)
    return {"met": bool(met), "seconds": round(time.monotonic() - start, 2)}


def wait_until_offered_none(within: str) -> dict[str, Any]:
    """Wait until the target's node offers none of its devices, for at most the duration of that name.

    Before the node says so, a scheduler may still place a pod there, which the kubelet then refuses (UnexpectedAdmissionError).
    """
    target = current().plan.targets[0]
    resource = plan_facts().resource

    def none() -> bool:
        node = read(current().cluster, "nodes", target.node)
        return str(amounts_of(node, "allocatable").get(resource, "0")) == "0"

    return {"node": target.node, "none": bool(poll(none, seconds(within), period=0.05))}


def hold(duration: str) -> dict[str, Any]:
    """Let the fault last for the duration of that name."""
    acting = current()
    deadline = time.monotonic() + seconds(duration)
    while (remaining := deadline - time.monotonic()) > 0:
        if acting.abort.reason:
            raise ActivityFailed(f"aborted while the fault was held: {acting.abort.reason}")
        threading.Event().wait(min(remaining, 0.5))
    return {"held": seconds(duration)}


def watch_before() -> dict[str, Any]:
    """Let the sampler see what is there, however late it is: what a fault disturbs, or an undo brings back, is what it read last."""
    acting, begun = current(), datetime.now(UTC)
    length = acting.plan.seconds.get("before", 6 * acting.plan.seconds.get("sample", 1.0))
    poll(lambda: False, length)
    acting.sampled(begun)
    return {"seconds": length}


def values_of(condition: Condition, memory: dict[str, Any]) -> dict[str, JsonValue]:
    """What the condition's signals say now; one without data is left out."""
    acting = current()
    reading = Reading(acting.cluster, acting.plan, memory)
    values: dict[str, JsonValue] = {}
    for name in dict.fromkeys(signals_of(condition)):
        if name not in SIGNALS:
            raise ActivityFailed(f"no signal is called {name!r}")
        try:
            values[name] = SIGNALS[name](reading)
        except (NoData, ApiTrouble):
            continue
    return values
