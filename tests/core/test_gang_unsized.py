"""Pods that belong together by a group of any scheduler, or by an owner of a kind that the suite does not know: never absent."""

from typing import Any

import pytest

from conformance.gang.checks import check_installed, check_used
from conformance.net.advertising import check_jobs
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_scope
from tests.core.test_gang_jobs import NOW, a_job, member, partial
from tests.findings import only
from tests.gang.test_adapters import scope_of
from tests.tables import each_row

COSCHEDULING: Json = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "schedulerName": "scheduler-plugins-scheduler"}
KAI: Json = {"annotations": {"pod-group-name": "g"}, "schedulerName": "kai-scheduler"}
KEYS: Json = {"coscheduling": "scheduling_x-k8s_io__podgroups", "KAI": "scheduling_run_ai__podgroups"}
MARKS: Json = {"coscheduling": COSCHEDULING, "KAI": KAI}


def of(bound: int, total: int = 3, **more: Any) -> list[Pod]:
    return [member(i, bound=i < bound, **more) for i in range(total)]


def owned(bound: int, kind: str, api: str, total: int = 3, **more: Any) -> list[Pod]:
    pods = of(bound, total, owner=f"{kind}/work", **more)
    for pod in pods:
        for owner in pod.metadata.owners:
            owner.api_version = api
    return pods


def with_group(system: str, spec: Json, pods: list[Pod], **more: Any) -> list[Finding]:
    lists: Json = {KEYS[system]: [{"metadata": {"name": "g", "namespace": "team-a"}, "spec": spec, **more}]}
    return partial(a_scope(pods=pods, **lists))


# -- PodGroups of KAI and coscheduling --


@pytest.mark.parametrize("system", KEYS)
def test_a_pod_group_says_how_many_pods_it_needs(system: str) -> None:
    for bound, outcome in ((0, Outcome.OK), (1, Outcome.BAD), (3, Outcome.OK)):
        finding = only(with_group(system, {"minMember": 3}, of(bound, **MARKS[system])))
        assert (str(finding.subject), finding.outcome) == ("PodGroup team-a/g", outcome)
    assert with_group(system, {"minMember": 3}, of(1, **MARKS[system]), status={"phase": "Finished"}) == []


def test_a_pod_group_of_kai_may_say_it_of_its_parts() -> None:
    parts = {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]}
    assert only(with_group("KAI", parts, of(1, **KAI))).observed == "1 of 3 pods placed for 1 h"


@pytest.mark.parametrize("system", KEYS)
@pytest.mark.parametrize("owner", ["ReplicaSet/web", "StatefulSet/notebook", ""])
def test_a_pod_group_of_one_pod_over_replicas_is_no_gang(system: str, owner: str) -> None:
    """KAI makes one for whatever owner it meets, with minMember 1 where it knows of no gang."""
    assert with_group(system, {"minMember": 1}, of(1, owner=owner, **MARKS[system])) == []


def test_a_job_of_one_pod_that_tried_again_is_no_gang() -> None:
    pods = [member(0, bound=True, owner="Job/train", phase="Failed", **KAI), member(1, bound=False, owner="Job/train", **KAI)]
    group = {"metadata": {"name": "g", "namespace": "team-a"}, "spec": {"minMember": 1}}
    lists: Json = {KEYS["KAI"]: [group], "batch__jobs": [a_job(1)]}
    assert gang_jobs(a_scope(pods=pods, **lists)) == []


# -- groups that were not read --


@each_row
def test_a_group_of_any_scheduler_that_was_not_read_is_undecided_when_partly_placed(marks: Json) -> None:
    finding = only(partial(a_scope(pods=of(1, **marks))))
    assert (str(finding.subject), finding.outcome) == ("pod group team-a/g", Outcome.UNDECIDED)
    assert "1 of 3 pods placed" in finding.message
    assert only(partial(a_scope(pods=of(3, **marks)))).outcome is Outcome.OK
    assert only(partial(a_scope(pods=of(1, **marks)), NOW - 55 * 60)).outcome is Outcome.OK


@each_row
def test_other_labels_and_annotations_name_no_group(marks: Json) -> None:
    assert partial(a_scope(pods=of(1, **marks))) == []


# -- owners of an unknown kind --


def test_a_job_of_an_unknown_kind_is_undecided_when_partly_placed() -> None:
    finding = only(partial(a_scope(pods=owned(1, "FooJob", "x.example/v1"))))
    assert (str(finding.subject), finding.outcome) == ("FooJob team-a/work", Outcome.UNDECIDED)
    assert "how many of its pods FooJob needs together cannot be told" in finding.message
    assert only(partial(a_scope(pods=owned(3, "FooJob", "x.example/v1")))).outcome is Outcome.OK
    assert only(partial(a_scope(pods=owned(0, "FooJob", "x.example/v1")))).outcome is Outcome.OK


@each_row
def test_pods_that_work_each_for_itself_are_no_gang(kind: str, api: str) -> None:
    """Deployments, notebooks, Spark's executors (of the driver's pod), steps of workflows, model servers."""
    assert gang_jobs(a_scope(pods=owned(1, kind, api))) == []


def test_a_kind_of_the_same_name_in_another_group_is_not_taken_for_one_of_these() -> None:
    assert only(partial(a_scope(pods=owned(1, "Workflow", "x.example/v1")))).outcome is Outcome.UNDECIDED


def test_a_job_whose_size_is_not_known_needs_no_gang_scheduler_and_no_fabric() -> None:
    """It may serve models: what is not known is said, and fails nothing."""
    nodes = [a_node(f"gpu-{i}", capacity={"rdma/a": "63"}) for i in range(3)]
    scope = a_scope(nodes=nodes, pods=owned(3, "Servers", "x.example/v1"))
    alone = scope_of(("scheduling.x-k8s.io/podgroups",), pods=owned(3, "Servers", "x.example/v1"))
    for findings in (check_used(scope), check_installed(alone), check_jobs(scope)):
        finding = only(list(findings))
        assert (finding.outcome, "Servers" in finding.message) == (Outcome.NOT_JUDGED, True)
