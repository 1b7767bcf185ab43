"""What probes can claim of a node, and how they ask for it."""

from typing import Any

import pytest

from conformance.inv.rights import rights
from conformance.requirement import Needs
from fixtures.kubernetes.models import Json
from fixtures.model.devices.node_labels import view_of
from fixtures.model.dra.claims import templates_of
from fixtures.model.placement.free_devices import Place, is_shared, listable_places, places_of, usable_places
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope
from tests.dra import a_class, a_device, a_slice, claim_spec
from tests.tables import each_row


def test_free_is_what_bound_pods_leave_and_the_most_free_comes_first() -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1"), a_cpu_node()]
    scope = a_scope(nodes=nodes, pods=[a_pod("a", devices=3, node="gpu-0"), a_pod("b", devices=8, node="gpu-0", phase="Succeeded")])
    assert [(place.node.name, place.free, place.capacity) for place in usable_places(scope)] == [("gpu-1", 8, 8), ("gpu-0", 5, 8)]


def test_cordoned_and_unready_nodes_offer_nothing() -> None:
    with pytest.raises(NotApplicable, match="no Ready"):
        listable_places(a_scope(nodes=[a_node("a", cordoned=True), a_node("b", ready=False)]))


def test_other_vendors_and_passthrough_are_not_asked_with_nvidia_smi() -> None:
    for resource in ("amd.com/gpu", "nvidia.com/pgpu"):
        with pytest.raises(NotApplicable, match=resource):
            listable_places(a_scope(nodes=[a_node(resource=resource)]))


@each_row
def test_shared_is_reported_from_labels_and_name(resource: str, labels: dict[str, str], shared: bool) -> None:
    node = a_node(labels=labels, resource=resource)
    assert is_shared(node, view_of(a_scope(nodes=[node]), node), resource) is shared


NODE = a_cpu_node("gpu-0")
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"


def places(slices: list[Json], **items: Any) -> list[Place]:
    scope = a_scope(nodes=[NODE], **{"resourceslices": slices, "deviceclasses": [a_class()], **items})
    return places_of(scope, scope.accelerator_nodes[0])


def free(slices: list[Json], **items: Any) -> list[tuple[str, int, int]]:
    return [(place.resource.rpartition("/")[2], place.free, place.capacity) for place in places(slices, **items)]


def test_tainted_devices_and_broken_pools_are_not_offered() -> None:
    lost = a_device("gpu-1", taints=[{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}])
    assert free([a_slice("gpu-0", devices=[a_device("gpu-0"), lost])]) == [("gpu.nvidia.com", 1, 1)]
    assert free([a_slice("gpu-0", devices=2, slices=2)]) == []
    assert free([a_slice("gpu-0", devices=2)], deviceclasses=[]) == []


def test_each_device_belongs_to_the_class_made_for_it() -> None:
    part = {"name": "mig-0", "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": "GPU-gpu-1"}}}
    vfio = {"name": "vfio-0", "attributes": {"type": {"string": "vfio"}, "uuid": {"string": "GPU-9"}}}
    classes = [a_class(), a_class("mig.nvidia.com", expression=MIG), a_class("net", "dra.net")]
    found = free([a_slice("gpu-0", devices=[a_device("gpu-0"), part, vfio])], deviceclasses=classes)
    assert found == [("gpu.nvidia.com", 1, 1), ("mig.nvidia.com", 1, 1)]


def test_a_class_that_cannot_be_evaluated_is_asked_where_no_other_chooses() -> None:
    odd = a_class("odd", expression="device.driver == 'gpu.nvidia.com' || device.driver == 'gpu.amd.com'")
    assert free([a_slice("gpu-0", devices=2)], deviceclasses=[odd]) == [("odd", 2, 2)]
    assert free([a_slice("gpu-0", devices=2)], deviceclasses=[odd, a_class()]) == [("gpu.nvidia.com", 2, 2)]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_pod_claims_what_it_asks_for_by_class(version: str) -> None:
    (place,) = places([a_slice("gpu-0", devices=2)])
    pod = probe_pod(PodShape(name="p", image="i", script="true", resources={place.resource: 2}, sidecar_script="true"))
    probe, sibling = pod["spec"]["containers"]
    assert probe["resources"]["claims"] == [{"name": pod["spec"]["resourceClaims"][0]["name"]}]
    assert "claims" not in sibling["resources"]
    assert not [name for name in probe["resources"]["limits"] if "/" in name]
    (template,) = templates_of(pod, version, {"run": "r"})
    assert template["metadata"]["name"] == pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    assert template["spec"]["metadata"]["labels"] == {"run": "r"}
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    asked = request if version == "v1beta1" else request["exactly"]
    assert (asked["deviceClassName"], asked["count"]) == ("gpu.nvidia.com", 2)
    (known,) = claim_spec(count=2)["devices"]["requests"]
    assert version != "v1" or request["exactly"].items() >= known["exactly"].items()


def test_rights_to_claim_are_needed_only_where_devices_are_published() -> None:
    needs = Needs(reads={}, writes={"create resource.k8s.io/resourceclaimtemplates": ["ISO-01"]})
    assert rights(needs, a_scope(nodes=[a_node()]).snapshot) == []
    assert rights(needs, a_scope(nodes=[NODE], resourceslices=[a_slice("gpu-0")]).snapshot)


def dated(known: Json, created: str) -> Json:
    return {**known, "metadata": {**known["metadata"], "creationTimestamp": created}}


def test_a_probe_asks_by_the_extended_resource_that_a_class_names_and_says_so() -> None:
    (place,) = places([a_slice("gpu-0", devices=2)], deviceclasses=[a_class(extended="nvidia.com/gpu")])
    assert (place.resource, place.free, place.capacity) == ("nvidia.com/gpu", 2, 2)
    assert place.way == "extended resource nvidia.com/gpu by DRA (DeviceClass gpu.nvidia.com)"
    (place,) = places([a_slice("gpu-0", devices=2)])
    assert place.way == "ResourceClaim of DeviceClass gpu.nvidia.com"


def test_of_two_classes_of_one_extended_resource_the_newer_one_serves_it() -> None:
    old = dated(a_class("old", extended="nvidia.com/gpu"), "2026-01-01T00:00:00Z")
    new = dated(a_class("new", "other.example.com", extended="nvidia.com/gpu"), "2026-02-01T00:00:00Z")
    (place,) = places([a_slice("gpu-0", devices=2)], deviceclasses=[old, new])
    assert place.resource == "deviceclass.resource.kubernetes.io/old"
    scope = a_scope(nodes=[NODE], deviceclasses=[old, new])
    assert scope.claims.class_behind("nvidia.com/gpu") == "new"
    assert scope.claims.class_behind("deviceclass.resource.kubernetes.io/old") == "old"
    assert scope.claims.class_behind("nvidia.com/mig-1g.5gb") == ""
