"""DRA-11: devices that are given twice or gone while held, and shares that are no fault."""

from typing import Any

import pytest

from conformance.dra.claims import check_allocations
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from tests.builders import a_cpu_node, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.tables import each_row

NOW = 1_790_000_000.0
SHARED = a_device("gpu-0", allowMultipleAllocations=True)
NODE = "gpu-0 gpu.nvidia.com"


def scope_of(claims: list[Json], slices: list[Json] | None = None, **items: Any) -> Scope:
    own = {"resourceslices": slices or [a_slice("gpu-0", devices=2)], "resourceclaims": claims, "deviceclasses": [a_class()]}
    return a_scope(nodes=[a_cpu_node("gpu-0")], **{**own, **items})


def given(claims: list[Json], slices: list[Json] | None = None, **items: Any) -> dict[str, str]:
    return {one.subject.name: str(one.outcome) for one in check_allocations(scope_of(claims, slices, **items), NOW)}


@each_row
def test_a_device_belongs_to_one_claim_unless_it_is_shared(second: Json, device: Json, outcome: str) -> None:
    more = dict(second)
    name = more.pop("device_name", "gpu-0")
    claims = [a_claim("a", device="gpu-0"), a_claim("b", device=name, **more)]
    unnamed = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    slices = [a_slice("gpu-0", devices=[device, a_device("gpu-1")]), a_slice("gpu-0", devices=[unnamed], pool="other")]
    assert given(claims, slices)[NODE] == outcome


@pytest.mark.parametrize(("amounts", "outcome"), [(("40Gi", "39Gi"), "ok"), (("40Gi", "41Gi"), "bad")])
def test_shares_fit_the_capacity_of_their_device(amounts: tuple[str, str], outcome: str) -> None:
    claims = [
        a_claim(name, device="gpu-0", shareID=name, consumedCapacity={"memory": amount}) for name, amount in zip("ab", amounts, strict=True)
    ]
    assert given(claims, [a_slice("gpu-0", devices=[{**SHARED, "capacity": {"memory": {"value": "80Gi"}}}])])[NODE] == outcome


@each_row
def test_a_device_and_its_part_are_one_device(held: tuple[str, str], outcome: str) -> None:
    def part(name: str, parent: str) -> Json:
        return {"name": name, "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": parent}}}

    shape = {"name": "vfio-0", "attributes": {"type": {"string": "vfio"}, "uuid": {"string": "GPU-gpu-0"}}}
    devices = [a_device("gpu-0"), part("mig-0", "GPU-gpu-0"), part("mig-1", "GPU-gpu-0"), part("mig-2", "GPU-gpu-1"), shape]
    claims = [a_claim(f"c-{name}", device=name) for name in held]
    assert given(claims, [a_slice("gpu-0", devices=devices)])[NODE] == outcome


def a_part(name: str, counters: dict[str, str], **more: Any) -> Json:
    named = {"type": "mig", "parentUUID": "GPU-gpu-0", "uuid": f"MIG-{name}"}
    draws = [{"counterSet": "gpu-0", "counters": {counter: {"value": amount} for counter, amount in counters.items()}}]
    return {"name": name, "attributes": {key: {"string": value} for key, value in named.items()}, "consumesCounters": draws, **more}


@each_row
def test_partitions_draw_no_more_of_a_counter_than_their_device_has(parts: list[Json], outcome: str) -> None:
    sets = a_slice("gpu-0", devices=[], slices=2, name="counters")
    sets["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "slice-0": {"value": "1"}}}]
    claims = [a_claim(f"c-{part['name']}", device=part["name"]) for part in parts]
    slices = [sets, a_slice("gpu-0", devices=[*parts, a_part("free", {"memory": "80Gi"})], slices=2)]
    assert given(claims, slices)[NODE] == outcome


@pytest.mark.parametrize(("address", "outcome"), [("0000:1b:00.0", "bad"), ("0000:2a:00.0", "ok")])
def test_a_machine_and_a_pod_do_not_have_the_device_of_one_address(address: str, outcome: str) -> None:
    """The shape for machines has a UUID of its own."""
    whole, at = a_device("gpu-0"), "resource.kubernetes.io/pciBusID"
    whole["attributes"][at] = {"string": "0000:1b:00.0"}
    named = {"type": "vfio", "uuid": "e7af2681-d4df-538a-9cde-d6ca12d67e90", at: address}
    shape = {"name": "vfio-0", "attributes": {key: {"string": value} for key, value in named.items()}}
    claims = [a_claim("pod", device="gpu-0"), a_claim("machine", device="vfio-0")]
    assert given(claims, [a_slice("gpu-0", devices=[whole, shape])])[NODE] == outcome


@each_row
def test_a_held_device_that_is_gone_is_found(slices: list[Json], found: dict[str, str]) -> None:
    names = given([a_claim("a", device="gpu-1")], [a_slice(**one) for one in slices])
    assert {name: outcome for name, outcome in names.items() if name != NODE} == found


def test_devices_of_a_network_are_not_judged() -> None:
    claims = [a_claim("a", "dra.net", device="eth0"), a_claim("b", "dra.net", device="eth0")]
    assert given(claims) == {NODE: "ok"}


def test_a_claim_that_changed_a_moment_ago_is_undecided() -> None:
    claim = a_claim("a", device="gpu-7")
    claim["metadata"]["creationTimestamp"] = "2026-09-21T14:13:00Z"
    assert given([claim])["gpu.nvidia.com/gpu-0/gpu-7"] == "undecided"


def test_a_device_that_many_nodes_reach_is_published() -> None:
    remote = a_slice("gpu-0", devices=[a_device("gpu-9")], pool="rack")
    del remote["spec"]["nodeName"]
    remote["spec"]["allNodes"] = True
    assert given([a_claim("a", device="gpu-9", pool="rack")], [a_slice("gpu-0"), remote]) == {NODE: "ok"}
