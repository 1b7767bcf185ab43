"""Objects of dynamic resource allocation that are no such thing: every check that looks at them still ends with findings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from conformance.adv.checks import check_advertised, check_allocatable, check_arithmetic, check_one_route
from conformance.coverage.unjudged_devices import accelerators
from conformance.devices.free_devices import usable_places
from conformance.dra.allocations import check_allocations
from conformance.dra.devices import check_devices
from conformance.dra.pools import check_pools
from conformance.dra.reservations import check_reserved
from conformance.dra.selector_probe import not_asked
from conformance.dra.served import check_served
from conformance.dra.taints import check_taints
from conformance.fence.checks import check_aimed, check_fenced, check_intruders
from conformance.inv.agreement import check_agreement
from conformance.inv.judged_nodes import check_judged
from conformance.inv.skew import check_skew
from conformance.psa.bypass import check_bypass
from conformance.psa.standards import check_standards
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice, a_template

CHECKS: tuple[Callable[[Scope], Iterable[Finding]], ...] = (
    check_advertised,
    check_allocatable,
    check_arithmetic,
    check_one_route,
    check_intruders,
    check_aimed,
    check_fenced,
    check_agreement,
    check_judged,
    check_standards,
    check_bypass,
    check_not_overcommitted,
    check_can_be_offered,
    check_approved_names,
    check_pools,
    check_devices,
    check_skew,
    partial(check_taints, now=0.0),
    partial(check_reserved, now=0.0),
    partial(check_allocations, now=0.0),
    partial(check_served, compiles=not_asked),
)
WILD: tuple[object, ...] = (None, True, -1, 10**40, "", "\x00", [], [[]], {}, {"": {}}, [None], ["x"], [{"name": 7}], {"a": [{"b": None}]})


def broken(whole: Json) -> Iterable[Json]:
    """An object with each of its parts, at any depth, replaced by each wild value."""

    def paths(value: object, path: tuple[object, ...]) -> Iterable[tuple[object, ...]]:
        yield path
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in children:
            yield from paths(child, (*path, key))

    def replaced(value: object, path: tuple[object, ...], new: object) -> object:
        if not path:
            return new
        if isinstance(value, dict):
            return {key: replaced(child, path[1:], new) if key == path[0] else child for key, child in value.items()}
        assert isinstance(value, list)
        return [replaced(child, path[1:], new) if index == path[0] else child for index, child in enumerate(value)]

    for path, new in itertools.product(paths(whole, ()), WILD):
        found = replaced(whole, path, new)
        if isinstance(found, dict):
            yield found


WHOLE: Json = {
    "resourceslices": a_slice(
        "gpu-0",
        devices=[
            a_device(
                "gpu-0",
                taints=[{"key": "k", "value": "v", "effect": "NoExecute"}],
                consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "1"}}}],
            )
        ],
    ),
    "deviceclasses": a_class(extended="example.com/gpu"),
    "resourceclaims": a_claim("c", device="gpu-0", consumedCapacity={"memory": "1Gi"}, shareID="s"),
    "resourceclaimtemplates": a_template("t"),
    "devicetaintrules": {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d", "pool": "p"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    },
}


@pytest.mark.parametrize("kind", list(WHOLE))
def test_every_check_ends_on_malformed_objects(kind: str) -> None:
    named = {"name": "a", "resourceClaimName": "c"}
    pods = [
        a_pod("bound", node="gpu-0", resourceClaims=[named, {"name": "b", "resourceClaimTemplateName": "t"}]),
        a_pod("waits", resourceClaims=[named, {"name": "b", "resourceClaimTemplateName": "t"}, {}]),
    ]
    objects = list(broken(WHOLE[kind]))
    assert len(objects) > 100
    step = 7  # several broken objects at a time, beside a whole one
    for start in range(0, len(objects), step):
        items: dict[str, Any] = {name: [whole] for name, whole in WHOLE.items()}
        items[kind] += objects[start : start + step]
        scope = a_scope(nodes=[a_cpu_node("gpu-0"), a_node("gpu-1")], pods=pods, **items)
        for check in CHECKS:
            try:
                assert all(isinstance(finding, Finding) for finding in check(scope))
            except NotApplicable:
                continue
        assert usable_places(scope)
        assert list(accelerators(scope, []))


def test_claims_of_pods_may_be_anything() -> None:
    for wild in WILD:
        entries = [wild] if isinstance(wild, dict) else [{"name": wild, "resourceClaimName": wild, "resourceClaimTemplateName": wild}]
        scope = a_scope(nodes=[a_node()], pods=[a_pod("p", node="gpu-0", resourceClaims=entries)])
        assert list(check_intruders(scope))
