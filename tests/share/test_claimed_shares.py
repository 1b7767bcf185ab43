"""How many claims have room on devices that a driver shares."""

from typing import Any

import pytest

from conformance.probes.running import PendingPod
from conformance.share.checks import check_isolated
from conformance.share.probes import fillable_nodes, judge_extra
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import places_of
from fixtures.model.placement.shared_devices import ClaimedShares, claimed_shares
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.builders import a_cpu_node, a_pod, a_policy, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.tables import each_row


def shared(name: str, shares: str = "4", *, memory: str = "0", multiple: bool = True) -> Json:
    """A GPU as NVIDIA's driver publishes it with so many consumable shares; without a number, limited by its memory alone."""
    policies: Json = {"memory": {"value": "80Gi", "requestPolicy": {"default": memory}}}
    if shares:
        policies["shares"] = {"value": shares, "requestPolicy": {"default": "1"}}
    return {**a_device(name), "capacity": policies, "allowMultipleAllocations": multiple}


def a_share(name: str, device: str, **consumed: str) -> Json:
    return a_claim(name, device=device, shareID=f"id-of-{name}", consumedCapacity=consumed)


def scope_of(*devices: Json, claims: list[Json] | None = None) -> Scope:
    slices = [a_slice("gpu-0", devices=devices)]
    return a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=slices, deviceclasses=[a_class()], resourceclaims=claims or [])


def shares_of(*devices: Json, claims: list[Json] | None = None) -> ClaimedShares:
    scope = scope_of(*devices, claims=claims)
    (place,) = places_of(scope, scope.accelerator_nodes[0])
    return claimed_shares(scope, place)


@each_row
def test_room_is_capacity_less_what_claims_consume(devices: list[Json], claims: list[Json], expected: tuple[int, int]) -> None:
    found = shares_of(*[shared(**one) for one in devices], claims=[a_share(**one) for one in claims])
    assert (found.factor, found.free, found.unknown) == (*expected, "")


@each_row
def test_what_cannot_be_counted_has_a_reason(devices: list[Json], words: str) -> None:
    assert words in shares_of(*[shared(**one) for one in devices]).unknown


def test_a_node_of_shared_claims_is_filled_by_claims() -> None:
    (target,) = fillable_nodes(scope_of(shared("a"), shared("b"), claims=[a_share("x", "a", shares="1")]))
    assert (target.devices, target.factor, target.free, target.others) == (2, 4, 7, 1)
    assert target.place.way == "ResourceClaim of DeviceClass gpu.nvidia.com"


@each_row
def test_what_cannot_be_filled_is_inconclusive(devices: list[Json], words: str) -> None:
    with pytest.raises(Inconclusive, match=words):
        fillable_nodes(scope_of(*[shared(**one) for one in devices]))


def test_devices_of_their_own_are_not_filled() -> None:
    with pytest.raises(NotApplicable):
        fillable_nodes(scope_of(a_device("a"), a_device("b")))


@each_row
def test_the_claim_beyond_the_last_share_waits(waited: dict[str, Any], outcome: Outcome) -> None:
    (target,) = fillable_nodes(scope_of(shared("a")))
    assert judge_extra(target, PendingPod(subject=Subject("Pod", "extra", "ns"), seconds=1.0, **waited), "").outcome is outcome


@pytest.mark.parametrize("extended", [False, True])
def test_an_isolated_tenant_holds_no_share_of_a_claimed_device(extended: bool) -> None:
    policy = a_policy(tenants={"isolated": ["bank-*"]})
    claims = [a_share("shared", "a", shares="1"), a_claim("alone", device="b")]
    for claim in claims:
        claim["metadata"]["namespace"] = "bank-1"

    def using(name: str) -> Pod:
        if extended:
            status = {"extendedResourceClaimStatus": {"resourceClaimName": name}}
            return a_pod(name, "bank-1", node="gpu-0", devices={"nvidia.com/gpu": "1"}, status=status)
        return a_pod(name, "bank-1", node="gpu-0", resourceClaims=[{"name": "gpu", "resourceClaimName": name}])

    scope = a_scope(
        policy,
        nodes=[a_cpu_node("gpu-0")],
        pods=[using("shared"), using("alone")],
        resourceslices=[a_slice("gpu-0", devices=[shared("a"), shared("b")])],
        deviceclasses=[a_class(extended="nvidia.com/gpu")],
        resourceclaims=claims,
    )
    found = {finding.subject.name: finding.outcome for finding in check_isolated(scope)}
    assert found == {"shared": Outcome.BAD, "alone": Outcome.OK}
