"""INV-07: objects that stand for nodes."""

from typing import Any

import pytest

from conformance.inv.judged_nodes import check_stand_ins
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_scope
from tests.findings import by_name, causes
from tests.tables import each_row

LABEL = "nfd.node.kubernetes.io/node-name"
NODES = [a_node(f"gpu-{index}") for index in range(3)]


def features(*nodes: str) -> list[Json]:
    return [{"metadata": {"name": node, "namespace": "nfd", "labels": {LABEL: node}}} for node in nodes]


def a_claim(registered: str, node: str = "", since: str = "2026-09-20T00:00:00Z", **meta: Any) -> Json:
    condition = {"type": "Registered", "status": registered, "lastTransitionTime": since}
    return {"metadata": {"name": "claim", **meta}, "status": {"nodeName": node, "conditions": [condition]}}


def found(**world: Any) -> dict[str, str]:
    return causes(check_stand_ins(a_scope(nodes=NODES, **world)))


def test_many_objects_of_nodes_that_are_gone_are_left_and_one_may_wait_for_its_collector() -> None:
    alive = features("gpu-0", "gpu-1", "gpu-2")
    assert found(nodefeatures=[*alive, *features("old-0", "old-1")]) == dict.fromkeys(("old-0", "old-1"), "LeftOfDeletedNode")
    assert by_name(check_stand_ins(a_scope(nodes=NODES, nodefeatures=[*alive, *features("old-0")])))["old-0"] is Outcome.NOT_JUDGED


def test_a_new_slice_may_be_of_a_node_that_joined_after_the_nodes_were_read() -> None:
    meta = {"name": "new-0-gpu", "creationTimestamp": "2026-09-21T14:13:00Z"}
    (finding,) = check_stand_ins(a_scope(nodes=NODES, resourceslices=[{"metadata": meta, "spec": {"nodeName": "new-0"}}]))
    assert (finding.outcome, finding.cause) == (Outcome.UNDECIDED, "ChangeUnderWay")


def test_one_slice_of_a_node_that_is_gone_is_left() -> None:
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "old", "pool": {"name": "old"}}}]
    assert found(resourceslices=slices) == {"s": "LeftOfDeletedNode"}


@each_row
def test_claims_of_karpenter(claim: Json, cause: str) -> None:
    assert found(nodeclaims=[claim]) == ({"claim": cause} if cause else {})


def test_a_node_without_the_features_of_its_pool_is_named() -> None:
    assert found(nodefeatures=features("gpu-0", "gpu-1")) == {"gpu-2": "StandInMissing"}
    assert found(nodefeatures=features("gpu-0")) == {}  # nobody can tell which of the nodes are as they should be


def test_features_of_no_single_node_are_left_out() -> None:
    with pytest.raises(NotApplicable):
        found(nodefeatures=[{"metadata": {"name": "rules", "namespace": "nfd"}}])
