from typing import Any

import pytest

from conformance.fence.checks import check_agents_reach, check_aimed, check_blanket_tolerations, check_fenced, check_intruders
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.nodes.pools import pools
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import FENCE, a_cpu_node, a_daemonset, a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.dra import a_claim, a_class, claim_spec
from tests.findings import by_name, messages
from tests.tables import each_row

CHECKS = {"fenced": check_fenced, "intruders": check_intruders, "blanket": check_blanket_tolerations}


@each_row
def test_what_each_check_finds(
    check: str, nodes: list[dict[str, Any]] | None, pods: dict[str, dict[str, Any]], more: dict[str, Any], expected: dict[str, str]
) -> None:
    """``expected``: the cause of each subject, or its outcome where it has none."""
    lists: dict[str, Any] = {name: value for name, value in more.items() if name in ("trouble", "offline")}
    if nodes is not None:
        lists["nodes"] = [a_node(**node) for node in nodes]
    if "daemonset" in more:
        lists["daemonsets"] = [a_daemonset(*more["daemonset"], owner="")]
    scope = a_scope(a_policy(**more.get("policy", {})), pods=[a_pod(name, **pod) for name, pod in pods.items()], **lists)
    assert {one.subject.name: one.cause or str(one.outcome) for one in CHECKS[check](scope)} == expected


# -- FENCE-01


@each_row
def test_what_does_not_fence_fails_with_its_reason(taints: tuple[str, ...], word: str) -> None:
    findings = list(check_fenced(a_scope(nodes=[a_node("gpu-0"), a_node("gpu-1", taints=taints)])))
    assert by_name(findings) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.BAD}
    assert word in messages(findings)


def test_suffixes_of_mig_and_sharing_do_not_split_a_pool() -> None:
    nodes = [a_node("a"), a_node("b", product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"), a_node("c", product="NVIDIA-H100-80GB-HBM3-SHARED")]
    assert [len(members) for members in pools(a_scope(nodes=nodes), nodes).values()] == [3]


# -- FENCE-02


def test_who_may_be_on_an_accelerator_node() -> None:
    pods = [
        a_pod("asks", devices=1, node="gpu-0"),
        a_pod("claims", node="gpu-0", resourceClaims=[{"name": "gpu", "resourceClaimName": "own"}]),
        a_pod("daemon", "gpu-operator", node="gpu-0", owner="DaemonSet/logs"),
        a_pod("agent", node="gpu-0", owner="DaemonSet/my-exporter"),
        a_pod("static", node="gpu-0", owner="Node/gpu-0", annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod("platform", "gpu-operator", node="gpu-0"),
        a_pod("allowed", "web", node="gpu-0"),
        a_pod("finished", node="gpu-0", phase="Succeeded"),
        a_pod("elsewhere", node="cpu-0"),
    ]
    policy = a_policy(fence={"allowedNamespaces": ["web"]}, operators={"expectedAgents": ["team-a/my-exporter"]})
    claims, agents = [a_claim("own", device="gpu-0")], [a_daemonset("my-exporter", "team-a", owner="")]
    scope = a_scope(policy, nodes=[a_node(), a_cpu_node()], pods=pods, resourceclaims=claims, daemonsets=agents)
    expected = dict.fromkeys(("asks", "claims", "daemon", "agent", "static", "platform", "allowed"), Outcome.OK)
    assert by_name(check_intruders(scope)) == expected


def test_admin_access_beside_a_claim_that_is_not_known_is_undecided() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "adm"}, {"name": "own", "resourceClaimName": "gone"}]
    admin = {**a_claim("adm", device="gpu-0", adminAccess=True), "spec": claim_spec(adminAccess=True)}
    pod = a_pod("watches", node="gpu-0", resourceClaims=claims)
    scope = a_scope(nodes=[a_node()], pods=[pod], resourceclaims=[admin], deviceclasses=[a_class()])
    assert by_name(check_intruders(scope)) == {"watches": Outcome.UNDECIDED}
    assert by_name(check_aimed(scope)) == {"watches": Outcome.UNDECIDED}


def test_a_pod_that_only_watches_devices_of_others_needs_no_aim() -> None:
    """Its scheduler sends it where the device is, and no device request keeps it anywhere."""
    watching = [{"name": "gpu", "resourceClaimName": "adm"}]
    admin = {**a_claim("adm", device="gpu-0", adminAccess=True), "spec": claim_spec(adminAccess=True)}
    pods = [a_pod("watches", resourceClaims=watching), a_pod("works", devices=1, resourceClaims=watching)]
    scope = a_scope(nodes=[a_node()], pods=pods, resourceclaims=[admin], deviceclasses=[a_class()])
    assert by_name(check_aimed(scope)) == {"works": Outcome.BAD}
    with pytest.raises(NotApplicable):
        list(check_aimed(a_scope(nodes=[a_node()], pods=pods[:1], resourceclaims=[admin], deviceclasses=[a_class()])))


@each_row
def test_what_looks_like_an_agent_in_nobodys_namespace_is_undecided_and_the_policy_decides(spec: Json, words: str) -> None:
    pods = [a_pod("exporter-x", "metrics", node="gpu-0", owner="DaemonSet/exporter", **spec)]
    known: dict[str, Any] = {"nodes": [a_node()], "pods": pods, "daemonsets": [a_daemonset("exporter", "metrics", owner="")]}
    (finding,) = check_intruders(a_scope(**known))
    assert finding.outcome is Outcome.UNDECIDED
    assert words in finding.message
    (finding,) = check_intruders(a_scope(a_policy(tenants={"moreInfrastructure": ["metrics"]}), **known))
    assert finding.outcome is Outcome.OK


@each_row
def test_a_pod_that_only_says_that_it_is_static_is_none(forged: dict[str, Any]) -> None:
    (finding,) = check_intruders(a_scope(nodes=[a_node(), a_node("gpu-1")], pods=[a_pod("web", node="gpu-0", **forged)]))
    assert finding.outcome is Outcome.BAD


@each_row
def test_an_intruder_s_way_in_is_named(node: dict[str, Any], tolerations: list[str], word: str) -> None:
    (finding,) = check_intruders(
        a_scope(nodes=[a_node(**node)], pods=[a_pod("web", node="gpu-0", owner="ReplicaSet/web", tolerations=tolerations)])
    )
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


# -- FENCE-03


@each_row
def test_blanket_tolerations_of_templates(toleration: str, blanket: bool) -> None:
    spec = {"template": {"spec": a_spec(tolerations=[toleration])}}
    (finding,) = check_blanket_tolerations(a_scope(deployments=[a_workload("Deployment", "web", spec)]))
    assert (finding.outcome is Outcome.BAD) is blanket


# -- FENCE-04


def plugin_pod(node: str) -> object:
    name = "nvidia-device-plugin-daemonset"
    return a_pod(f"{name}-{node}", "gpu-operator", node=node, owner=f"DaemonSet/{name}")


def test_the_matrix_of_nodes_and_agents_goes_by_pods_not_by_counts() -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1", taints=[FENCE, "sku=gpu:NoSchedule"]), a_cpu_node()]
    daemonset = a_daemonset(desired=1, node_selector={"nvidia.com/gpu.present": "true"})
    findings = list(check_agents_reach(a_scope(nodes=nodes, daemonsets=[daemonset], pods=[plugin_pod("gpu-0")])))
    name = daemonset.name
    assert by_name(findings) == {f"{name} on gpu-0": Outcome.OK, f"{name} on gpu-1": Outcome.BAD}
    assert "does not tolerate sku=gpu:NoSchedule" in messages(findings)


def test_a_tolerated_node_without_pod_fails_too_and_a_cordon_is_tolerated_by_the_controller() -> None:
    node = a_node(taints=[FENCE, "node.kubernetes.io/unschedulable:NoSchedule"], cordoned=True)
    (finding,) = check_agents_reach(a_scope(nodes=[node], daemonsets=[a_daemonset()]))
    assert finding.outcome is Outcome.BAD


def test_a_taint_that_holds_a_node_until_it_returns_is_named_where_an_agent_does_not_tolerate_it() -> None:
    policy = a_policy(**{"return": {"tolerate": ["example.com/repair"]}})
    node = a_node(taints=[FENCE, "example.com/repair:NoSchedule"])
    scope = Scope(a_scope(policy, nodes=[node], daemonsets=[a_daemonset()]).snapshot, policy, frozenset({node.name}))
    (finding,) = check_agents_reach(scope)
    assert "does not tolerate example.com/repair:NoSchedule" in messages([finding])
    assert finding.cause == "TaintNotTolerated"


def test_agents_that_the_policy_names_must_be_there_and_everywhere() -> None:
    policy = a_policy(operators={"expectedAgents": ["kube-system/my-plugin", "kube-system/gone-*"]})
    daemonset = a_daemonset("my-plugin", "kube-system", owner="", node_selector={"never": "true"})
    found = by_name(check_agents_reach(a_scope(policy, nodes=[a_node()], daemonsets=[daemonset])))
    assert found == {"kube-system/gone-*": Outcome.BAD, "my-plugin on gpu-0": Outcome.BAD}


# -- FENCE-08


@each_row
def test_device_pods_select_accelerator_nodes_only(spec: Json, outcome: Outcome) -> None:
    pods = [a_pod("train", devices=1, node="gpu-0", **spec), a_pod("web"), a_pod("validator", "gpu-operator", devices=1)]
    assert by_name(check_aimed(a_scope(nodes=[a_node(), a_cpu_node()], pods=pods))) == {"train": outcome}


def test_a_static_pod_has_its_nodes_own_uid_as_its_owner() -> None:
    """A node's name is no secret."""
    forged = a_node()
    forged.metadata.uid = "another"
    pod = a_pod("web", owner="Node/gpu-0", node="gpu-0", annotations={"kubernetes.io/config.mirror": "x"}, tolerations=["*"])
    assert by_name(check_blanket_tolerations(a_scope(nodes=[forged], pods=[pod]))) == {"web": Outcome.BAD}
