import pytest

from fixtures.model.devices.node_labels import view_of
from fixtures.model.placement.free_devices import is_shared, listable_places, usable_places
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope
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
