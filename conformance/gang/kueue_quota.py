"""GANG-09: the quota of Kueue's queues is there on the nodes that their flavors select (docs/facts/gangs.md#quota-of-kueue)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.devices.claimable import units_of
from conformance.gang.adapters.base import Guarantee
from conformance.gang.adapters.kueue import CLUSTER_QUEUES, FLAVORS, Kueue
from conformance.gang.kueue_cohorts import Place, added_by_cohorts, quotas_of
from conformance.gang.kueue_objects import name_of, objects_of
from conformance.scope.scope import Scope, matches
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok


def judge_quota(scope: Scope) -> Iterator[Finding]:
    """One finding per flavor and device resource."""
    nominal = _nominal(scope)
    if not nominal:
        return
    guarantee, why = Kueue().guarantee(scope)
    flavors = {name_of(item): item for item in objects_of(scope, FLAVORS)}
    for (flavor, resource), queues in sorted(nominal.items()):
        place, total = Subject("ResourceFlavor", f"{flavor} {resource}"), sum(queues.values())
        observed = f"{total} in {listed(sorted(queues))}"
        source = "spec.resourceGroups of ClusterQueues and Cohorts, resourceflavor.spec.nodeLabels, node.status.allocatable"
        if flavor not in flavors:
            message = f"{listed(sorted(queues))} name it and there is no such ResourceFlavor: the queue admits nothing"
            yield bad(place, observed=observed, expected="a ResourceFlavor of that name", source=source, message=message)
            continue
        has, nodes = _offered(scope, flavors[flavor], resource)
        expected = f"at most what its {nodes} nodes can allocate: {has}"
        if total <= has:
            yield ok(place, observed=observed, expected=expected, source=source)
        elif guarantee is not Guarantee.QUOTA:
            yield not_judged(place, message=f"{observed}, {has} on its nodes: {why}", source=source)
        elif matches(resource, scope.policy.requests.autoscaled):
            yield not_judged(
                place, message=f"{observed}, {has} on its nodes; an autoscaler adds nodes (policy requests.autoscaled)", source=source
            )
        else:
            message = f"{observed}, and its {nodes} nodes can allocate {has}: it may admit a gang of which only some pods find devices"
            yield bad(place, observed=observed, expected=expected, source=source, message=message)


def _nominal(scope: Scope) -> dict[Place, dict[str, int]]:
    """Nominal quota of device resources by flavor and resource, and by the ClusterQueue or Cohort that has it."""
    found: dict[Place, dict[str, int]] = {}
    queues = objects_of(scope, CLUSTER_QUEUES)
    for queue in queues:
        for quota in quotas_of(queue):
            if scope.names_device(quota.resource) and quota.nominal:
                found.setdefault((quota.flavor, quota.resource), {})[name_of(queue)] = quota.nominal
    for cohort, place, amount in added_by_cohorts(scope, queues):
        if scope.names_device(place[1]):
            found.setdefault(place, {})[f"Cohort {cohort}"] = amount
    return found


def _offered(scope: Scope, flavor: Json, resource: str) -> tuple[int, int]:
    """Allocatable units on the nodes that a flavor selects, cordoned ones included, and how many nodes those are."""
    wanted = {str(key): str(value) for key, value in mapping(flavor, "spec", "nodeLabels").items()}
    nodes = [node for node in scope.accelerator_nodes if wanted.items() <= node.metadata.label.items()]
    return sum(units_of(scope, node, resource) for node in nodes), len(nodes)
