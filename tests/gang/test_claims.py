"""Gangs whose devices come with claims: what a scheduler must have done for their pods, and what Kueue counts."""

from typing import Any

import pytest

from conformance.gang.adapters.kueue import Kueue
from conformance.gang.claimed import without_devices
from conformance.gang.judging import Attempt, judge_fit
from conformance.gang.plan import make_plan
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Inconclusive, Outcome, Subject
from tests.builders import a_cpu_node, a_scope
from tests.dra import a_class, a_slice
from tests.gang.test_adapters import configured

CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


def plan_of(**items: Any) -> Any:
    known = {"deviceclasses": [a_class()], "resourceslices": [a_slice("gpu-0", devices=4), a_slice("gpu-1", devices=4)], **items}
    return make_plan(a_scope(nodes=[a_cpu_node("gpu-0"), a_cpu_node("gpu-1")], **known))


def member(name: str, *claims: str, extended: str = "") -> Json:
    status: Json = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": claim} for claim in claims]}
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": status}


def claim(*users: str, allocated: bool = True) -> Json:
    return {"status": {"allocation": {"devices": {}} if allocated else None, "reservedFor": [{"uid": f"uid-{user}"} for user in users]}}


@pytest.mark.parametrize(
    ("pod", "claims", "lacks"),
    [
        (member("p", "c"), {"c": claim("p")}, []),
        (member("p", extended="c"), {"c": claim("p")}, []),
        (member("p", "c"), {"c": claim("q")}, ["p"]),
        (member("p", "c"), {"c": claim("p", allocated=False)}, ["p"]),
        (member("p", "c"), {}, ["p"]),
        (member("p", "c", "d"), {"c": claim("p")}, ["p"]),
        (member("p"), {}, ["p"]),
    ],
    ids=["served", "extended", "of another pod", "not allocated", "gone", "one of two", "no claim made"],
)
def test_a_bound_member_has_its_devices_only_with_claims_reserved_for_it(pod: Json, claims: dict[str, Json], lacks: list[str]) -> None:
    assert without_devices([pod], claims) == lacks


def test_a_gang_that_is_bound_without_its_devices_fails() -> None:
    seen = Attempt(size=2, bound=2, most=2, seconds=1.0, spread=0.0, trace="", without_devices=("g-0", "g-1"))
    found = judge_fit(Subject("GangScheduler", "volcano"), plan_of(), seen, None)
    assert found.outcome is Outcome.BAD
    assert "ignores claims" in found.message


def test_kueue_counts_claims_by_the_name_that_its_configuration_maps_their_class_to() -> None:
    text = "resources:\n  deviceClassMappings:\n  - name: example.com/gpu\n    deviceClassNames: [other, gpu.nvidia.com]\n"
    scope = configured(text)
    assert Kueue().counted_as(scope, CLASS) == "example.com/gpu"
    assert Kueue().counted_as(scope, "nvidia.com/gpu") == "nvidia.com/gpu"


@pytest.mark.parametrize("text", ["", "resources: [1, 2]\n", "resources:\n  deviceClassMappings: [{name: x, deviceClassNames: [other]}]\n"])
def test_kueue_is_not_asked_about_claims_that_it_does_not_count(text: str) -> None:
    with pytest.raises(Inconclusive, match="maps DeviceClass gpu"):
        Kueue().counted_as(configured(text), CLASS)
