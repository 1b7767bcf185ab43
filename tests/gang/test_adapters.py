from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.gang.adapters import Coscheduling, Gang, Guarantee, Kai, Kueue, Native, Volcano, chosen, grouped
from conformance.gang.adapters.base import in_turn
from conformance.gang.adapters.grouped import LINKS
from conformance.gang.checks import check_installed
from conformance.gang.judging import Attempt, judge_fit
from conformance.gang.plan import make_plan
from conformance.gang.probes import without_devices
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import ConfigMap, Json, Meta, Pod
from fixtures.model.cluster import Scope
from fixtures.model.dra.held_claims import held_claim
from fixtures.model.dra.slices import BY_CLASS
from fixtures.model.queues.kueue_quotas import pods_ready_timeout
from fixtures.ownership.owned import RUN_LABEL
from fixtures.probes.pods import keeps
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.builders import a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.core.test_gang_jobs import a_job, of_job
from tests.dra import a_class, a_slice
from tests.tables import each_row

VOLCANO = "scheduling.volcano.sh/podgroups"
QUEUES = "scheduling.volcano.sh/queues"
KUEUE = "kueue.x-k8s.io/workloads"


def scope_of(served: tuple[str, ...] = (), policy: Any = None, **items: list[Any]) -> Scope:
    """Only the built-in kinds and ``served`` are served; ``items`` by key with ``__`` for ``/``."""
    named = {name.replace("__", "/").replace("_", "."): values for name, values in items.items()}
    custom = ("volcano", "run.ai", "kueue", "kubeflow", "jobset", "ray", "scheduling.k8s.io")
    listings = [
        Listing(key=key, items=named.get(key, []), served=key in served or not any(word in key for word in custom)) for key in KINDS
    ]
    return Scope(Snapshot(listings, taken_at=0.0), policy or a_policy())


def deployment(name: str, available: int | None = 1, namespace: str = "volcano-system", since: str = "") -> Json:
    status: Json = {} if available is None else {"availableReplicas": available}
    if since:
        status["conditions"] = [{"type": "Available", "status": "False", "lastTransitionTime": since}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": 1}, "status": status}


def installed(scope: Scope) -> dict[str, Finding]:
    return {finding.subject.name: finding for finding in check_installed(scope)}


# -- GANG-01 --


JUST_NOW = "1970-01-01T00:00:00Z"
LONG_AGO = "1969-12-31T00:00:00Z"
OPEN = {"metadata": {"name": "default"}, "status": {"state": "Open"}}
ACTIVE = {"metadata": {"name": "queue"}, "status": {"conditions": [{"type": "Active", "status": "True"}]}}


@each_row
@pytest.mark.parametrize("queues", [[], [OPEN]], ids=["no queue", "a queue that it opened before"])
def test_a_scheduler_is_judged_by_its_deployments_where_it_has_some(deployments: list[Json], outcome: Outcome, queues: list[Json]) -> None:
    served = (VOLCANO, QUEUES) if queues else ()
    found = installed(scope_of(served, apps__deployments=[deployment(**one) for one in deployments], scheduling_volcano_sh__queues=queues))
    assert found["volcano"].outcome is outcome


def test_a_manager_of_kueue_that_has_just_gone_proves_nothing_by_its_queues() -> None:
    manager = deployment("kueue-controller-manager", 0, "kueue-system", since=JUST_NOW)
    queues: Json = {"kueue_x-k8s_io__clusterqueues": [ACTIVE]}
    found = installed(scope_of((KUEUE, "kueue.x-k8s.io/clusterqueues"), apps__deployments=[manager], **queues))
    assert found["kueue"].outcome is Outcome.UNDECIDED


def test_processes_outside_the_cluster_are_known_by_what_they_write() -> None:
    assert installed(scope_of((VOLCANO, QUEUES), scheduling_volcano_sh__queues=[OPEN]))["volcano"].outcome is Outcome.OK
    assert installed(scope_of((VOLCANO,)))["volcano"].outcome is Outcome.UNDECIDED


def test_none_is_bad_where_jobs_need_one_and_not_applicable_where_none_does() -> None:
    findings = installed(scope_of(pods=of_job(8), batch__jobs=[a_job()]))
    assert findings["any"].outcome is Outcome.BAD
    with pytest.raises(NotApplicable, match="no multi-pod"):
        installed(scope_of())


def test_the_policy_says_whether_one_is_required() -> None:
    assert installed(scope_of(policy=a_policy(gang={"required": True})))["any"].outcome is Outcome.BAD
    with pytest.raises(NotApplicable):
        installed(scope_of(policy=a_policy(gang={"required": False}), pods=of_job(8), batch__jobs=[a_job()]))


def test_an_adapter_that_the_policy_names_must_be_there() -> None:
    policy = a_policy(gang={"adapters": ["kueue"]})
    assert [adapter.name for adapter in chosen(scope_of(policy=policy))] == ["kueue"]
    assert installed(scope_of(policy=policy, pods=of_job(8), batch__jobs=[a_job()]))["kueue"].outcome is Outcome.BAD


# -- guarantees --


def kueue_s(text: str, namespace: str = "kueue-system") -> ConfigMap:
    return ConfigMap(metadata=Meta(name="kueue-manager-config", namespace=namespace), data={"controller_manager_config.yaml": text})


def configured(text: str) -> Scope:
    return scope_of((KUEUE,), configmaps=[kueue_s(f"# kueue\n{text}")])


@each_row
def test_wait_for_pods_ready_is_read_from_kueues_configuration(text: str, seconds: float | None) -> None:
    assert pods_ready_timeout(configured(text)) == seconds


@pytest.mark.parametrize(
    "text", ["waitForPodsReady: [", f"waitForPodsReady: {{}}\nx: {'[' * 150}{']' * 150}", "waitForPodsReady: {}\n---\na: b\n"]
)
def test_a_configuration_that_cannot_be_read_may_set_anything(text: str) -> None:
    """It was said that Kueue has no waitForPodsReady, and that it counts no claims."""
    asked: list[Callable[[Scope], object]] = [Kueue().guarantee, lambda scope: Kueue.counted_as(scope, f"{BY_CLASS}gpu.nvidia.com")]
    for ask in asked:
        with pytest.raises(Inconclusive, match="ConfigMap kueue-system/kueue-manager-config cannot be read") as caught:
            ask(configured(text))
        assert caught.value.code == "ConfigurationUnreadable"


def test_kueue_promises_what_it_is_set_up_for() -> None:
    assert Kueue().guarantee(configured(""))[0] is Guarantee.QUOTA
    assert Kueue().guarantee(configured("waitForPodsReady: {timeout: 1m}"))[0] is Guarantee.EVICTION
    flavors = [{"spec": {"topologyName": "racks"}}]
    scope = scope_of((KUEUE, "kueue.x-k8s.io/resourceflavors"), **{"kueue_x-k8s_io__resourceflavors": flavors})
    assert Kueue().guarantee(scope)[0] is Guarantee.PLACEMENT
    assert Kueue().guarantee(scope, claims=True)[0] is Guarantee.QUOTA, "it counts no claims when it places by topology"
    assert Volcano().guarantee(scope_of())[0] is Guarantee.PLACEMENT


@each_row
def test_a_gang_goes_by_the_topology_of_its_own_nodes(pools: list[str], promise: Guarantee, flavor: Json) -> None:
    of_pools = [
        {"metadata": {"name": name}, "spec": {"topologyName": name, "nodeLabels": {"pool": pool}}}
        for name, pool in (("halls", "a100"), ("racks", "h100"))
    ]
    scope = scope_of((KUEUE, "kueue.x-k8s.io/resourceflavors"), **{"kueue_x-k8s_io__resourceflavors": of_pools})
    nodes = [a_node(f"gpu-{number}", labels={"pool": pool}) for number, pool in enumerate(pools)]
    assert Kueue().guarantee(scope, nodes)[0] is promise
    made: dict[str, Json] = {}
    workspace: Any = SimpleNamespace(
        run_id="r", will_remove=str, namespace=lambda: "ns", create=lambda key, obj, namespace="": made.update({obj["kind"]: obj["spec"]})
    )
    Kueue().setup(scope, workspace, "nvidia.com/gpu", 4, nodes)
    assert made["ResourceFlavor"] == flavor


# -- members --

POD: Json = {"metadata": {"name": "g-0", "labels": {"a": "b"}}, "spec": {"containers": []}}


def test_a_gang_of_volcano_has_the_priority_of_its_pods() -> None:
    spec = Volcano().group(Gang(name="g", pods=(POD, POD)), "probes")["spec"]
    assert spec == {"minMember": 2, "queue": "default", "priorityClassName": "probes"}


# -- KAI and coscheduling --

RUN: Any = SimpleNamespace(run_id="r")


def kai_of(queues: list[Json], pods: list[Pod] | None = None) -> Kai:
    """An adapter that was set up for eight devices on gpu-0, on a cluster with these queues: name, parent, limit, allocated."""
    made = [
        {
            "metadata": {"name": one["name"]},
            "spec": {"parentQueue": one.get("parent"), "resources": {"gpu": {"limit": one["limit"]}} if "limit" in one else {}},
            "status": {"allocated": {"nvidia.com/gpu": one.get("allocated", "0")}},
        }
        for one in queues
    ]
    scope = scope_of(("scheduling.run.ai/queues",), scheduling_run_ai__queues=made, pods=pods or [])
    adapter = Kai()
    adapter.setup(scope, RUN, "nvidia.com/gpu", 8, [a_node("gpu-0")])
    return adapter


@each_row
def test_a_queue_of_kai_without_room_for_the_gang_proves_nothing(queues: list[Json], code: str) -> None:
    if not code:
        assert kai_of(queues).queue == "default-queue"
        return
    with pytest.raises(Inconclusive) as caught:
        kai_of(queues)
    assert caught.value.code == code


ROOM = [{"name": "default-queue", "limit": -1}]


@pytest.mark.parametrize(
    ("pod", "harmed"),
    [
        (a_pod("train", node="gpu-0", schedulerName="kai-scheduler"), True),
        (a_pod("train", node="gpu-1", schedulerName="kai-scheduler"), False),
        (a_pod("train", node="gpu-0"), False),
        (a_pod("probe", node="gpu-0", schedulerName="kai-scheduler", labels={RUN_LABEL: "r"}), False),
        (a_pod("train", node="gpu-0", schedulerName="kai-scheduler", phase="Succeeded"), False),
    ],
    ids=["a pod of KAI's", "elsewhere", "of another scheduler", "of the run", "ended"],
)
def test_kai_is_not_asked_where_it_may_end_pods_for_a_probe(pod: Pod, harmed: bool) -> None:
    """It takes devices back for queues below their share, whatever the PriorityClass says."""
    if not harmed:
        kai_of(ROOM, [pod])
        return
    with pytest.raises(Inconclusive, match="KAI may end team-a/train on gpu-0"):
        kai_of(ROOM, [pod])


def test_a_gang_of_kai_names_its_queue_and_waits_before_it_ends_others() -> None:
    adapter, gang = kai_of(ROOM), Gang(name="g", pods=(POD, POD))
    made = adapter.group(gang, "low")
    assert (made["apiVersion"], made["kind"]) == ("scheduling.run.ai/v2alpha2", "PodGroup")
    assert made["spec"] == {"minMember": 2, "queue": "default-queue", "priorityClassName": "low", "preemptionDelay": "24h"}
    member = adapter.member(POD, "g")
    assert member["metadata"]["annotations"] == {"pod-group-name": "g"}
    assert member["metadata"]["labels"]["kai.scheduler/queue"] == "default-queue"
    assert member["spec"]["schedulerName"] == "kai-scheduler"


def test_a_gang_of_coscheduling_is_named_by_a_label() -> None:
    member = Coscheduling().member(POD, "g")
    assert member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "g"
    assert member["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_gangs_are_created_in_turn() -> None:
    gangs = [Gang(name=name, pods=tuple({"metadata": {"name": f"{name}{i}"}} for i in range(size))) for name, size in (("a", 2), ("b", 3))]
    assert [pod["metadata"]["name"] for _, pod in in_turn(gangs)] == ["a0", "b0", "a1", "b1", "b2"]


def test_an_adapter_that_the_suite_does_not_have_is_undecided() -> None:
    findings = installed(scope_of(policy=a_policy(gang={"adapters": ["volcan"], "required": True})))
    assert {name: finding.outcome for name, finding in findings.items()} == {"volcan": Outcome.UNDECIDED}
    assert "volcano, kueue, native" in findings["volcan"].message


BOTH = dict.fromkeys((grouped.NATIVE_GROUPS, grouped.WORKLOADS), "v1beta1")


@each_row
def test_what_makes_a_native_gang_is_what_discovery_shows(served: tuple[str, ...], versions: dict[str, str], kind: str) -> None:
    scope = scope_of(served)
    scope.snapshot.versions.update(versions)
    assert grouped.served_kind(scope) == kind
    found = Native().detect(scope)
    assert (found.installed, found.healthy) == (bool(kind), None)
    assert kind in found.reason


def test_a_gang_of_kubernetes_1_35_is_a_workload_and_pods_that_name_it() -> None:
    scope = scope_of((grouped.WORKLOADS,))
    scope.snapshot.versions[grouped.WORKLOADS] = "v1alpha1"
    adapter = Native()
    adapter.setup(scope, cast(Workspace, None), "nvidia.com/gpu", 3)
    made = adapter.group(Gang(name="g", pods=(POD, POD)), "low")
    assert (made["apiVersion"], made["kind"]) == ("scheduling.k8s.io/v1alpha1", "Workload")
    assert made["spec"] == {"podGroups": [{"name": "members", "policy": {"gang": {"minCount": 2}}}]}
    asked = adapter.member(POD, "g")
    assert asked["spec"]["workloadRef"] == {"name": "g", "podGroup": "members"}
    assert "schedulingGroup" not in asked["spec"]
    assert keeps(asked, asked, LINKS)
    assert not keeps(asked, {**asked, "spec": {}}, LINKS), "the feature gate is off"


@each_row
def test_a_dropped_link_to_the_group_is_noticed(created: Json, kept: bool) -> None:
    assert keeps(Native().member(POD, "g"), created, LINKS) is kept


# -- Gangs whose devices come with claims: what a scheduler must have done for their pods, and what Kueue counts


CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


def plan_of(**items: Any) -> Any:
    known = {"deviceclasses": [a_class()], "resourceslices": [a_slice("gpu-0", devices=4), a_slice("gpu-1", devices=4)], **items}
    return make_plan(a_scope(nodes=[a_cpu_node("gpu-0"), a_cpu_node("gpu-1")], **known))


def member(name: str, *claims: str, extended: str = "") -> Json:
    status: Json = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": claim} for claim in claims]}
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": status}


def claim(*users: str, allocated: bool = True) -> Json:
    return {"status": {"allocation": {"devices": {}} if allocated else None, "reservedFor": [{"uid": f"uid-{user}"} for user in users]}}


@pytest.mark.parametrize(
    ("pod", "claims", "lacks"),
    [
        (member("p", "c"), {"c": claim("p")}, []),
        (member("p", extended="c"), {"c": claim("p")}, []),
        (member("p", "c"), {"c": claim("q")}, ["p"]),
        (member("p", "c"), {"c": claim("p", allocated=False)}, ["p"]),
        (member("p", "c"), {}, ["p"]),
        (member("p", "c", "d"), {"c": claim("p")}, ["p"]),
        (member("p"), {}, ["p"]),
    ],
    ids=["served", "extended", "of another pod", "not allocated", "gone", "one of two", "no claim made"],
)
def test_a_bound_member_has_its_devices_only_with_claims_reserved_for_it(pod: Json, claims: dict[str, Json], lacks: list[str]) -> None:
    assert without_devices([pod], {name: held_claim(item) for name, item in claims.items()}) == lacks


def test_a_gang_that_is_bound_without_its_devices_fails() -> None:
    seen = Attempt(size=2, bound=2, most=2, seconds=1.0, spread=0.0, trace="", without_devices=("g-0", "g-1"))
    found = judge_fit(Subject("GangScheduler", "volcano"), plan_of(), seen, None)
    assert found.outcome is Outcome.BAD
    assert "ignores claims" in found.message


def test_kueue_counts_claims_by_the_name_that_its_configuration_maps_their_class_to() -> None:
    text = "resources:\n  deviceClassMappings:\n  - name: example.com/gpu\n    deviceClassNames: [other, gpu.nvidia.com]\n"
    scope = configured(text)
    assert Kueue().counted_as(scope, CLASS) == "example.com/gpu"
    assert Kueue().counted_as(scope, "nvidia.com/gpu") == "nvidia.com/gpu"


@pytest.mark.parametrize("text", ["", "resources: [1, 2]\n", "resources:\n  deviceClassMappings: [{name: x, deviceClassNames: [other]}]\n"])
def test_kueue_is_not_asked_about_claims_that_it_does_not_count(text: str) -> None:
    with pytest.raises(Inconclusive, match="maps DeviceClass gpu"):
        Kueue().counted_as(configured(text), CLASS)
