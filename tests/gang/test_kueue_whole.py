from typing import Any

import pytest

from conformance.gang.checks import check_held
from conformance.gang.kueue_whole import Admitted, judge_admission, judge_workloads, probe_admission
from fixtures.kubernetes.models import Json
from fixtures.model.queues.kueue import reserved_by
from fixtures.probes.workspace import Workspace
from tests.builders import a_scope
from tests.gang.test_kueue_reservations import GPU, NOW, a_queue, a_workload, of_job
from tests.tables import each_row


def workload(sets: list[list[int]], given: list[int], done: int = 0, *, elastic: bool = False) -> Json:
    """A Workload whose pod sets have ``[count, minCount]``, admitted with ``given`` pods of two devices; ``done`` of the first ended."""
    one = a_workload("QuotaReserved", "Admitted")
    names = [f"set-{number}" for number in range(len(sets))]
    least = [{"minCount": sizes[1]} if len(sizes) > 1 else {} for sizes in sets]
    one["spec"] = {"podSets": [{"name": name, "count": sizes[0], **more} for name, sizes, more in zip(names, sets, least, strict=True)]}
    one["status"]["admission"]["podSetAssignments"] = [
        {"name": name, "count": pods, "flavors": {GPU: "h100"}, "resourceUsage": {GPU: str(2 * pods)}}
        for name, pods in zip(names, given, strict=False)
    ]
    one["status"]["reclaimablePods"] = [{"name": "set-0", "count": done}]
    one["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": str(elastic).lower()}
    return one


@each_row
def test_a_workload_is_admitted_whole_or_as_its_owner_allows(case: dict[str, Any], expected: str) -> None:
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [workload(**case)]}
    (finding,) = judge_workloads(a_scope(None, **lists))
    assert finding.outcome.value == expected, finding.message


def test_workloads_are_judged_where_devices_are_claimed_and_no_queue_can_be_asked() -> None:
    manager = {"metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"}, "status": {"availableReplicas": 1}}
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [workload([[2]], [1])], "deployments": [manager]}
    findings = probe_admission(a_scope(None, nodes=[], **lists), Workspace.__new__(Workspace))
    assert [finding.outcome.value for finding in findings] == ["bad", "not_judged"]


@each_row
def test_quota_is_given_to_all_of_a_group_or_to_none_of_it(fits: dict[str, int], over: dict[str, int] | None, expected: str) -> None:
    larger = None if over is None else Admitted(size=3, **over)
    assert judge_admission(Admitted(size=2, **fits), larger, 5.0, "quota only").outcome.value == expected


@pytest.mark.parametrize(("done", "counted"), [(0, 12), (2, 8), (6, 0)])
def test_pods_that_have_ended_hold_no_quota_and_the_queue_counts_so_too(done: int, counted: int) -> None:
    """Kueue leaves the admission as it was, and counts less: it was said that the queue counts wrong."""
    admitted = workload([[6]], [6], done)
    assert reserved_by(admitted) == {GPU: counted}
    lists: dict[str, Any] = {"kueue_x-k8s_io__workloads": [admitted], "clusterqueues": [a_queue(str(counted))], "pods": [of_job()]}
    assert {finding.outcome.value for finding in check_held(a_scope(None, **lists), NOW)} == {"ok"}
