"""MIG devices that are offered to claims: which slots a probe asks for."""

from typing import Any

import pytest

from conformance.mig.claimed_slices import is_made_on_demand, profile_selector
from conformance.mig.mig_nodes import mig_nodes
from conformance.mig.probes import absent_profile, chosen, slots
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import NotApplicable
from tests.builders import a_cpu_node, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice

_GPU = a_class(expression="device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'")
_CLASS = a_class("mig.nvidia.com", expression="device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'")


def part(name: str, profile: str, **more: Any) -> Json:
    device = a_device(name, kind="mig", **more)
    device["attributes"] |= {"profile": {"string": profile}, "parentUUID": {"string": "GPU-0"}}
    return device


def scope_of(*devices: Json, claims: list[Json] | None = None) -> Scope:
    nodes = [a_cpu_node("gpu-0"), a_cpu_node("gpu-1")]
    slices = [a_slice("gpu-0", devices=devices), a_slice("gpu-1", devices=[a_device("gpu-0")])]
    return a_scope(nodes=nodes, resourceslices=slices, deviceclasses=[_CLASS, _GPU], resourceclaims=claims or [])


CUT = (part("a", "1g.10gb"), part("b", "1g.10gb"), part("c", "3g.40gb"))


def test_a_slice_that_a_claim_holds_is_not_free() -> None:
    found = slots(scope_of(*CUT, claims=[a_claim("x", device="a")]))
    assert [(slot.profile, slot.free) for slot in found] == [("1g.10gb", 1), ("3g.40gb", 1)]


def test_whole_devices_are_no_slices() -> None:
    with pytest.raises(NotApplicable):
        chosen(scope_of(a_device("gpu-0")))


def test_a_slice_without_a_profile_is_not_asked_for() -> None:
    with pytest.raises(NotApplicable):
        chosen(scope_of(a_device("a", kind="mig")))


def test_the_absent_profile_is_published_by_nobody() -> None:
    scope = scope_of(*(part(f"p{index}", profile) for index, profile in enumerate(("1g.5gb", "1g.10gb", "1g.12gb"))))
    assert absent_profile(scope, list(mig_nodes(scope)), scope.accelerator_nodes[0]) == "1g.18gb"


def test_a_profile_is_asked_for_by_a_selector() -> None:
    assert profile_selector("1g.10gb") == 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'


def test_partitions_that_share_counters_are_made_on_demand() -> None:
    counters = [{"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": "10Gi"}}}]
    dynamic = (part("a", "1g.10gb", consumesCounters=counters), part("b", "3g.40gb", consumesCounters=counters))
    assert [is_made_on_demand(slot.place) for slot in slots(scope_of(*dynamic))] == [True, True]
    assert [is_made_on_demand(slot.place) for slot in slots(scope_of(*CUT))] == [False, False]
