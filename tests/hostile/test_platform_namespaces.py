"""No tenant makes a namespace the platform's: not by its name, its labels, its annotations, nor by what is planted in it."""

import json

import pytest

from conformance.fence.checks import check_intruders
from conformance.policy.model import Tenants
from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from conformance.scope.scope import Scope
from fixtures.kubernetes.models import Json, Namespace
from fixtures.ownership.proof_record import token_digest
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_namespace, a_node, a_pod, a_policy, a_scope

CHOSEN = (
    *("crypto-operator", "kube-team", "team-system", "nvidia-miners", "gke-team", "gmp-team", "openshift-team", "openshift"),
    *("dra-driver-team", "gpu-conformance-20261121-105310-4f2a", "gpu-conformance-chaos-20261121-105310-4f2a-canaries"),
    *("kube-system-2", "xkube-system", "Kube-System", "runai-team", "cw-team"),
)
"""Names that a tenant may choose and that sound like the platform's."""

FORGED = {
    "kubernetes.io/metadata.name": "kube-system",
    "app.kubernetes.io/managed-by": "gpu-conformance",
    "gpu-conformance.io/run": "20261121-105310-4f2a",
    "openshift.io/cluster-monitoring": "true",
    "olm.operatorgroup.uid/6f1f1a52-0a57-4f4c-8f2e-5d1f6c1f9b1e": "",
    "name": "gpu-operator",
    "control-plane": "controller-manager",
    "addonmanager.kubernetes.io/mode": "Reconcile",
}
"""Labels that a tenant may put on a namespace of his own."""


def cluster_policy(namespace: str = "", *, state: str = "ready", release: str = "", name: str = "cluster-policy") -> Json:
    annotations = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": release} if release else {}
    status: Json = {"state": state, **({"namespace": namespace} if namespace else {})}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations}, "status": status}


def intruder(namespace: str) -> Scope:
    """A cluster with one privileged pod that tolerates everything, on a fenced node, in the namespace."""
    container = a_container(securityContext={"privileged": True})
    pod = a_pod("miner", namespace, node="gpu-0", tolerations=[":"], containers=[container], hostIPC=True)
    pod.metadata.owner_references = None
    return a_scope(nodes=[a_node()], pods=[pod], namespaces=[a_namespace(namespace, FORGED)])


@pytest.mark.parametrize("name", CHOSEN)
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
    assert scope.platform.why("accelerators") == "ClusterPolicy cluster-policy says that its operator runs there"


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
