"""Killing an agent in the middle of its work, and showing that it was the middle."""

import time
from typing import Any

import msgspec
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import Fault
from chaos.activities.base import SHORT, accepted, current, listed, node_target, plan_facts, target_record
from chaos.activities.devices import restarted
from chaos.activities.waiting import values_of
from chaos.ledger.undos.workloads import PodsReplaced
from chaos.model.conditions import Condition, holds, parse_condition
from chaos.observe.view import View
from fixtures.cluster.watch import Observation
from fixtures.model.objects import name_of, uid_of
from fixtures.model.platform.installed import pods_of

GRACE = 1
"""Seconds: the node ends the container at once, and its pod goes once that has been seen, so that the agent is known to be dead."""


def kill_at_work(component: str, working: dict[str, Any]) -> dict[str, Any]:
    """Kill an agent on the plan's node while the condition ``working`` holds.

    Whether it held just before, and still does when the agent is known to be dead, goes into the ledger: an agent that was through by
    then was not interrupted, which is for the verdict to say.
    """
    args = msgspec.structs.replace(restarted(component), allocatable={})
    with current().fault("agent.restarted", args) as fault:
        return _kill(fault, component, parse_condition(working, "kill_at_work"), args.namespace, args.selector, args.uids)


def kill_controller_at_work(component: str, working: dict[str, Any]) -> dict[str, Any]:
    """As :func:`kill_at_work`, all pods of a controller, wherever they run. Raises ActivityFailed when it has none."""
    found = plan_facts().components[component]
    pods = pods_of(View.of(current().cluster), found)
    if not pods:
        raise ActivityFailed(f"{found} has no pod")
    args = PodsReplaced().args(pods, listed("pods", found.namespace), on_node=False)
    with current().fault("pods.replaced", args) as fault:
        return _kill(fault, component, parse_condition(working, "kill_controller_at_work"), found.namespace, found.selector, args.killed)


def _kill(fault: Fault, component: str, working: Condition, namespace: str, selector: str, uids: tuple[str, ...]) -> dict[str, Any]:
    before = _holds(working)
    dead = _killed(namespace, selector, uids)
    after = _holds(working) if dead else None
    detail = {"killed": component, "node": node_target().name, "uids": list(uids), "before": before, "after": after}
    fault.applied({**detail, "interrupted": before is True and after is True})
    return {**target_record(node_target()), **detail}


def _killed(namespace: str, selector: str, uids: tuple[str, ...]) -> bool:
    """Delete the pods; whether all of them are gone in time."""
    cluster = current().cluster
    with Observation(cluster, "pods", namespace, labels=selector) as observation:
        asked: set[str] = set()
        for objects in observation.until(time.monotonic() + SHORT):
            left = {uid_of(pod): pod for pod in objects.values() if uid_of(pod) in uids}
            for uid in left.keys() - asked:
                name = name_of(left[uid])
                accepted(cluster.delete("pods", name, namespace, uid=uid, grace_seconds=GRACE), f"delete pod {name}")
                asked.add(uid)
            if asked and not left:
                return True
    return False


def _holds(wanted: Condition) -> bool | None:
    return holds(wanted, values_of(wanted, {}), {})
