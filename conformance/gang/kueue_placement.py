"""GANG-10: what an admitted Workload holds can be used: some node takes its pods (docs/facts/gangs.md#kueue-and-placement).

Kueue admits by sums over nodes. A pod that wants more devices than any one node has free stays Pending, and its quota is lost to others.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.gang.adapters.kueue import pods_ready_timeout
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.times import newest
from fixtures.model.cluster import Scope, matches
from fixtures.model.jobs.marks import placed
from fixtures.model.nodes.changes_by_age import change_under_way
from fixtures.model.placement.affinity import Choice, too_long
from fixtures.model.placement.claim_fit import claimed_devices_of
from fixtures.model.placement.fitting import FreeCapacity
from fixtures.model.placement.tolerations import Tolerated
from fixtures.text.ages import duration, so_far
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_SOURCE = "workload.status.conditions, requests of its pods, status.allocatable of nodes"


def judge_unplaced(rooms: FreeCapacity, place: Subject, pods: Sequence[Pod], admitted: str, lost: str) -> Finding | None:
    """The finding about an admitted workload none of whose device pods has a node; None where one has, or nodes would take all.

    ``admitted``: when it was admitted, as its condition has it; ``lost``: what it holds, as a clause.
    """
    scope, now = rooms.scope, rooms.now
    asking = [pod for pod in pods if scope.device_demand_of(pod).devices]
    if not asking or any(map(placed, asking)) or any(pod.metadata.deletion_timestamp for pod in asking):
        return None
    words = f"none of its {len(asking)} device pods has a node" if len(asking) > 1 else "its device pod has no node"
    since = newest([admitted, *(one.metadata.creation_timestamp for one in asking)])
    about = About(place, _SOURCE)
    if since is None:
        return about.undecided(f"{words}, and nothing says since when", cause="AdmittedNeverPlaced")
    age, limit = now - since, max(scope.policy.requests.pending_minutes * 60, pods_ready_timeout(scope) or 0)
    if age <= limit:
        return about.undecided(f"{words} {so_far(age, limit)}", cause="ChangeUnderWay")
    asked = [(pod, claimed_devices_of(scope, pod.spec, pod.namespace, pod.status.resource_claim_statuses)) for pod in asking]
    if unclear := next(filter(None, (claimed.not_modelled or too_long(pod.spec) for pod, claimed in asked)), ""):
        return about.undecided(f"{words} for {duration(age)}: {unclear}", cause="OnlySchedulerCanWeigh")
    alone = next(((pod, claimed) for pod, claimed in asked if not rooms.fit([(pod.spec, claimed)])), None)
    if alone is None and rooms.fit([(pod.spec, claimed) for pod, claimed in asked]):
        return None  # REQ-12 says that it waits beside free devices
    pod, claimed = alone or asked[0]
    amounts = {**scope.devices_of(pod.spec), **claimed.amounts}
    if scaled := [name for name in sorted(amounts) if matches(name, scope.policy.requests.autoscaled)]:
        message = f"{words}; {listed(scaled)} would come with new nodes (policy requests.autoscaled)"
        return about.not_judged(message, source="policy requests.autoscaled")
    nodes = _allowed(scope, pod)
    if doing := next((f"{node.name}: {why}" for node in nodes if (why := change_under_way(node, scope.policy, now))), ""):
        return about.undecided(f"{words} for {duration(age)}, and {doing}", cause="ChangeUnderWay")
    why = _why_none(scope, nodes, amounts) if alone else "nodes have room for each of them, and not for all together"
    message = f"it is Admitted and {words} for {duration(age)}: {why}; {lost}"
    observed = f"Admitted, {len(asking)} pods without a node for {duration(age)}"
    return about.bad(message, cause="AdmittedNeverPlaced", observed=observed, expected="pods that a node can take")


def _allowed(scope: Scope, pod: Pod) -> list[Node]:
    choice, tolerated = Choice(pod.spec), Tolerated(pod.spec.tolerations)
    return [node for node in scope.accelerator_nodes if choice.admits(node) and tolerated.lets_onto(node)]


def _why_none(scope: Scope, nodes: Sequence[Node], asked: dict[str, int]) -> str:
    """Why no node takes a pod, in figures: the most that one node has free, and what all have together."""
    name, count = max(asked.items(), key=lambda item: item[1], default=("", 0))
    if not nodes:
        return "its selector, affinity and tolerations let it onto no accelerator node"
    usable = [node for node in nodes if scope.why_not_judged(node) == ""]
    free = [max(scope.free(node, name), 0) for node in usable]
    if not name or name not in scope.capacity_names:
        return f"none of {len(nodes)} nodes has free what it asks for"
    return f"it asks for {count} {name}, no node has more than {max(free, default=0)} free, and all together have {sum(free)}"
