"""GANG-09: the quota of Kueue's queues is there on the nodes that their flavors select, also where it counts claims.

Facts: docs/facts/gangs.md#quota-of-kueue, docs/facts/gangs.md#claims-of-gangs.
"""

from collections.abc import Iterator, Sequence

import msgspec

from conformance.gang.adapters.base import Guarantee
from conformance.gang.adapters.kueue import Kueue
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import whole
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.placement.claimable import units_of
from fixtures.model.queues.kueue import ClusterQueue, Flavor, KueueObjects, Place
from fixtures.model.queues.kueue_quotas import (
    ClaimQuota,
    added_by_cohorts,
    claim_quotas,
    device_quotas,
    devices_of_claims,
    lent_by,
    reach_further,
)
from fixtures.text.globs import matches
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

_SOURCE = "spec.resourceGroups of ClusterQueues and Cohorts, resourceflavor.spec.nodeLabels, node.status.allocatable, ResourceSlices"


class _Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Units that the nodes of a flavor can allocate, cordoned nodes included. ``most`` is None where nothing bounds it."""

    nodes: int
    least: int
    most: int | None
    changing: str = ""
    """What is being done to a node that has none just now, as a clause, or empty."""

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least} or more"


def judge_quota(scope: Scope) -> Iterator[Finding]:
    """One finding per flavor and device resource, and one per queue whose work other clusters run."""
    kueue = scope.cached(KueueObjects)
    asked = {quota.place[1] for queue in kueue.queues.values() for quota in queue.quotas}
    counted, devices = claim_quotas(scope, asked), device_quotas(scope, asked)
    away = kueue.sent_away()
    for name, queue in kueue.queues.items():
        if (check := away.get(name)) and _of_devices(queue, devices):
            message = f"MultiKueue sends its work to other clusters (AdmissionCheck {check}): its quota should be what those have"
            source = "clusterqueue.spec.admissionChecks, admissioncheck.spec.controllerName"
            yield not_judged(Subject("ClusterQueue", name), message=message, source=source)
    queues = [queue for name, queue in kueue.queues.items() if name not in away]
    nominal = _nominal(scope, queues, devices)
    if not nominal:
        return
    elsewhere = Kueue.guarantee_without_topology(scope)
    lenders = lent_by(scope, queues, [kueue.queues[name] for name in away])
    for (flavor, resource), amounts in sorted(nominal.items()):
        place, total = Subject("ResourceFlavor", f"{flavor} {resource}"), sum(amounts.values())
        observed, claims = f"{total} in {listed(in_order(amounts))}", counted.get(resource)
        about = About(place, _SOURCE, observed=observed)
        if flavor not in kueue.flavors:
            message = f"there is no such ResourceFlavor, and {listed(in_order(amounts))} can admit nothing in it"
            yield about.bad(message, cause="QueueAdmitsNothing", expected="a ResourceFlavor of that name")
            continue
        if claims and claims.doubt:
            yield about.not_judged(f"{observed}: {claims.doubt}")
            continue
        topology = kueue.flavors[flavor].topology
        placed = (Guarantee.PLACEMENT, f"topology-aware scheduling places what it admits (Topology {topology})")
        guarantee, why = placed if topology and not claims else elsewhere
        has = _offered(scope, kueue.flavors[flavor], resource, claims)
        expected = f"at most what its {has.nodes} nodes can allocate: {has}"
        if total <= has.least and (lending := lenders.get((flavor, resource))):
            others = f"{listed(in_order(lending))} of the same cohort may lend more, and other clusters have that"
            message = f"{observed}, {has} on its nodes; {others}"
            yield about.not_judged(message)
        elif total <= has.least:
            yield about.ok(expected=expected)
        elif has.most is None or total <= has.most:
            message = f"{observed}; claims can get {has.least} on its {has.nodes} nodes at a time, and how many more is not known"
            yield about.not_judged(message)
        elif guarantee is not Guarantee.QUOTA:
            yield about.not_judged(f"{observed}, {has} on its nodes: {why}")
        elif matches(resource, scope.policy.requests.autoscaled):
            yield about.not_judged(f"{observed}, {has} on its nodes; an autoscaler adds nodes (policy requests.autoscaled)")
        elif has.changing:
            yield about.undecided(f"{observed}, {has} on its nodes; {has.changing}", cause="ChangeUnderWay")
        else:
            tail = f"; topology-aware scheduling counts no claims (Topology {topology})" if topology else ""
            more = f"{observed}, and its {has.nodes} nodes can allocate {has.most}"
            message = f"{more}: it may admit a gang of which only some pods find devices{tail}"
            yield about.bad(message, cause="QuotaAboveNodes", expected=expected)


def _of_devices(queue: ClusterQueue, devices: frozenset[str]) -> bool:
    return any(quota.place[1] in devices for quota in queue.quotas)


def _nominal(scope: Scope, queues: Sequence[ClusterQueue], devices: frozenset[str]) -> dict[Place, dict[str, int]]:
    """Nominal quota of devices by flavor and resource, and by the ClusterQueue or Cohort that has it."""
    found: dict[Place, dict[str, int]] = {}
    for queue in queues:
        for quota in queue.quotas:
            if quota.units and quota.place[1] in devices:
                found.setdefault(quota.place, {})[queue.name] = quota.units
    for cohort, place, amount in added_by_cohorts(scope, [queue for queue in queues if _of_devices(queue, devices)]):
        if place[1] in devices:  # no queue takes of a Cohort what it does not name itself
            found.setdefault(place, {})[f"Cohort {cohort}"] = amount
    return found


def _offered(scope: Scope, flavor: Flavor, resource: str, claims: ClaimQuota | None) -> _Offer:
    nodes = [node for node in scope.accelerator_nodes if flavor.labels.items() <= node.metadata.label.items()]
    bounds = [_units(scope, node, resource, claims) for node in nodes]
    upper = [most for _, most in bounds if most is not None]
    bounded = len(upper) == len(bounds) and not (claims and reach_further(scope, claims.classes))
    now = scope.snapshot.taken_at
    empty = [node for node, (least, _) in zip(nodes, bounds, strict=True) if not least]
    changing = next((f"{node.name}: {doing}" for node in empty if (doing := change_under_way(node, scope.policy, now))), "")
    return _Offer(nodes=len(nodes), least=sum(least for least, _ in bounds), most=sum(upper) if bounded else None, changing=changing)


def _units(scope: Scope, node: Node, resource: str, claims: ClaimQuota | None) -> tuple[int, int | None]:
    """Units of a node at least and at most: by its plugin or by claims, the larger where one name counts both."""
    own = units_of(scope, node, resource)
    if claims is None:
        return own, own
    least, most = devices_of_claims(scope, node, claims.classes)
    return max(whole(node.allocatable.get(resource)), least), None if most is None else max(own, most)
