"""No experiment touches what only looks like its target: copies of agents in a namespace that sorts first, second candidates."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.plan import PlanFacts
from chaos.observe.signals.agents import daemon_sets, elsewhere, policy_state
from chaos.observe.view import NoData
from chaos.plan.planning import make_plan
from chaos.plan.selectors import SELECTORS, NotApplicable, PlanningView, TargetQuery, TargetUnclear
from chaos.safety.gates import SettingsError, settings_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.platform.installed import Components, find_components, pods_of, standing_of
from fixtures.policy.model import Policy, Tenants
from fixtures.verdict.record import TargetKind, Verdict
from tests.builders import a_policy
from tests.chaos.engine.stage import campaign_on
from tests.chaos.observe.made_up_cluster import Read, World, made_by, node, plan, pod
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row, filled, table
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

LABELS = {
    "device-plugin": {"app": "nvidia-device-plugin-daemonset"},
    "gfd": {"app": "gpu-feature-discovery"},
    "exporter": {"app": "nvidia-dcgm-exporter"},
}
RELEASE = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator"}
TABLE = table(__file__)
CLUSTER_POLICY: Json = {
    "metadata": {"name": "cluster-policy", "uid": "uid-policy", "annotations": RELEASE},
    "status": {"state": "ready", "namespace": "gpu-operator"},
}


def agent(component: str, namespace: str, more: Json | None = None, *, name: str = "", owner: str = "uid-policy") -> Json:
    """The DaemonSet of an agent. A tenant's copy has the same labels, release and owner as the true one."""
    given: Json = {"owner": owner, "image": "registry/x:1", "name": name or component, "labels": LABELS[component], **(more or {})}
    meta = {"name": given["name"], "namespace": namespace, "uid": f"uid-{namespace}-{given['name']}"}
    release = {"annotations": RELEASE if given.get("released", True) else {}}
    spec: Json = {"containers": [{"image": given["image"]}]}
    if "mounts" in given:
        spec["volumes"] = [{"name": "d", "hostPath": {"path": given["mounts"]}}]
    return {
        "metadata": {**meta, **release, **made_by(given["owner"], "ClusterPolicy")},
        "spec": {"selector": {"matchLabels": LABELS[component]}, "template": {"metadata": {"labels": given["labels"]}, "spec": spec}},
        "status": {"desiredNumberScheduled": 2},
    }


def looking(case: Json) -> Components:
    """What is found in the cluster of a case."""
    operator = agent("exporter", "gpu-operator", {"owner": "", "image": "nvcr.io/nvidia/gpu-operator:v1", "name": "gpu-operator"})
    policies = case.get("policies", [CLUSTER_POLICY] if case.get("operator", True) else [])
    lists: dict[str, Any] = {"nvidia.com/clusterpolicies": policies}
    if "nic" in case:
        lists["mellanox.com/nicclusterpolicies"] = case["nic"]
    sets, operators = [agent(*given) for given in case["sets"]], [operator] if policies else []
    view = World(nodes=[], apps__daemonsets=sets, apps__deployments=operators, **lists).view()
    named = {key: [*names] for key, names in case.get("tenants", {}).items()}
    if "USUAL" in named.get("infrastructure", ()):
        named["infrastructure"][:1] = Tenants().infrastructure
    return find_components(view, standing_of(view, a_policy(tenants=named).tenants), case.get("overrides"))


# -- which workload is meant


def cases() -> Iterator[Any]:
    """Each case of the table, for each component and namespace that it stands for."""
    several = {
        "COMPONENT": tuple(LABELS),
        "SPACE": ("gpu-metrics", "kube-system", "gpu-resources"),
        "DEFAULT": ("monitoring", "gpu-operator", "nvidia-device-plugin", "gpu-resources", "gke-managed-system"),
    }
    for name, case in TABLE["cases"].items():
        there = [word for word in several if word in str(case)]
        for chosen in itertools.product(*(several[word] for word in there)):
            yield pytest.param(filled(case, dict(zip(there, chosen, strict=True))), id=" ".join((name, *chosen)))


@pytest.mark.parametrize("case", list(cases()))
def test_no_look_alike_is_taken_and_none_keeps_the_true_agent_from_being_found(case: Json) -> None:
    found = looking(case)
    unclear = case.get("unclear", {})
    for component, namespace in case.get("found", {}).items():
        assert found.found[component].namespace == namespace
        assert found.found[component].name == case.get("name", {}).get(component, found.found[component].name)
    assert set(found.unclear) == set(unclear)
    for component, words in unclear.items():
        assert component not in {*found.found, *found.absent}
        assert [word for word in words if word not in found.unclear[component]] == []


# -- planning


def planned(*daemon_sets: Json, policy: Policy | None = None, pods: list[Json] | None = None, id_: str = "A8") -> Any:
    lists: dict[str, Any] = {"nvidia.com/clusterpolicies": [CLUSTER_POLICY]}
    world = World(nodes=[node("a"), node("b")], pods=pods or [], apps__daemonsets=list(daemon_sets), apps__deployments=[], **lists)
    return make_plan(
        Served(world),  # type: ignore[arg-type]
        EXPERIMENTS[id_],
        run_id="run",
        cluster_uid="uid",
        target_kind=TargetKind.SIMULATED,
        namespace="gpu-conformance-chaos-run",
        policy=policy or Policy(),
    )


class Served:
    """A made-up world as a cluster that answers lists."""

    shown_server = "http://made-up"
    resources = None

    def __init__(self, world: World) -> None:
        self._world = world
        self.path, self.serves, self.versions_seen = world.path, world.serves, world.versions_seen

    def request(self, method: str, path: str, **more: Any) -> Any:
        try:
            body = self._world.fetch(path)
        except NoData:
            return Reply(ok=False, status=404, body=b"")
        return Reply(ok=True, status=200, body=body)


class Reply(msgspec.Struct):
    ok: bool
    status: int
    body: bytes
    message: str = "not found"


def agent_pods(namespace: str, component: str = "gfd") -> list[Json]:
    meta = made_by(f"uid-{namespace}-{component}")
    return [
        pod(f"{component}-{on}", on, gpus=0, namespace=namespace, labels=LABELS[component], uid=f"{namespace}-{on}", meta=meta)
        for on in "ab"
    ]


def test_two_candidates_refuse_the_experiment_before_its_fault() -> None:
    two = agent("gfd", "gpu-operator"), agent("gfd", "gpu-operator", name="gfd-2")
    with pytest.raises(TargetUnclear, match=r"gpu-operator/gfd and DaemonSet gpu-operator/gfd-2 could all be gfd"):
        planned(*two, pods=agent_pods("gpu-operator"))
    policy = a_policy(chaos={"components": {"gfd": "gpu-operator/gfd"}})
    assert planned(*two, policy=policy, pods=agent_pods("gpu-operator")).targets[0].namespace == "gpu-operator"


def pod_of(daemon_set: str, on: str, namespace: str = "kube-system") -> Json:
    name = f"{daemon_set}-{on}"
    return pod(name, on, gpus=0, namespace=namespace, labels=LABELS["gfd"], uid=name, meta=made_by(f"uid-{namespace}-{daemon_set}"))


@pytest.mark.parametrize(("busy", "target"), [("a", "large-b"), ("b", "small-a")])
def test_a_daemonset_for_each_kind_of_node_is_one_component(busy: str, target: str) -> None:
    """As GKE installs its device plugin: nvidia-gpu-device-plugin-small-cos, -large-cos and so on, of which some run nowhere."""
    variants = [agent("gfd", "kube-system", owner="", name=name) for name in ("large", "small", "unused")]
    variants[2]["status"] = {"desiredNumberScheduled": 0}
    pods = [pod_of("small", "a"), pod_of("large", "b"), pod("job", busy)]
    done = planned(*variants, pods=pods)
    [chosen] = done.targets
    assert (chosen.name, chosen.facts["owner"]) == (target, target.partition("-")[0])
    known = PlanFacts.of(done).components["gfd"]
    assert known.name == chosen.facts["owner"]  # whose pods an undo would restart
    assert [other.name for other in known.others] == [{"large": "small", "small": "large"}[known.name]]
    world = World(pods=pods, nodes=[node("a"), node("b")], apps__daemonsets=variants)
    assert {entry["metadata"]["name"] for entry in pods_of(world.view(), known)} == {"small-a", "large-b"}
    reading: Any = Read(world, msgspec.structs.replace(plan(), facts=done.facts, targets=done.targets, untouched=done.untouched))
    assert daemon_sets(reading) == {"kube-system/large": [2, 0, 0], "kube-system/small": [2, 0, 0]}
    assert list(elsewhere(reading, component="gfd")) == [busy]


@each_row
def test_daemonsets_that_nothing_keeps_apart_are_two_candidates(pods: list[tuple[str, str, str]]) -> None:
    variants = [agent("gfd", "kube-system", owner="", name=name) for name in ("large", "small")]
    with pytest.raises(TargetUnclear, match="kube-system/large and DaemonSet kube-system/small could all be gfd"):
        planned(*variants, pods=[pod_of(*one) for one in pods])


def test_two_pools_in_a_default_namespace_are_one_component_until_there_is_a_copy() -> None:
    pools = [agent("gfd", "gpu-resources", owner="", name=name) for name in ("large", "small")]
    pods = [pod_of("small", "a", "gpu-resources"), pod_of("large", "b", "gpu-resources")]
    assert [target.namespace for target in planned(*pools, pods=pods).targets] == ["gpu-resources"]
    with pytest.raises(TargetUnclear, match=r"aaa/gfd and .*gpu-resources/large and .*gpu-resources/small could all be gfd"):
        planned(*pools, agent("gfd", "aaa"), pods=pods)


def test_daemonsets_of_two_namespaces_are_two_candidates_whatever_their_nodes() -> None:
    two = agent("gfd", "kube-system", owner="", name="small"), agent("gfd", "monitoring", owner="", name="large")
    with pytest.raises(TargetUnclear, match="could all be gfd"):
        planned(*two, pods=[pod_of("small", "a"), pod_of("large", "b", "monitoring")])


def test_a_doubt_about_what_an_experiment_does_not_stand_on_is_none() -> None:
    others = agent("exporter", "gpu-operator"), agent("exporter", "gpu-operator", name="second")
    assert planned(agent("gfd", "gpu-operator"), *others, pods=agent_pods("gpu-operator")).targets


def test_a_component_that_the_policy_misspells_is_reported_at_once() -> None:
    for components, words in (({"device-plugn": "a/b"}, "did you mean 'device-plugin'"), ({"gfd": "gfd"}, "expected 'namespace/name'")):
        with pytest.raises(SettingsError, match=words):
            settings_of(a_policy(chaos={"components": components}))


# -- pods and operands


def test_pods_of_a_deployment_are_those_of_its_own_replica_sets() -> None:
    def replica_set(uid: str, owner: str) -> Json:
        return {"metadata": {"name": f"gpu-operator-{uid}", "namespace": "gpu-operator", "uid": uid, **made_by(owner, "Deployment")}}

    labels = {"app": "gpu-operator"}
    pods = [
        pod(
            f"gpu-operator-{uid}-x",
            "a",
            namespace="gpu-operator",
            labels=labels,
            uid=f"of-{uid}",
            meta=made_by(uid, "ReplicaSet") if uid else {},
        )
        for uid in ("old", "new", "foreign", "")
    ]
    sets = [replica_set("old", "uid-operator"), replica_set("new", "uid-operator"), replica_set("foreign", "uid-other")]
    deployment = {
        "metadata": {"name": "gpu-operator", "namespace": "gpu-operator", "uid": "uid-operator"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
    }
    lists: dict[str, Any] = {"nvidia.com/clusterpolicies": [CLUSTER_POLICY]}
    view = World(nodes=[], pods=pods, apps__daemonsets=[], apps__deployments=[deployment], apps__replicasets=sets, **lists).view()
    found = find_components(view, standing_of(view, Tenants())).found["operator"]
    assert [item["metadata"]["uid"] for item in pods_of(view, found)] == ["of-old", "of-new"]


def operand(namespace: str) -> Json:
    return {
        "metadata": {"name": "dcgm-exporter", "namespace": namespace, "uid": f"uid-{namespace}", **made_by("uid-policy", "ClusterPolicy")}
    }


def test_an_object_that_only_claims_to_be_an_operand_is_not_deleted() -> None:
    def chosen(*services: Json) -> list[str]:
        lists: dict[str, Any] = {"nvidia.com/clusterpolicies": [CLUSTER_POLICY]}
        view = World(services=list(services), configmaps=[], **lists).view()
        field = PlanningView(
            view=view, components=Components(), facts=PlanFacts(), wanted=msgspec.convert({"select": "operand"}, TargetQuery)
        )
        return [target.namespace for target in SELECTORS["operand"](field).targets]

    assert chosen(operand("aaa"), operand("gpu-operator")) == ["gpu-operator"]
    with pytest.raises(NotApplicable):
        chosen(operand("aaa"))


def test_the_state_is_that_of_the_cluster_policy_that_counts() -> None:
    def state(*policies: Json) -> Any:
        lists: dict[str, Any] = {"nvidia.com/clusterpolicies": list(policies)}
        return policy_state(Read(World(nodes=[node("a")], **lists), plan()))  # type: ignore[arg-type]

    ignored = {"metadata": {"name": "a-second"}, "status": {"state": "ignored"}}
    assert state(ignored, CLUSTER_POLICY) == "ready"
    assert state() == ""
    with pytest.raises(NoData, match="cluster-policy and other are both acted upon"):
        state(CLUSTER_POLICY, {"metadata": {"name": "other"}, "status": {"state": "notReady"}})


# -- the experiments themselves


def plant(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Copy the agents into a new namespace, and wait for their pods; the pods' UIDs by name."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    apps = {labels["app"] for labels in LABELS.values()}
    items = cluster.request("GET", cluster.path("apps/daemonsets", "gpu-operator")).json()["items"]
    copied = [item for item in items if item["spec"]["template"]["metadata"]["labels"].get("app") in apps]
    assert len(copied) == len(LABELS)
    for item in copied:
        meta = {key: item["metadata"].get(key) for key in ("name", "labels", "annotations", "ownerReferences")}
        account = {"name": item["spec"]["template"]["spec"]["serviceAccountName"], "namespace": namespace}
        cluster.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, namespace=namespace)
        body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {**meta, "namespace": namespace}, "spec": item["spec"]}
        assert cluster.create("apps/daemonsets", body, namespace=namespace).ok
    wanted = sum(item["status"]["desiredNumberScheduled"] for item in copied)
    with Observation(cluster, "pods", namespace) as observation:
        for objects in observation.until(time.monotonic() + PATIENCE):
            if len(objects) == wanted and all(item["spec"].get("nodeName") for item in objects.values()):
                return {name: item["metadata"]["uid"] for name, item in objects.items()}
    raise AssertionError("the copies have no pods")


def test_experiments_kill_the_true_agents_and_leave_planted_copies_alone(tmp_path: Path) -> None:
    with campaign_on("resilience", tmp_path) as campaign:
        cluster = campaign._setup.cluster
        before = {namespace: plant(cluster, namespace) for namespace in ("aaa", "monitoring")}
        results = [campaign.carry_out(EXPERIMENTS[id_]) for id_ in ("A1", "A6")]
        assert [(result.id, result.verdict, result.message) for result in results if result.verdict is not Verdict.PASSED] == []
        assert {target.partition("/")[0].rpartition(" ")[2] for result in results for target in result.targets} == {"gpu-operator"}
        for namespace, planted in before.items():
            with Observation(cluster, "pods", namespace) as observation:
                now = next(iter(observation.until(time.monotonic() + 10)))
            living = {name: item["metadata"]["uid"] for name, item in now.items() if "deletionTimestamp" not in item["metadata"]}
            assert living == planted
