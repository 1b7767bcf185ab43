"""GANG-09: the quota of Kueue's queues is there on the nodes that their flavors select, also where it counts claims.

Facts: docs/facts/gangs.md#quota-of-kueue, docs/facts/gangs.md#claims-of-gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from conformance.gang.adapters.base import Guarantee
from conformance.gang.adapters.kueue import CLUSTER_QUEUES, FLAVORS, Kueue, class_mappings
from conformance.gang.kueue_checks import sent_away
from conformance.gang.kueue_cohorts import Place, added_by_cohorts, lent_by, quotas_of
from fixtures.kubernetes.models import Json, Node
from fixtures.kubernetes.untyped import mapping, sequence, text_of
from fixtures.model.cluster import Scope, matches, whole
from fixtures.model.dra.inventory import DeviceId, InventoryDevice
from fixtures.model.dra.kinds import BY_CLASS
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.nodes.changes_by_age import change_under_way
from fixtures.model.placement.claimable import counter_sets, units_of
from fixtures.model.queues.kueue_objects import name_of, objects_of
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Inconclusive, Subject

_KNOWN = frozenset({"name", "deviceClassNames"})


class ClaimQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The DeviceClasses of which a quota counts claims. ``doubt``: why that may be no number of accelerators, as a clause, or empty."""

    classes: tuple[str, ...]
    doubt: str


def claim_quotas(scope: Scope, names: Iterable[str]) -> dict[str, ClaimQuota]:
    """Quotas that count claims of accelerators, or may, by the name that they have in queues; ``names`` are those that queues have.

    Raises :class:`Inconclusive` for a configuration that cannot be read, and for two that say different things.
    """
    if not any(map(_may_count_claims, names)):
        return {}  # a configuration that cannot be read matters to none of them
    found: dict[str, ClaimQuota | None] = {}
    for item in class_mappings(scope):
        name, quota = text_of(item.get("name")), _quota(scope, item)
        if found.setdefault(name, quota) != quota:
            raise Inconclusive("TwoCandidates", f"configurations of Kueue map different DeviceClasses to the quota {name}")
    return {name: quota for name, quota in found.items() if quota is not None}


def device_quotas(scope: Scope, names: Iterable[str]) -> frozenset[str]:
    """Those of the names in queues that count devices: a device's own name, and what claims of accelerators are counted by.

    Raises :class:`Inconclusive` as :func:`claim_quotas` does.
    """
    every = frozenset(names)
    own = frozenset(filter(scope.names_device, every))
    return own | (every & claim_quotas(scope, every - own).keys())


def _may_count_claims(name: str) -> bool:
    return name not in ("cpu", "memory", "ephemeral-storage", "pods") and not name.startswith("hugepages-")


def _quota(scope: Scope, item: Json) -> ClaimQuota | None:
    """One mapping; None where none of its classes is for accelerators, or may be."""
    classes = tuple(name for name in map(text_of, sequence(item.get("deviceClassNames"))) if name in scope.claims.classes)
    demands = {name: scope.claims.by_resource(f"{BY_CLASS}{name}") for name in classes}
    if not any(demand.devices or demand.unknown for demand in demands.values()):
        return None
    fields = sorted(str(field) for field, value in item.items() if field not in _KNOWN and value)
    doubts = [demand.unknown or f"DeviceClass {name} is for other devices" for name, demand in demands.items() if not demand.devices]
    if fields:
        doubts.append(f"its mapping has {listed(fields)}, so it may be no number of devices")
    return ClaimQuota(classes=classes, doubt="; ".join(doubts))


def devices_of_claims(scope: Scope, node: Node, classes: Iterable[str]) -> tuple[int, int | None]:
    """How many devices of a node claims of these classes can get at a time, taken ones included: at least and at most.

    The most is None where a device may be given to several claims.
    """
    certain: dict[DeviceId, InventoryDevice] = {}
    possible: dict[DeviceId, InventoryDevice] = {}
    for known in (scope.claims.classes[name] for name in classes):
        for item in scope.dra_inventory.get(node.name, ()):
            for device in item.devices:
                chosen = known.selector.chooses(item.driver, device.body)
                if chosen is not False:
                    possible[device.id] = device
                if chosen and device.allocatable and device.body.type != SHAPE_FOR_MACHINES:
                    certain[device.id] = device
    shared = any(device.body.shareable for device in possible.values())
    return _apart(certain.values()), None if shared else len(possible)


def reach_further(scope: Scope, classes: Iterable[str]) -> bool:
    """Whether claims of these classes may get devices that count for no node, since several nodes reach them."""
    drivers = {driver for driver, _ in scope.slices.of_no_node()}
    named = [scope.claims.classes[name].drivers for name in classes]
    return any(not known or not drivers.isdisjoint(known) for known in named) if drivers else False


def _apart(devices: Iterable[InventoryDevice]) -> int:
    """How many of the devices there are at a time for certain: of those that draw on the same counters one."""
    taken: set[str] = set()
    count = 0
    for device in devices:
        sets = counter_sets(device)
        if taken.isdisjoint(sets):
            taken.update(sets)
            count += 1
    return count


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
    every = objects_of(scope, CLUSTER_QUEUES)
    asked = {quota.resource for queue in every for quota in quotas_of(queue)}
    counted, devices = claim_quotas(scope, asked), device_quotas(scope, asked)
    away = sent_away(scope, every)
    for queue in every:
        if (check := away.get(name_of(queue))) and any(quota.resource in devices for quota in quotas_of(queue)):
            message = f"MultiKueue sends its work to other clusters (AdmissionCheck {check}): its quota should be what those have"
            source = "clusterqueue.spec.admissionChecks, admissioncheck.spec.controllerName"
            yield not_judged(Subject("ClusterQueue", name_of(queue)), message=message, source=source)
    queues = [queue for queue in every if name_of(queue) not in away]
    nominal = _nominal(scope, queues, devices)
    if not nominal:
        return
    elsewhere = Kueue.guarantee_without_topology(scope)
    flavors = {name_of(item): item for item in objects_of(scope, FLAVORS)}
    lenders = lent_by(scope, queues, [queue for queue in every if name_of(queue) in away])
    for (flavor, resource), amounts in sorted(nominal.items()):
        place, total = Subject("ResourceFlavor", f"{flavor} {resource}"), sum(amounts.values())
        observed, claims = f"{total} in {listed(in_order(amounts))}", counted.get(resource)
        about = About(place, _SOURCE, observed=observed)
        if flavor not in flavors:
            message = f"{listed(in_order(amounts))} name it and there is no such ResourceFlavor: the queue admits nothing"
            yield about.bad(message, cause="QueueAdmitsNothing", expected="a ResourceFlavor of that name")
            continue
        if claims and claims.doubt:
            yield about.not_judged(f"{observed}: {claims.doubt}")
            continue
        topology = text_of(mapping(flavors[flavor], "spec").get("topologyName"))
        placed = (Guarantee.PLACEMENT, f"topology-aware scheduling places what it admits (Topology {topology})")
        guarantee, why = placed if topology and not claims else elsewhere
        has = _offered(scope, flavors[flavor], resource, claims)
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
            message = (
                f"{observed}, and its {has.nodes} nodes can allocate {has.most}: it may admit a gang of which only some pods find devices"
            )
            message += f"; topology-aware scheduling counts no claims (Topology {topology})" if topology else ""
            yield about.bad(message, cause="QuotaAboveNodes", expected=expected)


def _nominal(scope: Scope, queues: Sequence[Json], devices: frozenset[str]) -> dict[Place, dict[str, int]]:
    """Nominal quota of devices by flavor and resource, and by the ClusterQueue or Cohort that has it."""
    found: dict[Place, dict[str, int]] = {}
    for queue in queues:
        for quota in quotas_of(queue):
            if quota.nominal and quota.resource in devices:
                found.setdefault((quota.flavor, quota.resource), {})[name_of(queue)] = quota.nominal
    with_devices = [queue for queue in queues if any(quota.resource in devices for quota in quotas_of(queue))]
    for cohort, place, amount in added_by_cohorts(scope, with_devices):
        if place[1] in devices:  # no queue takes of a Cohort what it does not name itself
            found.setdefault(place, {})[f"Cohort {cohort}"] = amount
    return found


def _offered(scope: Scope, flavor: Json, resource: str, claims: ClaimQuota | None) -> _Offer:
    wanted = {str(key): str(value) for key, value in mapping(flavor, "spec", "nodeLabels").items()}
    nodes = [node for node in scope.accelerator_nodes if wanted.items() <= node.metadata.label.items()]
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
    return max(whole(node.status.allocatable.get(resource)), least), None if most is None else max(own, most)
