"""Roll-outs of agents that are under way within their own bounds: what is missing meanwhile is not yet a fault.

Facts: docs/facts/nodes.md#roll-outs-of-daemonsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.policy.model import Policy
from conformance.scope.agents import Agent, is_ready
from conformance.scope.node_changes import change_under_way
from fixtures.kubernetes.models import DaemonSet, Node, Pod
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping
from fixtures.text.ages import ask_again, so_far


def replaces_by_itself(daemonset: DaemonSet) -> bool:
    """Whether its controller replaces pods of an older template; with OnDelete somebody else has to delete them."""
    return bool(daemonset.spec.update_strategy.get("type") != "OnDelete")


def max_unavailable(daemonset: DaemonSet) -> int:
    """How many nodes may lack a Ready pod during a roll-out: ``maxUnavailable`` (a percentage rounds up), else 1."""
    value = mapping(daemonset.spec.update_strategy.get("rollingUpdate")).get("maxUnavailable", 1)
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        amount = int(value.removesuffix("%")[:9])
        value = -(-amount * daemonset.status.desired_number_scheduled // 100) if value.endswith("%") else amount
    return max(1, value) if isinstance(value, int) else 1


def roll_out_under_way(agent: Agent, nodes: Iterable[Node], policy: Policy, now: float) -> str:
    """Why nodes without a Ready pod of an agent, or pods of an older template, need not be a fault yet; else empty.

    ``nodes`` are those where it must run, ``now`` is Unix seconds. It is one only while each missing pod is younger than
    ``operators.rolloutMinutes``, became unready since then, or its node is being changed, and no more of them are missing than the
    DaemonSet itself allows.
    """
    limit = policy.operators.rollout_minutes
    ages = sorted(_minutes([*agent.pods.values()], now))
    fresh = _young(agent.daemonset.metadata.creation_timestamp, now, limit)
    moving = bool(ages) and ages[0] < limit
    missing, changed = 0, ""
    for node in nodes:
        pod = agent.pods.get(node.name)
        if pod is not None and is_ready(pod):
            continue
        if doing := change_under_way(node, policy, now):
            changed = changed or f"{node.name}: {doing}"
            continue
        begun = moving if pod is None else _young(pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp, now, limit)
        if not begun and pod is not None and (since := _turned_unready(pod, policy.operators.max_restarts)) and _young(since, now, limit):
            age = now - (unix(since) or now)
            begun, changed = True, changed or f"{pod.name} is not Ready {so_far(age, limit * 60)}"
        if not begun and not fresh:
            return ""
        missing += 1
    if missing > max_unavailable(agent.daemonset) and not fresh:
        return ""
    old = agent.daemonset.status.updated_number_scheduled < agent.daemonset.status.desired_number_scheduled
    if (missing and (not changed or moving or fresh)) or (old and (moving or fresh)):
        again = ask_again(60 * ages[0] if ages else 0.0, 60 * limit)
        return f"its roll-out is under way (policy operators.rolloutMinutes: {limit:g}): {again}"
    return changed


def _turned_unready(pod: Pod, most_restarts: int) -> str:
    """Since when a pod is not Ready, as the API writes it; empty where it crashes again and again: it is unready anew each time."""
    ready = pod.condition("Ready")
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    loops = any(one.restart_count > most_restarts or "BackOff" in str(mapping(one.state, "waiting").get("reason")) for one in statuses)
    return "" if ready is None or loops else ready.last_transition_time or ""


def _minutes(pods: Iterable[Pod], now: float) -> Iterator[float]:
    """Ages of pods in minutes; a pod without a time has none."""
    for pod in pods:
        if (created := unix(pod.metadata.creation_timestamp)) is not None:
            yield max(0.0, now - created) / 60


def _young(text: str | None, now: float, limit: float) -> bool:
    moment = unix(text)
    return moment is not None and now - moment < limit * 60
