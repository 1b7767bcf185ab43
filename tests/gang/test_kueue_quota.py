from __future__ import annotations

from typing import Any

import pytest

from conformance.gang.checks import check_quota_exists
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, NotApplicable
from tests.builders import a_node, a_policy, a_scope

GPU = "nvidia.com/gpu"


def a_flavor(name: str = "h100", **spec: Any) -> Json:
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def a_queue(name: str, quota: str | int, *, flavor: str = "h100", resource: str = GPU) -> Json:
    resources = [{"name": "cpu", "nominalQuota": "100"}, {"name": resource, "nominalQuota": quota}]
    groups = [{"coveredResources": ["cpu", resource], "flavors": [{"name": flavor, "resources": resources}]}]
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": {"resourceGroups": groups}}


def findings(*queues: Json, flavors: list[Json] | None = None, policy: Any = None, **more: Any) -> list[Finding]:
    world = {"nodes": [a_node("gpu-0"), a_node("gpu-1")], "clusterqueues": queues, "resourceflavors": flavors or [a_flavor()], **more}
    return list(check_quota_exists(a_scope(policy, **world)))


def outcomes(*queues: Json, **more: Any) -> list[str]:
    return [finding.outcome.value for finding in findings(*queues, **more)]


def test_quota_that_the_nodes_have_passes_and_more_fails_over_all_queues_of_a_flavor() -> None:
    assert outcomes(a_queue("a", 8), a_queue("b", "8")) == ["ok"]
    (finding,) = findings(a_queue("a", 16), a_queue("b", 8))
    assert finding.outcome.value == "bad"
    assert "24 in a and b" in finding.message or "24 in a, b" in finding.message
    assert "its 2 nodes can allocate 16" in finding.message


def test_a_flavor_counts_the_nodes_that_it_selects() -> None:
    some = [a_flavor(nodeLabels={"kubernetes.io/hostname": "gpu-0"})]
    assert outcomes(a_queue("a", 8), flavors=some) == ["ok"]
    assert outcomes(a_queue("a", 16), flavors=some) == ["bad"]


def test_a_flavor_that_is_not_there_admits_nothing() -> None:
    (finding,) = findings(a_queue("a", 8, flavor="gone"))
    assert "no such ResourceFlavor" in finding.message


def test_an_autoscaler_may_bring_the_rest() -> None:
    assert outcomes(a_queue("a", 64), policy=a_policy(requests={"autoscaled": [GPU]})) == ["not_judged"]


def test_placement_by_topology_or_ready_pods_takes_back_what_does_not_fit() -> None:
    assert outcomes(a_queue("a", 64), flavors=[a_flavor(topologyName="racks")]) == ["not_judged"]


def test_no_queue_with_a_quota_of_devices_is_nothing_to_judge() -> None:
    wild = {"metadata": {}, "spec": {"resourceGroups": 3}}
    for queues in ([], [a_queue("a", 8, resource="memory")], [a_queue("a", "0")], [a_queue("a", "x")], [wild]):
        with pytest.raises(NotApplicable):
            findings(*queues)
