from __future__ import annotations

from typing import Any

import pytest

from conformance.gang.checks import check_quota_exists
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Inconclusive, NotApplicable
from tests.builders import a_node, a_policy, a_scope

GPU = "nvidia.com/gpu"


def a_flavor(name: str = "h100", **spec: Any) -> Json:
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def quotas(quota: str | int, flavor: str = "h100", resource: str = GPU, **limits: str) -> list[Json]:
    resources = [{"name": "cpu", "nominalQuota": "100"}, {"name": resource, "nominalQuota": quota, **limits}]
    return [{"coveredResources": ["cpu", resource], "flavors": [{"name": flavor, "resources": resources}]}]


def a_queue(name: str, quota: str | int, *, flavor: str = "h100", resource: str = GPU, **spec: Any) -> Json:
    spec = {"resourceGroups": quotas(quota, flavor, resource), **spec}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def a_cohort(name: str, quota: str | int = 0, **spec: Any) -> Json:
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": {"resourceGroups": quotas(quota) if quota else [], **spec}}


def findings(*queues: Json, flavors: list[Json] | None = None, policy: Any = None, **more: Any) -> list[Finding]:
    world = {"nodes": [a_node("gpu-0"), a_node("gpu-1")], "clusterqueues": queues, "resourceflavors": flavors or [a_flavor()], **more}
    return list(check_quota_exists(a_scope(policy, **world)))


def with_cohorts(queues: list[Json], *cohorts: Json) -> list[Finding]:
    more: Json = {"kueue_x-k8s_io__cohorts": list(cohorts)}
    return findings(*queues, **more)


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


# -- Cohorts --


@pytest.mark.parametrize("field", ["cohortName", "cohort"])
def test_a_cohort_adds_a_quota_that_its_queues_share(field: str) -> None:
    queues = [a_queue("a", 0, **{field: "all"}), a_queue("b", 8, **{field: "all"})]
    (finding,) = with_cohorts(queues, a_cohort("all", 640))
    assert (finding.outcome.value, "648 in" in finding.observed, "Cohort all" in finding.observed) == ("bad", True, True)
    (finding,) = with_cohorts(queues, a_cohort("all", 8))
    assert finding.outcome.value == "ok"


@pytest.mark.parametrize("field", ["parentName", "parent"])
def test_a_queue_may_use_what_the_whole_tree_of_its_cohort_has(field: str) -> None:
    queue = a_queue("a", 0, cohortName="team")
    (finding,) = with_cohorts([queue], a_cohort("team", **{field: "org"}), a_cohort("org"), a_cohort("other", 640, **{field: "org"}))
    assert (finding.outcome.value, "Cohort other" in finding.observed) == ("bad", True)


def test_a_cohorts_quota_that_no_queue_may_take_is_none() -> None:
    """Beside a queue of its own cohort: one of no queue, one in another flavor, and a circle, of which Kueue admits nothing."""
    queue = a_queue("a", 8, cohortName="all")
    circle = [a_cohort("all", 640, parentName="up"), a_cohort("up", parentName="all")]
    other = a_cohort("all", resourceGroups=quotas(640, "a100"))
    for cohorts in ([], [a_cohort("empty", 640)], [other], circle):
        (finding,) = with_cohorts([queue], *cohorts)
        assert (finding.outcome.value, finding.observed) == ("ok", "8 in a")


def test_queues_take_no_more_of_a_cohort_than_they_may_borrow() -> None:
    def queue(name: str, **limits: str) -> Json:
        return a_queue(name, 0, cohortName="all", resourceGroups=quotas(0, **limits))

    limited = [queue("a", borrowingLimit="8"), queue("b", borrowingLimit="8")]
    assert [finding.outcome.value for finding in with_cohorts(limited, a_cohort("all", 640))] == ["ok"]
    assert [finding.outcome.value for finding in with_cohorts([*limited, queue("c")], a_cohort("all", 640))] == ["bad"]


def test_cohorts_that_could_not_be_listed_are_missed_only_where_a_queue_names_one() -> None:
    refused: Json = {"trouble": {"kueue.x-k8s.io/cohorts": "Forbidden"}}
    assert outcomes(a_queue("a", 8), **refused) == ["ok"]
    with pytest.raises(Inconclusive, match="cohorts could not be listed"):
        findings(a_queue("a", 8, cohortName="all"), **refused)


def test_wild_cohorts_break_nothing() -> None:
    wild: list[Json] = [
        {},
        {"metadata": {"name": "all"}, "spec": {"parentName": 7, "resourceGroups": [3, {"flavors": [{"resources": "x"}]}]}},
    ]
    (finding,) = with_cohorts([a_queue("a", 8, cohortName="all")], *wild)
    assert finding.outcome.value == "ok"
