"""What looks like a component of the platform is none: not by labels, names, annotations, nor by an owner with the true UID."""

import json
from typing import Any

import pytest

from conformance.adv.node_configs import check_configs
from conformance.fence.checks import check_intruders
from conformance.gang.adapters.base import controllers_health
from conformance.ops.rollout import check_rolled_out
from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from conformance.req.starting import check_starting
from fixtures.kubernetes.models import ConfigMap, DaemonSet, Event, Json, Meta, Namespace
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_events import PodEvents
from fixtures.model.devices.mig_layouts import Requests
from fixtures.model.platform.agents import agents, missing_agents
from fixtures.model.platform.namespaces import Platform, Workload, operators_of
from fixtures.model.platform.plugin_settings import strategy_flag
from fixtures.model.queues.kueue_quotas import pods_ready_timeout
from fixtures.ownership.proof_record import token_digest
from fixtures.policy.model import Tenants
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_container, a_daemonset, a_namespace, a_node, a_pod, a_policy, a_scope, a_snapshot, a_spec, a_workload
from tests.findings import by_name
from tests.req.suffering import MINUTE, NOW, ago, an_event, scheduled
from tests.tables import table

TABLE = table(__file__)

PLUGIN = "nvidia-device-plugin-daemonset"
FOLDER = [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
CLUSTER_POLICY: Json = TABLE["policy"]


def copied(namespace: str = "aaa", **more: Any) -> DaemonSet:
    """A tenant's copy of the operator's plugin: its name, its mounts, its release, its owner with the true UID."""
    copy = a_daemonset(namespace=namespace, volumes=FOLDER, **more)
    copy.metadata.annotations = dict(CLUSTER_POLICY["metadata"]["annotations"])
    assert copy.metadata.owners[0].uid == CLUSTER_POLICY["metadata"]["uid"]
    return copy


def true_one(**more: Any) -> DaemonSet:
    return a_daemonset(volumes=FOLDER, **more)


def names(scope: Scope) -> list[str]:
    return [f"{agent.daemonset.namespace}/{agent.daemonset.name}" for agent in agents(scope)]


# -- agents


def test_pods_belong_to_the_daemonset_of_their_owner_s_uid() -> None:
    namesake = a_pod("p", "gpu-operator", node="gpu-0", owner=f"DaemonSet/{PLUGIN}")
    namesake.metadata.owners[0].uid = "another"
    [agent] = agents(a_scope(nodes=[a_node()], daemonsets=[true_one()], pods=[namesake]))
    assert agent.pods == {}


def test_look_alikes_alone_leave_it_open_and_are_all_named() -> None:
    scope = a_scope(nodes=[a_node()], daemonsets=[copied("bbb"), copied("aaa")])
    with pytest.raises(Inconclusive, match=f"aaa/{PLUGIN}, bbb/{PLUGIN}.*moreInfrastructure"):
        list(check_rolled_out(scope))


def test_a_plugin_that_somebody_installed_elsewhere_is_judged_once_the_policy_names_it() -> None:
    for policy in (
        a_policy(tenants={"moreInfrastructure": ["gpu-plugins"]}),
        a_policy(operators={"expectedAgents": [f"gpu-plugins/{PLUGIN}"]}),
    ):
        scope = a_scope(policy, nodes=[a_node()], daemonsets=[copied("gpu-plugins"), copied("aaa")])
        assert names(scope) == [f"gpu-plugins/{PLUGIN}"]


def test_two_plugins_on_one_node_that_nothing_tells_apart_are_both_named() -> None:
    first, second = true_one(namespace="kube-system", owner=""), true_one(namespace="gpu-plugins", owner="")
    second.metadata.uid = "uid-second"
    pods = [a_pod(f"p-{item.namespace}", item.namespace, node="gpu-0", owner=f"DaemonSet/{PLUGIN}") for item in (first, second)]
    pods[1].metadata.owners[0].uid = "uid-second"

    def doubts(*more: DaemonSet, policies: tuple[Json, ...] = (), running: int = 2) -> list[str]:
        policy = a_policy(tenants={"moreInfrastructure": ["gpu-plugins"]})
        scope = a_scope(policy, nodes=[a_node()], daemonsets=[first, second, *more], pods=pods[:running], clusterpolicies=policies)
        return [finding.message for finding in check_rolled_out(scope) if finding.outcome is Outcome.UNDECIDED]

    [doubt] = doubts()
    assert f"DaemonSet gpu-plugins/{PLUGIN} and DaemonSet kube-system/{PLUGIN} run on gpu-0" in doubt
    assert doubts(running=1) == []  # variants for other nodes, as clouds have them
    assert doubts(true_one(), policies=(CLUSTER_POLICY,)) == []  # the operator's is the platform's


def test_an_expected_agent_whose_namespace_is_a_pattern_is_not_a_tenant_s() -> None:
    policy = a_policy(operators={"expectedAgents": ["*/nvidia-dcgm-exporter"]})
    scope = a_scope(policy, nodes=[a_node()], daemonsets=[a_daemonset("nvidia-dcgm-exporter", "aaa")])
    assert missing_agents(scope) == ["*/nvidia-dcgm-exporter"]


# -- configurations


def a_config(text: str, namespace: str, name: str = "device-plugin-config", key: str = "shared") -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=namespace), data={key: text})


def sharing() -> Json:
    return {"labels": {"nvidia.com/device-plugin.config": "shared"}}


def test_a_configuration_beside_a_copy_is_not_the_plugin_s() -> None:
    node = a_node(**sharing())
    scope = a_scope(nodes=[node], configmaps=[a_config("version: v9", "aaa")], daemonsets=[copied(), true_one()])
    [finding] = check_configs(scope)
    assert "not a key of any ConfigMap of the platform's namespaces" in finding.message


def test_two_configurations_are_named_and_the_one_that_the_plugin_mounts_decides() -> None:
    node, maps = a_node(**sharing()), [a_config("version: v9", "kube-system", "a"), a_config("version: v9", "monitoring", "b")]
    [finding] = check_configs(a_scope(nodes=[node], configmaps=maps))
    assert finding.outcome is Outcome.UNDECIDED
    assert "kube-system/a and monitoring/b" in finding.message
    plugin = a_daemonset(namespace="kube-system", owner="", volumes=[{"name": "c", "configMap": {"name": "a"}}])
    [finding] = check_configs(a_scope(nodes=[node], configmaps=maps, daemonsets=[plugin]))
    assert "kube-system/a" in finding.source


def test_a_copy_sets_no_mig_strategy() -> None:
    env = [{"name": "MIG_STRATEGY", "value": "mixed"}]
    ours = [{"name": "MIG_STRATEGY", "value": "single"}]
    copy, plugin = copied(containers=[a_container(env=env)]), true_one(containers=[a_container(env=ours)])
    assert strategy_flag(a_scope(nodes=[a_node()], daemonsets=[copy, plugin])) == "single"
    second = a_daemonset("other-device-plugin", "kube-system", owner="", containers=[a_container(env=env)])
    with pytest.raises(Inconclusive, match=f"gpu-operator/{PLUGIN} and DaemonSet kube-system/other-device-plugin"):
        strategy_flag(a_scope(nodes=[a_node()], daemonsets=[second, plugin]))
    scope = a_scope(nodes=[a_node()], daemonsets=[second, plugin], clusterpolicies=[CLUSTER_POLICY])
    assert strategy_flag(scope) == "single"  # the one that the operator owns


def test_two_layouts_of_mig_parted_are_no_layout() -> None:
    name = "default-mig-parted-config"
    maps = [a_config("x", namespace, name, "config.yaml") for namespace in ("gpu-operator", "kube-system", "aaa")]
    scope = a_scope(configmaps=maps)
    assert {item.namespace for item in Requests(scope)._maps[name]} == {"gpu-operator", "kube-system"}
    scope = a_scope(configmaps=maps, clusterpolicies=[CLUSTER_POLICY])
    assert [item.namespace for item in Requests(scope)._maps[name]] == ["gpu-operator"]


# -- gang schedulers


def scheduler(namespace: str, available: int = 1, name: str = "volcano-scheduler") -> Json:
    return a_workload(
        "Deployment", name, {"replicas": 1, "template": {"spec": a_spec()}}, namespace, status={"availableReplicas": available}
    )


ROLES = {"scheduler": "volcano-scheduler"}


def test_a_tenant_s_scheduler_neither_stands_for_the_platform_s_nor_breaks_it() -> None:
    down = a_scope(deployments=[scheduler("aaa"), scheduler("volcano-system", 0)])
    assert controllers_health(down, ROLES, "volcano-system").healthy is False
    fine = a_scope(deployments=[scheduler("aaa", 0), scheduler("volcano-system")])
    assert controllers_health(fine, ROLES, "volcano-system").healthy is True
    found = controllers_health(a_scope(deployments=[scheduler("aaa")]), ROLES, "volcano-system")
    assert not found.installed
    assert "Deployment aaa/volcano-scheduler" in found.reason
    assert "moreInfrastructure" in found.reason


def test_two_schedulers_of_the_platform_are_both_named() -> None:
    scope = a_scope(deployments=[scheduler("kubeflow"), scheduler("monitoring")])
    with pytest.raises(Inconclusive, match="kubeflow/volcano-scheduler and Deployment monitoring/volcano-scheduler"):
        controllers_health(scope, ROLES, "volcano-system")


def test_a_tenant_s_configuration_of_kueue_promises_nothing() -> None:
    def config(namespace: str, text: str) -> ConfigMap:
        return a_config(f"# kueue\n{text}", namespace, "kueue-manager-config", "controller_manager_config.yaml")

    on, off = "waitForPodsReady: {timeout: 1m}", "manageJobsWithoutQueueName: true"
    assert pods_ready_timeout(a_scope(configmaps=[config("aaa", on), config("kueue-system", off)])) is None
    with pytest.raises(Inconclusive, match="kubeflow/kueue-manager-config and kueue-system/kueue-manager-config"):
        pods_ready_timeout(a_scope(configmaps=[config("kubeflow", on), config("kueue-system", off)]))


# -- deciding


def decided(*workloads: Workload) -> list[str]:
    platform = Platform(Tenants(), operators=operators_of([("ClusterPolicy", CLUSTER_POLICY)]))
    return [str(item) for item in platform.resolve(workloads, lambda item: item)]


def workload(namespace: str, *, owner: str = "", release: tuple[str, str] = ("", "")) -> Workload:
    return Workload(kind="DaemonSet", namespace=namespace, name="x", owners=(owner,) if owner else (), release=release)


def test_the_owner_decides_then_the_operator_s_namespace_then_its_release() -> None:
    owned = workload("gpu-operator", owner="uid-cluster-policy")
    forged = workload("monitoring", owner="uid-cluster-policy")  # where the operator does not run
    beside, released = workload("gpu-operator"), workload("kube-system", release=("gpu-operator", "gpu-operator"))
    plain, other = workload("kube-system"), workload("monitoring")
    assert decided(plain, released, beside, forged, owned) == ["DaemonSet gpu-operator/x"]
    assert decided(plain, released, beside) == ["DaemonSet gpu-operator/x"]
    assert decided(other, released) == ["DaemonSet kube-system/x"]
    assert decided(plain, other) == ["DaemonSet kube-system/x", "DaemonSet monitoring/x"]
    assert decided(workload("aaa", owner="uid-cluster-policy", release=("gpu-operator", "gpu-operator"))) == []


def test_a_release_decides_nothing_where_a_tenant_may_have_written_it() -> None:
    release = ("gpu-operator", "gpu-operator")
    plain, forged = workload("kube-system"), workload("monitoring", release=release)
    both = ["DaemonSet kube-system/x", "DaemonSet monitoring/x"]
    assert decided(plain, forged) == both
    assert decided(workload("kube-system", release=release), forged) == both
    assert decided(forged) == ["DaemonSet monitoring/x"]  # nothing else looks like it
    assert decided(workload("kube-system", release=release), workload("monitoring")) == ["DaemonSet kube-system/x"]


# -- no tenant makes a namespace the platform's: not by its name, its labels, its annotations, nor by what is planted in it --


def cluster_policy(namespace: str = "", *, state: str = "ready", release: str = "", name: str = "cluster-policy") -> Json:
    annotations = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": release} if release else {}
    status: Json = {"state": state, **({"namespace": namespace} if namespace else {})}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations}, "status": status}


def intruder(namespace: str) -> Scope:
    """A cluster with one privileged pod that tolerates everything, on a fenced node, in the namespace."""
    container = a_container(securityContext={"privileged": True})
    pod = a_pod("miner", namespace, node="gpu-0", tolerations=[":"], containers=[container], hostIPC=True)
    pod.metadata.owner_references = None
    return a_scope(nodes=[a_node()], pods=[pod], namespaces=[a_namespace(namespace, TABLE["forged"])])


@pytest.mark.parametrize("name", TABLE["chosen"])
def test_a_name_that_sounds_like_the_platform_s_exempts_from_no_rule(name: str) -> None:
    scope = intruder(name)
    assert scope.is_tenant(name)
    for check in (check_intruders, check_enforcement, check_bypass):
        [finding] = list(check(scope))
        assert finding.outcome is Outcome.BAD, check


def test_a_finding_says_how_such_a_namespace_is_named_by_the_policy() -> None:
    for check in (check_intruders, check_enforcement, check_bypass):
        [finding] = list(check(intruder("network-system")))
        assert "if network-system is the platform's, name it in the policy's tenants.moreInfrastructure" in finding.message
    [plain] = list(check_intruders(intruder("team-a")))
    assert "moreInfrastructure" not in plain.message


def test_the_owner_of_the_cluster_may_name_further_namespaces_and_keeps_the_known_ones() -> None:
    scope = a_scope(a_policy(tenants={"moreInfrastructure": ["network-system", "cw-*"]}))
    assert [name for name in ("network-system", "cw-exporters", "gpu-operator", "kube-system") if scope.is_tenant(name)] == []
    assert scope.is_tenant("crypto-operator")


def test_default_names_are_exact() -> None:
    assert [name for name in Tenants().infrastructure if any(sign in name for sign in "*?[")] == []


def test_an_operator_lives_where_its_cluster_policy_says() -> None:
    scope = a_scope(clusterpolicies=[cluster_policy("accelerators")])
    assert scope.is_infrastructure("accelerators")
    assert scope.platform.of("accelerators").why == "ClusterPolicy cluster-policy says that its operator runs there"


def test_or_where_the_release_that_made_it_is() -> None:
    assert a_scope(clusterpolicies=[cluster_policy(release="gpus")]).is_infrastructure("gpus")
    assert a_scope(nicclusterpolicies=[cluster_policy(release="fabric")]).is_infrastructure("fabric")


def test_a_resource_that_its_operator_ignores_proves_nothing() -> None:
    assert a_scope(clusterpolicies=[cluster_policy("accelerators", state="ignored")]).is_tenant("accelerators")


def test_the_namespace_of_everybody_is_nobody_s_platform() -> None:
    assert a_scope(clusterpolicies=[cluster_policy("default", release="default")]).is_tenant("default")


@pytest.mark.parametrize("name", ["openshift-nfd", "openshift", "openshift-gpu", "kube-apiserver-x"])
def test_openshift_reserves_its_names_there_and_nowhere_else(name: str) -> None:
    assert a_scope(nodes=[a_node()]).is_tenant(name)
    assert a_scope(nodes=[a_node(labels={"node.openshift.io/os_id": "rhel"})]).is_infrastructure(name)
    assert a_scope(clusterversions=[{"metadata": {"name": "version"}}]).is_infrastructure(name)


def test_a_namespace_of_this_suite_needs_its_run_s_proof() -> None:
    run = "20261121-105310-4f2a"
    created = {"key": "namespaces", "name": f"gpu-conformance-{run}", "token": "", "uid": "u-1"}
    record = json.dumps({"run": run, "process": "", "since": "", "renewed": "", "created": [created], "entries": []})
    labels = {"app.kubernetes.io/managed-by": "gpu-conformance", "gpu-conformance.io/run": run}
    meta = {"name": f"gpu-conformance-{run}", "uid": "c", "labels": labels, "annotations": {"gpu-conformance.io/proof": record}}
    proof = {"metadata": meta}
    own = a_namespace(f"gpu-conformance-{run}", labels)
    own.metadata.uid = "u-1"
    forged = a_namespace(f"gpu-conformance-{run}-x", labels)
    forged.metadata.uid = "u-2"
    scope = a_scope(namespaces=[own, forged], priorityclasses=[proof])
    assert scope.is_infrastructure(own.name)
    assert scope.is_tenant(forged.name)
    replaced: Namespace = a_namespace(own.name, labels)
    replaced.metadata.uid = "u-3"
    assert a_scope(namespaces=[replaced], priorityclasses=[proof]).is_tenant(own.name)
    announced = json.dumps({**json.loads(record), "created": [{**created, "uid": "", "token": token_digest("t")}]})
    meta["annotations"] = {"gpu-conformance.io/proof": announced}
    replaced.metadata.annotations = {"gpu-conformance.io/proof": "t"}
    assert a_scope(namespaces=[replaced], priorityclasses=[proof]).is_tenant(own.name)  # whoever saw a token may copy it


# -- an event in a tenant's namespace: he may write there in anybody's name, about any UID, and no other pod or node is judged by it --


UID_OF_THE_VICTIM = "uid-team-v-victim"


def forged(reason: str = "FailedCreatePodSandBox", namespace: str = "team-x") -> Event:
    return an_event(reason, 'no runtime for "nvidia" is configured', pod="a", namespace=namespace, uid=UID_OF_THE_VICTIM, age=MINUTE)


def a_starting_pod() -> dict[str, object]:
    waits = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    return {"startTime": ago(MINUTE), "conditions": [scheduled(MINUTE)], "containerStatuses": waits}


def test_an_event_tells_nothing_of_a_pod_in_another_namespace_whose_uid_it_carries() -> None:
    pod = a_pod("victim", "team-v", devices=1, node="gpu-0", phase="Pending", status=a_starting_pod())
    alone = check_starting(a_scope(nodes=[a_node()], pods=[pod]), NOW)
    beside = check_starting(a_scope(nodes=[a_node()], pods=[pod], events=[forged()]), NOW)
    assert by_name(beside) == by_name(alone) == {"victim": Outcome.NOT_JUDGED}
    own = check_starting(a_scope(nodes=[a_node()], pods=[pod], events=[forged(namespace="team-v")]), NOW)
    assert by_name(own) == {"victim": Outcome.UNDECIDED}


def test_an_event_that_lies_elsewhere_than_its_pod_is_none() -> None:
    """API servers take it if it has an eventTime."""
    event = forged(namespace="team-v")
    event.metadata.namespace = "team-x"
    snapshot = a_snapshot(pods=[a_pod("victim", "team-v", devices=1, node="gpu-0")], events=[event])
    events = PodEvents(snapshot)
    assert [*events.of(snapshot.pods[0]), *events.of_gone_pods()] == []
