"""Objects that a tenant makes as large as etcd lets him: what they cost whoever judges is in proportion to their own size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.fence.checks import check_blanket_tolerations
from conformance.psa.standards import check_standards
from conformance.req.checks import check_can_be_offered
from conformance.req.waiting import check_waiting
from conformance.scope.custom_templates import templates_by_shape
from conformance.scope.pod_templates import templates_in
from conformance.scope.scope import Scope
from conformance.scope.spec_walk import MAX_PATH
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome, Subject
from tests.builders import a_container, a_node, a_pod, a_scope, a_toleration, a_workload
from tests.counted_work import growth

PYTORCH = "kubeflow.org/pytorchjobs"
LONG = "W" * 100_000
"""The name of a replica type, as a tenant may write it."""


def a_pytorchjob(**replicas: Json) -> Json:
    types = {name: {"replicas": 1, "template": {"spec": spec}} for name, spec in replicas.items()}
    return a_workload("PyTorchJob", "j", {"pytorchReplicaSpecs": types})


def peak_of(*calls: Any) -> int:
    """Bytes that calls need at most beside what is there before."""
    tracemalloc.start()
    try:
        for call in calls:
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_name_above_many_entries_is_not_kept_for_each_of_them() -> None:
    spec = {"containers": [a_container()], "hostAliases": [{"ip": "::"} for _ in range(2_000)]}
    job = a_pytorchjob(**{LONG: spec})
    thing: Json = {"spec": {LONG: {"list": [{"a": {}} for _ in range(2_000)]}}}
    known = peak_of(lambda: list(templates_in(PYTORCH, job)))
    unknown = peak_of(lambda: list(templates_by_shape("example.com/things", Subject("Thing", "x"), thing)))
    assert max(known, unknown) < 20 * len(LONG)


@pytest.mark.parametrize("check", [check_blanket_tolerations, check_standards])
def test_a_long_name_is_cut_in_every_finding_and_its_template_is_judged(check: Any) -> None:
    spec = {"containers": [a_container(devices=1)], "tolerations": [a_toleration("*")]}
    [finding] = check(a_scope(pytorchjobs=[a_pytorchjob(**{LONG: spec})], namespaces=[]))
    assert finding.outcome is Outcome.BAD
    assert max(len(finding.subject.name), len(finding.source)) < MAX_PATH + 20
    assert finding.subject.name.startswith("j spec.pytorchReplicaSpecs.WWW")


def test_long_names_that_begin_alike_stay_two_subjects() -> None:
    spec = {"containers": [a_container(devices=1)]}
    job = a_pytorchjob(**{f"{LONG}a": spec, f"{LONG}b": spec})
    first, second = templates_in(PYTORCH, job)
    assert first.place != second.place
    deep: Json = {"x": {"containers": [a_container()]}, "y": {"containers": [a_container()]}}
    for number in range(20):
        deep = {f"{number}{'n' * 70}": deep}
    one, other = templates_in(PYTORCH, a_workload("PyTorchJob", "j", deep))
    assert (len(one.path), len(other.path)) == (MAX_PATH, MAX_PATH)
    assert one.place != other.place


def a_scope_with_sidecars(count: int) -> Scope:
    """A pending pod whose sidecars each ask for a resource of their own."""
    sidecars = [
        {**a_container(f"c{number}", devices={f"nvidia.com/mig-{number}": 1}), "restartPolicy": "Always"} for number in range(count)
    ]
    return a_scope(nodes=[a_node("gpu-0")], pods=[a_pod("p", "team-a", devices=1, phase="Pending", initContainers=sidecars)])


@pytest.mark.parametrize(
    "check", [check_can_be_offered, lambda scope: check_waiting(scope, scope.snapshot.taken_at)], ids=["REQ-04", "REQ-12"]
)
def test_a_sidecar_costs_the_same_however_many_are_before_it(check: Callable[[Scope], Iterator[Finding]]) -> None:
    def judging(count: int) -> Callable[[], object]:
        scope = a_scope_with_sidecars(count)
        return lambda: list(check(scope))

    assert growth(judging, 100) < 5
