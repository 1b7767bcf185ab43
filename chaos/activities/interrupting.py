"""Killing an agent in the middle of its work, and showing that it was the middle."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from chaos.activities.base import SHORT, accepted, current, node_target, target_record
from chaos.activities.devices import restarted
from chaos.activities.waiting import values_of
from chaos.ledger.undos.agents import RestartedArgs
from chaos.model.conditions import Condition, holds, parse_condition
from fixtures.cluster.watch import Observation
from fixtures.model.objects import uid_of

GRACE = 1
"""Seconds: the node ends the container at once, and its pod goes once that has been seen, so that the agent is known to be dead."""


def kill_at_work(component: str, working: dict[str, Any]) -> dict[str, Any]:
    """Kill an agent on the plan's node while the condition ``working`` holds.

    Whether it held just before, and still does when the agent is known to be dead, goes into the ledger: an agent that was through by
    then was not interrupted, which is for the verdict to say.
    """
    wanted = parse_condition(working, "kill_at_work")
    args = msgspec.structs.replace(restarted(component), allocatable={})
    with current().fault("agent.restarted", args) as fault:
        before = _holds(wanted)
        dead = _killed(args)
        after = _holds(wanted) if dead else None
        detail = {"killed": component, "node": args.node, "uids": list(args.uids), "before": before, "after": after}
        fault.applied({**detail, "interrupted": before is True and after is True})
    return {**target_record(node_target()), **detail}


def _killed(args: RestartedArgs) -> bool:
    """Delete the agent's pods; whether all of them are gone in time."""
    cluster = current().cluster
    with Observation(cluster, "pods", args.namespace, labels=args.selector) as observation:
        asked: set[str] = set()
        for objects in observation.until(time.monotonic() + SHORT):
            left = {uid_of(pod): pod for pod in objects.values() if uid_of(pod) in args.uids}
            for uid in left.keys() - asked:
                name = str(left[uid]["metadata"]["name"])
                accepted(cluster.delete("pods", name, args.namespace, uid=uid, grace_seconds=GRACE), f"delete pod {name}")
                asked.add(uid)
            if asked and not left:
                return True
    return False


def _holds(wanted: Condition) -> bool | None:
    return holds(wanted, values_of(wanted, {}), {})
