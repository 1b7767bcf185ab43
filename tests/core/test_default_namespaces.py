"""A default name of the platform's namespaces counts only where the cluster shows that its product is installed."""

from typing import Any

import pytest

from conformance.catalogue import load_catalogue
from conformance.coverage.run import platform_by_name_alone
from conformance.fence.checks import check_agents_reach, check_blanket_tolerations, check_intruders
from conformance.ops.rollout import check_rolled_out
from conformance.ops.versions import check_pinned
from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope
from fixtures.policy.default_namespaces import OF_KUBERNETES, PRODUCT_OF, PRODUCTS
from fixtures.policy.model import Policy, Tenants
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_cpu_node, a_daemonset, a_namespace, a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.hostile.test_lookalikes import cluster_policy
from tests.tables import each_row

NODES = [a_node(), a_cpu_node()]
SERVED = ("clusterpolicies.nvidia.com", "servicemonitors.monitoring.coreos.com", "nodefeatures.nfd.k8s-sigs.io")
"""What a cluster serves that has the GPU Operator and nothing else."""

OPERATOR = [cluster_policy("gpu-operator")]
FREE = sorted({*Tenants().infrastructure} - {*OF_KUBERNETES, "gpu-operator", "node-feature-discovery"})
WORKER = a_daemonset("gpu-operator-node-feature-discovery-worker", owner="")
PLUGIN = a_daemonset(volumes=[{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}])


def miner(namespace: str, **more: Any) -> Pod:
    """A pod that owns its node, wherever it is."""
    container = a_container(securityContext={"privileged": True})
    spec = {"node": "gpu-0", "tolerations": [":"], "hostPID": True, "volumes": [{"name": "r", "hostPath": {"path": "/"}}], **more}
    pod = a_pod("miner", namespace, containers=[container], **spec)
    pod.metadata.owner_references = None
    return pod


def cluster(*pods: Pod, **more: Any) -> Scope:
    given = {"nodes": NODES, "served": SERVED, "clusterpolicies": OPERATOR, "daemonsets": [PLUGIN, WORKER], "pods": pods, **more}
    return a_scope(**given)


@pytest.mark.parametrize("name", [*FREE, "node-feature-discovery"])
def test_a_tenant_gains_nothing_by_the_usual_name_of_a_product_that_is_not_installed(name: str) -> None:
    scope = cluster(miner(name), namespaces=[a_namespace(name)])
    for check in (check_intruders, check_blanket_tolerations, check_enforcement, check_bypass):
        [finding] = check(scope)
        assert finding.outcome is Outcome.BAD, check
    assert f"if {name} is the platform's, name it" in next(iter(check_intruders(scope))).message


@each_row
def test_a_free_name_is_a_tenants_where_its_pods_are_what_rules_are_for(pod: dict[str, Any], judged: bool) -> None:
    made = a_pod(**pod)
    assert cluster(made).is_tenant("monitoring") is judged
    assert not cluster(made, policy=a_policy(tenants={"moreInfrastructure": ["monitoring"]})).is_tenant("monitoring")


def test_a_template_there_is_judged_before_it_has_pods() -> None:
    template = {"spec": a_spec(volumes=[{"name": "r", "hostPath": {"path": "/"}}], tolerations=["*"])}
    night = a_workload("CronJob", "night", {"jobTemplate": {"spec": {"template": template}}}, "karpenter")
    [finding] = check_blanket_tolerations(cluster(cronjobs=[night], daemonsets=[]))
    assert (finding.outcome, finding.subject.namespace) == (Outcome.BAD, "karpenter")
    plain = a_workload("Deployment", "web", {"template": {"spec": a_spec()}}, "karpenter")
    assert not cluster(deployments=[plain]).is_tenant("karpenter")


def test_an_agent_in_such_a_namespace_is_a_look_alike() -> None:
    copies = [
        a_daemonset(name, "karpenter", owner="", desired=0, tolerations=(), containers=[a_container(image="x:latest")])
        for name in ("x-device-plugin", "dcgm-y")
    ]
    scope = cluster(daemonsets=[PLUGIN, *copies], pods=[miner("karpenter"), a_pod("p", "gpu-operator", node="gpu-0")])
    for check in (check_agents_reach, check_rolled_out, check_pinned):
        bad = [finding.subject for finding in check(scope) if finding.outcome in (Outcome.BAD, Outcome.UNDECIDED)]
        assert [place for place in bad if "karpenter" in f"{place.namespace} {place.name}"] == []


HAS: dict[str, dict[str, Any]] = {
    "monitoring": {"served": ["prometheuses.monitoring.coreos.com"]},
    "karpenter": {"served": ["nodepools.karpenter.sh"]},
    "kai-resource-reservation": {"served": ["queues.scheduling.run.ai"]},
    "nvidia-device-plugin": {"clusterpolicies": [], "daemonsets": []},
    "gpu-resources": {"clusterpolicies": [], "daemonsets": []},
    "node-feature-discovery": {"daemonsets": []},
    "habana-system": {"nodes": [a_node(resource="habana.ai/gaudi")]},
    "mindx-dl": {"nodes": [a_node(resource="huawei.com/Ascend910")]},
    "nvsentinel": {"nodes": [a_node(labels={"nvsentinel.dgxc.nvidia.com/driver.installed": "true"})]},
    "gke-managed-system": {"nodes": [a_node(labels={"cloud.google.com/gke-nodepool": "a3"})]},
    "app-routing-system": {"nodes": [a_node(labels={"kubernetes.azure.com/agentpool": "gpu"})]},
    "nvidia-dra-driver-gpu": {"resourceslices": [{"spec": {"driver": "gpu.nvidia.com"}}]},
    "dra-driver-google-tpu": {"resourceslices": [{"spec": {"driver": "tpu.google.com"}}]},
}


@pytest.mark.parametrize("name", HAS)
def test_what_no_tenant_writes_proves_a_product_and_its_namespace(name: str) -> None:
    scope = cluster(miner(name), **HAS[name])
    assert scope.platform.of(name).proven
    assert not scope.is_tenant(name)
    assert [finding.outcome for finding in check_intruders(scope)] == [Outcome.OK]


def test_where_an_operator_runs_elsewhere_its_other_names_are_free() -> None:
    scope = cluster(miner("nvidia-gpu-operator"))
    assert (scope.is_tenant("nvidia-gpu-operator"), scope.is_tenant("gpu-operator")) == (True, False)
    assert not cluster(miner("nvidia-gpu-operator"), clusterpolicies=[cluster_policy()]).is_tenant("nvidia-gpu-operator")


def test_of_names_for_one_product_the_oldest_that_is_in_use_counts() -> None:
    old, new = a_namespace("nvidia-dra-driver-gpu"), a_namespace("dra-driver-nvidia-gpu")
    old.metadata.creation_timestamp, new.metadata.creation_timestamp = "2026-01-01T00:00:00Z", "2026-11-01T00:00:00Z"
    driver = a_pod("plugin", old.name, node="gpu-0", hostNetwork=True)
    slices = HAS[old.name]["resourceslices"]
    scope = cluster(driver, miner(new.name), namespaces=[new, old], resourceslices=slices)
    assert (scope.is_tenant(old.name), scope.is_tenant(new.name)) == (False, True)
    assert not cluster(miner(new.name), namespaces=[new, old], resourceslices=slices).is_tenant(new.name)


@pytest.mark.parametrize(
    ("elsewhere", "group", "agent", "free"),
    [
        ("karpenter", "nodepools.karpenter.sh", "nfd-worker", False),
        ("kube-amd-gpu", "deviceconfigs.amd.com", "amd-gpu-operator-node-feature-discovery-worker", True),
    ],
)
def test_agents_under_the_usual_name_of_a_product_that_bundles_none_free_no_other_name(
    elsewhere: str, group: str, agent: str, free: bool
) -> None:
    shown = {"served": [group, "nodefeatures.nfd.k8s-sigs.io"]}
    copy = a_daemonset(agent, elsewhere, desired=0, owner="")
    scope = cluster(miner("node-feature-discovery"), daemonsets=[copy], clusterpolicies=[], **shown)
    assert scope.platform.of(elsewhere).proven
    assert scope.is_tenant("node-feature-discovery") is free


def test_every_product_has_a_mark_except_this_suite() -> None:
    without = [product.namespaces for product in PRODUCTS if product.marks == type(product.marks)()]
    assert not [product for product in PRODUCTS if product.bundles and product.agents]  # else two could each wait for the other's answer
    assert without == [("gpu-conformance", "gpu-conformance-chaos")]
    assert len(Tenants().infrastructure) == len(PRODUCT_OF) + len(OF_KUBERNETES) == len(set(Tenants().infrastructure))


# -- the note of a run


def noted(*pods: Pod, policy: Policy | None = None, only: str = "FENCE-02", **more: Any) -> list[str]:
    scope = a_scope(policy, **{"nodes": NODES, "pods": pods, **more})
    return list(platform_by_name_alone(scope, [load_catalogue().by_id[only]]))


def test_where_the_proof_of_a_product_was_not_read_the_run_names_what_it_believed() -> None:
    found = noted(a_pod("web", "kubeflow", node="gpu-0"), a_pod("train", "karpenter", devices=1), a_pod("web", "team-a", node="gpu-0"))
    only = "only the default list tenants.infrastructure says it is the platform's. Confirm it in the policy."
    assert found == [f"Tenant rules were skipped in karpenter, kubeflow: {only}"]


def test_where_pods_were_not_read_a_free_name_is_named_too() -> None:
    given: dict[str, Any] = {"namespaces": [a_namespace("karpenter"), a_namespace("team-a")], "served": [], "only": "PSA-01"}
    assert len(noted(trouble={"pods": "Forbidden"}, **given)) == 1
    assert noted(**given) == []


@each_row
def test_nothing_else_is_named(pod: Pod, more: dict[str, Any]) -> None:
    assert noted(pod, **more) == []
