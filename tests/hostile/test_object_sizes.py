"""Objects that a tenant makes as large as etcd lets him: what they cost whoever judges is in proportion to their own size."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from conformance.fence.checks import check_aimed, check_blanket_tolerations
from conformance.gang.checks import check_partial
from conformance.psa.bypass import check_bypass
from conformance.psa.standards import check_standards
from conformance.req.checks import check_approved_names, check_can_be_offered, check_whole_devices
from conformance.req.waiting import check_waiting
from conformance.req.without_pods import check_jobs_without_pods
from fixtures.kubernetes.models import Event, Json, OwnerReference
from fixtures.model.cluster import Scope
from fixtures.model.demand.custom_templates import templates_by_shape
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.demand.reserved_devices import doubt, shares
from fixtures.model.demand.template import MAX_PATH, MAX_TEMPLATES
from fixtures.model.dra.claims import MAX_REQUESTS
from fixtures.model.jobs.gang_jobs import gang_jobs
from fixtures.model.placement.affinity import AFFINITY_TERMS, VALUES_PER_EXPRESSION
from fixtures.verdict.findings import Evidence, Finding, Outcome
from fixtures.verdict.record import Level
from fixtures.verdict.subjects import Subject
from tests.builders import FENCE, H100, a_container, a_node, a_pod, a_scope, a_spec, a_toleration, a_workload
from tests.dra import DRIVER, a_claim, a_class, a_slice, claim_spec
from tests.steps import growth, steps

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


def test_no_name_of_a_megabyte_gets_into_a_record() -> None:
    container = {**a_container(), "resources": {"requests": {f"nvidia.com/{LONG}": "1"}, "limits": {f"nvidia.com/{LONG}": "2"}}}
    volume = {"name": LONG, "hostPath": {"path": "/dev"}}
    scope = a_scope(rayclusters=[a_workload("RayCluster", "r", {"a": {"containers": [container], "volumes": [volume]}})], namespaces=[])
    for check in (check_whole_devices, check_standards, check_approved_names, check_bypass):
        evidence = Evidence()
        evidence(check(scope))
        assert len(msgspec.json.encode(evidence.judgement(Level.MUST))) < 20_000


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


def waiting(scope: Scope) -> Iterator[Finding]:
    return check_waiting(scope, scope.snapshot.taken_at)


@pytest.mark.parametrize("check", [check_can_be_offered, waiting])
def test_a_sidecar_costs_the_same_however_many_are_before_it(check: Callable[[Scope], Iterator[Finding]]) -> None:
    def judging(count: int) -> Callable[[], object]:
        scope = a_scope_with_sidecars(count)
        return lambda: list(check(scope))

    assert growth(judging, 100) < 5


def a_scope_with_claims(pods: int, comparisons: int) -> Scope:
    """Pending pods that name one claim, whose selector has so many comparisons that all hold."""
    text = " && ".join(f"device.attributes['{DRIVER}'].type != 'x{number}'" for number in range(comparisons))
    claim = {**a_claim("c"), "spec": claim_spec(selectors=[{"cel": {"expression": text}}])}
    named = [{"name": "own", "resourceClaimName": "c"}]
    waiting_pods = [a_pod(f"p{number}", "team-a", resourceClaims=named) for number in range(pods)]
    slices = [a_slice("gpu-0", devices=8)]
    return a_scope(nodes=[a_node("gpu-0")], pods=waiting_pods, resourceclaims=[claim], deviceclasses=[a_class()], resourceslices=slices)


@pytest.mark.parametrize("check", [check_can_be_offered, waiting, check_approved_names])
def test_a_claim_s_selectors_are_read_once_however_many_pods_name_it(check: Callable[[Scope], Iterator[Finding]]) -> None:
    def more_pods(comparisons: int) -> int:
        few, many = a_scope_with_claims(5, comparisons), a_scope_with_claims(25, comparisons)
        return steps(lambda: list(check(many))) - steps(lambda: list(check(few)))

    more_pods(1)
    assert more_pods(150) < 2 * more_pods(1)


def test_a_pod_of_which_more_is_claimed_than_is_weighed_is_undecided() -> None:
    every = [{"name": f"c{number}", "resourceClaimName": "c"} for number in range(MAX_REQUESTS + 1)]
    pods = [a_pod("much", "team-a", resourceClaims=every), a_pod("usual", "team-a", resourceClaims=every[:1])]
    slices = [a_slice("gpu-0", devices=8)]
    scope = a_scope(nodes=[a_node("gpu-0")], pods=pods, resourceclaims=[a_claim("c")], deviceclasses=[a_class()], resourceslices=slices)
    offered = {finding.subject.name: finding for finding in check_can_be_offered(scope)}
    assert (offered["much"].outcome, offered["usual"].outcome) == (Outcome.UNDECIDED, Outcome.OK)
    assert "more than 256 requests" in offered["much"].message


def an_event(about: str, number: int, kind: str = "Job") -> Event:
    involved = {"kind": kind, "namespace": "team-a", "name": about}
    named = {"metadata": {"name": f"e{number}", "namespace": "team-a"}, "type": "Warning", "message": "m", "involvedObject": involved}
    return msgspec.convert(named, Event)


def test_an_event_is_not_held_against_every_job() -> None:
    def judging(count: int) -> Callable[[], object]:
        jobs = [a_workload("Job", f"j{number}", {"template": {"spec": a_spec(devices=1)}}) for number in range(count)]
        events = [an_event(f"z{number}", number) for number in range(count)]
        scope = a_scope(nodes=[a_node("gpu-0")], pods=[], batch__jobs=jobs, events=events)
        return lambda: list(check_jobs_without_pods(scope, scope.snapshot.taken_at))

    assert growth(judging, 50) < 5


def a_scope_with_owners(count: int, owners: int) -> Scope:
    """Pods of one Job, which name others as owners too, and all these Jobs."""
    names = [{"kind": "Job", "name": f"j{number}", "uid": f"uid-j{number}", "controller": not number} for number in range(owners)]
    pods = [a_pod(f"p{number}", "team-a", devices=1) for number in range(count)]
    for pod in pods:
        pod.metadata.owner_references = msgspec.convert(names, list[OwnerReference])
    jobs = [a_workload("Job", f"j{number}", {"parallelism": 5, "template": {"spec": a_spec(devices=1)}}) for number in range(owners)]
    for number, job in enumerate(jobs):
        job["metadata"]["uid"] = f"uid-j{number}"
    return a_scope(nodes=[a_node("gpu-0")], pods=pods, batch__jobs=jobs)


def test_a_pod_is_in_the_job_that_controls_it_and_not_held_against_every_owner() -> None:
    """The Job controller counts a pod by its controller, and the API server lets an object have one."""

    def judging(count: int) -> Callable[[], object]:
        scope = a_scope_with_owners(40, count)
        return lambda: list(check_partial(scope, scope.snapshot.taken_at))

    assert [job.subject.name for job in gang_jobs(a_scope_with_owners(5, 4))] == ["j0"]
    assert growth(judging, 30) < 5


def test_pods_that_share_devices_are_not_held_against_each_other() -> None:
    def judging(count: int) -> Callable[[], object]:
        labels, annotations = {f"runai-gpu-group/{number}": f"g{number}" for number in range(20)}, {"gpu-fraction": "0.1"}
        more: Json = {"labels": labels, "annotations": annotations, "schedulerName": "kai-scheduler"}
        pods = [a_pod(f"p{number}", "team-a", node="gpu-0", **more) for number in range(count)]
        scope = a_scope(nodes=[a_node("gpu-0")], pods=pods)
        return lambda: [(shares(scope, pod), doubt(scope, pod)) for pod in pods]

    assert growth(judging, 25) < 5


def test_of_thousands_of_templates_in_one_object_the_first_are_judged_and_the_others_reported() -> None:
    spec = a_spec(containers=[a_container("c", securityContext={"privileged": True})])
    findings = list(check_bypass(a_scope(pytorchjobs=[a_pytorchjob(**{f"role-{number}": spec for number in range(2_000)})])))
    assert [finding.outcome for finding in findings] == [Outcome.BAD] * MAX_TEMPLATES + [Outcome.UNDECIDED]
    assert f"more than {MAX_TEMPLATES} pod templates" in findings[-1].message


# -- affinities and tolerations that a tenant writes as long as an object may be: what they cost does not multiply with the nodes --


HARD = "nvidia.com/gpu:NoSchedule"
SECRET: Json = {"secretRef": {"name": "s"}}
Check = Callable[[Scope], Iterator[Finding]]


def required(terms: list[Json]) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def product(count: int = 1, values: int = 1) -> Json:
    """An affinity of so many terms of which the last one lets a pod onto the nodes of these tests."""
    others = [{"matchExpressions": [{"key": "a", "operator": "In", "values": [f"x{number}"]}]} for number in range(count - 1)]
    names = [*(f"x{number}" for number in range(values - 1)), H100]
    return required([*others, {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": names}]}])


def cluster(nodes: int, affinity: Json | None = None, tolerations: list[Any] | None = None, **more: Any) -> Scope:
    """So many nodes that have a taint of their own beside the fence, and one pending pod."""
    every = [a_node(f"gpu-{number}", taints=(FENCE, f"own-{number}:NoSchedule")) for number in range(nodes)]
    spec: dict[str, Any] = {"devices": 1, "tolerations": tolerations or [HARD], "affinity": affinity or product(), **more}
    return a_scope(nodes=every, pods=[a_pod("p", "team-a", phase="Pending", **spec)])


def growth_with_nodes(check: Check, **more: Any) -> int:
    """How many calls fifteen further nodes cost."""

    def calls(nodes: int) -> int:
        return steps(lambda: list(check(cluster(nodes, **more))))

    return calls(20) - calls(5)


@pytest.mark.parametrize("check", [check_aimed, check_can_be_offered, waiting])
@pytest.mark.parametrize("affinity", [product(8_000), product(values=AFFINITY_TERMS * VALUES_PER_EXPRESSION + 1)], ids=["terms", "values"])
def test_an_affinity_beyond_the_bound_is_undecided(check: Check, affinity: Json) -> None:
    [finding] = check(cluster(3, affinity))
    assert finding.outcome is Outcome.UNDECIDED
    assert f"more than {AFFINITY_TERMS} terms" in finding.message


def test_a_pod_whose_affinity_is_too_long_may_be_anywhere() -> None:
    scope = cluster(1, product(8_000), devices=0, containers=[a_container("c", envFrom=[SECRET])])
    [finding] = check_bypass(scope)
    assert finding.outcome is Outcome.UNDECIDED
    assert "Secret s" in finding.message


@pytest.mark.parametrize("affinity", [product(), product(400), product(values=5_000)], ids=["one", "terms", "values"])
def test_a_long_affinity_within_the_bound_is_judged(affinity: Json) -> None:
    assert [finding.outcome for finding in check_aimed(cluster(3, affinity))] == [Outcome.OK]
    assert [finding.outcome for finding in check_can_be_offered(cluster(3, affinity))] == [Outcome.OK]


@pytest.mark.parametrize("check", [check_aimed, check_can_be_offered, waiting, check_bypass])
@pytest.mark.parametrize("more", [{"affinity": product(8_000)}, {"affinity": product(values=50_000)}], ids=["terms", "values"])
def test_affinities_are_not_multiplied_with_nodes(check: Check, more: Any) -> None:
    assert growth_with_nodes(check, **more) < 20_000


@pytest.mark.parametrize("check", [waiting, check_bypass])
def test_tolerations_are_not_multiplied_with_nodes(check: Check) -> None:
    tolerations = [f"k{number}:NoSchedule" for number in range(3_000)]
    more: dict[str, Any] = {"tolerations": tolerations}
    if check is check_bypass:
        more |= {"devices": 0, "containers": [a_container("c", envFrom=[SECRET])]}
    assert growth_with_nodes(check, **more) < 20_000
