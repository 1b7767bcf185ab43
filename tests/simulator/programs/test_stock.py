"""What a node's devices have left: shared amounts, counters of partitions, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.dra.allocator import choose
from fixtures.simulator.dra.stock import Stock

CLASSES: dict[str, Json] = {"gpu": {"spec": {}}}


def a_slice(*devices: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, "devices": list(devices), **spec}}


def shared(policy: Json | None = None, value: str = "10Gi") -> Json:
    capacity = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return {"name": "s", "allowMultipleAllocations": True, "capacity": {"memory": capacity}}


def partition(name: str, memory: str) -> Json:
    return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]}


def a_claim(*counts: int, memory: str = "") -> Json:
    amounts = {"capacity": {"requests": {"memory": memory}}} if memory else {}
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "gpu", "count": count, **amounts}} for n, count in enumerate(counts)]
    return {"spec": {"devices": {"requests": requests}}}


def chosen(claim: Json, *slices: Json, taken: tuple[Json, ...] = ()) -> list[str] | None:
    found = choose(claim, CLASSES, slices, taken)
    return None if found is None else [f"{one['request']}:{one['device']}" for one in found]


COUNTERS = a_slice(sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}])
PARTS = a_slice(partition("whole", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi"), partition("quarter", "10Gi"))


def test_partitions_share_what_their_device_has() -> None:
    assert chosen(a_claim(1), COUNTERS, PARTS) == ["r0:whole"]
    assert chosen(a_claim(2), COUNTERS, PARTS) == ["r0:half-0", "r0:half-1"], "the first choice, the whole device, was taken back"
    assert chosen(a_claim(1, 1), COUNTERS, PARTS) == ["r0:half-0", "r1:half-1"]
    assert chosen(a_claim(3), COUNTERS, PARTS) is None, "20 + 20 + 10 are more than there is"
    held = {"driver": "d", "pool": "p", "device": "half-1"}
    assert chosen(a_claim(1), COUNTERS, PARTS, taken=(held,)) == ["r0:half-0"]
    assert chosen(a_claim(2), COUNTERS, PARTS, taken=(held,)) is None
    assert chosen(a_claim(1), COUNTERS, PARTS, taken=({**held, "device": "whole"},)) is None


@pytest.mark.parametrize(
    ("policy", "asked", "gets"),
    [
        (None, "", "10Gi"),
        (None, "3Gi", "3Gi"),
        ({"default": "1Gi"}, "", "1Gi"),
        ({"default": "1Gi", "validRange": {"min": "2Gi"}}, "1Gi", "2Gi"),
        ({"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}, "5Gi", "6Gi"),
        ({"default": "2Gi", "validRange": {"min": "2Gi", "max": "4Gi"}}, "5Gi", None),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "2Gi", "4Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "5Gi", None),
        (None, "11Gi", None),
    ],
)
def test_a_share_is_what_the_policy_makes_of_the_request(policy: Json | None, asked: str, gets: str | None) -> None:
    share = Stock([a_slice(shared(policy))["spec"]], ()).take(("d", "p", "s"), {"memory": asked} if asked else {})
    assert (share and share["consumedCapacity"]) == (gets and {"memory": gets})


def test_a_shared_device_is_given_until_it_is_used_up_and_once_to_each_request() -> None:
    held = {"driver": "d", "pool": "p", "device": "s", "shareID": "1", "consumedCapacity": {"memory": "4Gi"}}
    assert chosen(a_claim(1, memory="4Gi"), a_slice(shared()), taken=(held,)) == ["r0:s"]
    assert chosen(a_claim(1, memory="4Gi"), a_slice(shared()), taken=(held, held)) is None
    assert chosen(a_claim(1, 1, memory="3Gi"), a_slice(shared()), taken=(held,)) == ["r0:s", "r1:s"]
    assert chosen(a_claim(2, memory="1Gi"), a_slice(shared())) is None


def test_a_request_for_an_amount_wants_a_device_that_has_it() -> None:
    plain = {"name": "plain", "capacity": {"memory": {"value": "8Gi"}}}
    assert chosen(a_claim(1, memory="4Gi"), a_slice({"name": "bare"}, plain)) == ["r0:plain"]
    assert chosen(a_claim(1, memory="9Gi"), a_slice({"name": "bare"}, plain)) is None


def test_a_shared_partition_uses_its_counters_once() -> None:
    both = {**shared(), **partition("s", "30Gi")}
    stock = Stock([COUNTERS["spec"], a_slice(both)["spec"]], ())
    assert stock.take(("d", "p", "s"), {"memory": "1Gi"}) is not None
    assert stock.take(("d", "p", "s"), {"memory": "1Gi"}) is not None, "30 of 40 were used up by the first"
    stock.count(("d", "p", "s"), {"memory": "1Gi"}, -1)
    stock.count(("d", "p", "s"), {"memory": "1Gi"}, -1)
    assert (
        Stock([COUNTERS["spec"], a_slice({**both, **partition("s", "50Gi")})["spec"]], ()).take(("d", "p", "s"), {"memory": "1Gi"}) is None
    )
