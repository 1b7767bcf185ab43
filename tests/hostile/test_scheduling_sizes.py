"""Affinities and tolerations that a tenant writes as long as an object may be: what they cost does not multiply with the nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.fence.checks import check_aimed
from conformance.psa.bypass import check_bypass
from conformance.req.checks import check_can_be_offered
from conformance.req.waiting import check_waiting
from conformance.scope.node_affinity import AFFINITY_TERMS, VALUES_PER_EXPRESSION
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import FENCE, H100, a_container, a_node, a_pod, a_scope
from tests.steps import steps

HARD = "nvidia.com/gpu:NoSchedule"
SECRET: Json = {"secretRef": {"name": "s"}}
Check = Callable[[Scope], Iterator[Finding]]


def waiting(scope: Scope) -> Iterator[Finding]:
    return check_waiting(scope, scope.snapshot.taken_at)


def required(terms: list[Json]) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def product(count: int = 1, values: int = 1) -> Json:
    """An affinity of so many terms of which the last one lets a pod onto the nodes of these tests."""
    others = [{"matchExpressions": [{"key": "a", "operator": "In", "values": [f"x{number}"]}]} for number in range(count - 1)]
    names = [*(f"x{number}" for number in range(values - 1)), H100]
    return required([*others, {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": names}]}])


def cluster(nodes: int, affinity: Json | None = None, tolerations: list[Any] | None = None, **more: Any) -> Scope:
    """So many nodes that have a taint of their own beside the fence, and one pending pod."""
    every = [a_node(f"gpu-{number}", taints=(FENCE, f"own-{number}:NoSchedule")) for number in range(nodes)]
    spec: dict[str, Any] = {"devices": 1, "tolerations": tolerations or [HARD], "affinity": affinity or product(), **more}
    return a_scope(nodes=every, pods=[a_pod("p", "team-a", phase="Pending", **spec)])


def growth_with_nodes(check: Check, **more: Any) -> int:
    """How many calls fifteen further nodes cost."""

    def calls(nodes: int) -> int:
        return steps(lambda: list(check(cluster(nodes, **more))))

    return calls(20) - calls(5)


@pytest.mark.parametrize("check", [check_aimed, check_can_be_offered, waiting])
@pytest.mark.parametrize("affinity", [product(8_000), product(values=AFFINITY_TERMS * VALUES_PER_EXPRESSION + 1)], ids=["terms", "values"])
def test_an_affinity_beyond_the_bound_is_undecided(check: Check, affinity: Json) -> None:
    [finding] = check(cluster(3, affinity))
    assert finding.outcome is Outcome.UNDECIDED
    assert f"more than {AFFINITY_TERMS} terms" in finding.message


def test_a_pod_whose_affinity_is_too_long_may_be_anywhere() -> None:
    scope = cluster(1, product(8_000), devices=0, containers=[a_container("c", envFrom=[SECRET])])
    [finding] = check_bypass(scope)
    assert finding.outcome is Outcome.UNDECIDED
    assert "Secret s" in finding.message


@pytest.mark.parametrize("affinity", [product(), product(400), product(values=5_000)], ids=["one", "terms", "values"])
def test_a_long_affinity_within_the_bound_is_judged(affinity: Json) -> None:
    assert [finding.outcome for finding in check_aimed(cluster(3, affinity))] == [Outcome.OK]
    assert [finding.outcome for finding in check_can_be_offered(cluster(3, affinity))] == [Outcome.OK]


@pytest.mark.parametrize("check", [check_aimed, check_can_be_offered, waiting, check_bypass])
@pytest.mark.parametrize("more", [{"affinity": product(8_000)}, {"affinity": product(values=50_000)}], ids=["terms", "values"])
def test_affinities_are_not_multiplied_with_nodes(check: Check, more: Any) -> None:
    assert growth_with_nodes(check, **more) < 20_000


@pytest.mark.parametrize("check", [waiting, check_bypass])
def test_tolerations_are_not_multiplied_with_nodes(check: Check) -> None:
    tolerations = [f"k{number}:NoSchedule" for number in range(3_000)]
    more: dict[str, Any] = {"tolerations": tolerations}
    if check is check_bypass:
        more |= {"devices": 0, "containers": [a_container("c", envFrom=[SECRET])]}
    assert growth_with_nodes(check, **more) < 20_000
