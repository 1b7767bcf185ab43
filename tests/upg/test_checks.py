"""UPG-01 to 04: removed APIs, drains, members of the control plane, and versions that support each other."""

from typing import Any

import pytest

from conformance.probes.server_metrics import ServerMetrics, parse
from conformance.upg.checks import check_drains, check_members, check_removed_apis, check_roll_outs, check_support
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_policy, a_scope, a_workload
from tests.findings import by_name, causes
from tests.tables import each_row


def a_budget(
    name: str = "web", *, allowed: int = 1, healthy: int = 2, desired: int = 1, owner: str = "", refused: str = "", **spec: Any
) -> Json:
    conditions = [{"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": refused}] if refused else []
    counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": 2}
    owners = [{"kind": owner, "name": "vm"}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "team-a", "generation": 1, "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {**counts, "observedGeneration": 1, "conditions": conditions},
    }


def a_web(name: str = "web-0", node: str = "gpu-0", **more: Any) -> Pod:
    return a_pod(name, node=node, labels={"app": "web"}, **more)


@each_row
def test_one_budget(budget: dict[str, Any], outcome: Outcome, cause: str) -> None:
    (finding,) = check_drains(a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=[a_budget(**budget)]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


def test_a_controller_that_acts_on_drains_by_itself_is_known_by_its_pods() -> None:
    budget = a_budget(minAvailable=1, allowed=0, desired=2)
    of_longhorn = a_scope(nodes=[a_node()], pods=[a_web(owner="InstanceManager/im-0")], poddisruptionbudgets=[budget])
    mixed = a_scope(nodes=[a_node()], pods=[a_web(owner="InstanceManager/im-0"), a_web("web-1")], poddisruptionbudgets=[budget])
    assert [one.outcome for scope in (of_longhorn, mixed) for one in check_drains(scope)] == [Outcome.NOT_JUDGED, Outcome.BAD]


@pytest.mark.parametrize(("instances", "outcome"), [(1, Outcome.BAD), (2, Outcome.NOT_JUDGED)])
def test_a_database_moves_its_primary_to_another_instance_where_it_has_one(instances: int, outcome: Outcome) -> None:
    budget = a_budget(
        "db-primary", minAvailable=1, allowed=0, healthy=1, desired=1, selector={"matchLabels": {"cnpg.io/instanceRole": "primary"}}
    )
    budget["metadata"]["ownerReferences"] = [{"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db"}]
    budget["status"]["expectedPods"] = 1
    roles = ["primary", "replica"][:instances]
    pods = [a_pod(f"db-{role}", node="gpu-0", labels={"cnpg.io/cluster": "db", "cnpg.io/instanceRole": role}) for role in roles]
    (finding,) = check_drains(a_scope(nodes=[a_node()], pods=pods, poddisruptionbudgets=[budget]))
    assert finding.outcome is outcome


def test_a_pod_with_two_budgets_is_never_evicted() -> None:
    budgets = [a_budget("a"), a_budget("b", selector={})]
    found = list(check_drains(a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=budgets)))
    assert causes(found) == {"a": "TwoBudgets", "b": "TwoBudgets"}


@each_row
def test_what_no_drain_of_an_accelerator_node_evicts_is_not_judged(pod: Pod) -> None:
    scope = a_scope(nodes=[a_node(), a_cpu_node()], pods=[pod], poddisruptionbudgets=[a_budget(maxUnavailable=0)])
    with pytest.raises(NotApplicable):
        list(check_drains(scope))


def test_a_budget_without_a_selector_guards_nothing() -> None:
    scope = a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=[a_budget(), a_budget("none", maxUnavailable=0, selector=None)])
    assert by_name(check_drains(scope)) == {"web": Outcome.OK}


PLANE = {"node-role.kubernetes.io/control-plane": ""}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def a_member(part: str, node: str) -> Pod:
    made = a_pod(f"{part}-{node}", "kube-system", node=node, owner=f"Node/{node}", labels={"component": part}, status=READY)
    made.metadata.annotations = {"kubernetes.io/config.mirror": "1"}
    return made


def a_plane(count: int, zone: str = "") -> list[Node]:
    labels = {**PLANE, **({"topology.kubernetes.io/zone": zone} if zone else {})}
    nodes = [a_cpu_node(f"cp-{index}", labels=labels) for index in range(count)]
    for node in nodes:
        node.metadata.uid = f"uid-{node.name}"
    return nodes


@each_row
def test_etcd(nodes: int, etcd: int, outcome: Outcome, cause: str) -> None:
    pods = [a_member("etcd", f"cp-{index}") for index in range(etcd)]
    (finding,) = check_members(a_scope(nodes=a_plane(nodes), pods=pods))
    assert (finding.outcome, finding.cause) == (outcome, cause)


@pytest.mark.parametrize(("count", "outcome"), [(1, Outcome.BAD), (2, Outcome.OK)])
def test_api_servers(count: int, outcome: Outcome) -> None:
    (finding,) = check_members(a_scope(nodes=a_plane(count), pods=[a_member("kube-apiserver", f"cp-{index}") for index in range(count)]))
    assert finding.outcome is outcome


def test_members_in_one_zone_of_several_are_named() -> None:
    nodes = [a_node(f"gpu-{zone}", labels={"topology.kubernetes.io/zone": zone}) for zone in "ab"]
    pods = [a_member("etcd", f"cp-{index}") for index in range(3)]
    (finding,) = check_members(a_scope(nodes=[*nodes, *a_plane(3, "a")], pods=pods))
    assert (finding.outcome, finding.cause) == (Outcome.ADVISED, "ControlPlaneInOneZone")


def test_k3s_labels_its_members() -> None:
    nodes = [a_cpu_node(f"cp-{index}", labels={**PLANE, "node-role.kubernetes.io/etcd": "true"}) for index in range(3)]
    (finding,) = check_members(a_scope(nodes=nodes))
    assert finding.outcome is Outcome.OK


@pytest.mark.parametrize("pods", [[], [a_pod("etcd-0", "team-a", labels={"component": "etcd"}, node="cp-0")]], ids=["none", "a tenant's"])
def test_a_managed_control_plane_is_not_judged(pods: list[Pod]) -> None:
    with pytest.raises(NotApplicable):
        list(check_members(a_scope(nodes=a_plane(3), pods=pods)))


A_PAGE = 'process_start_time_seconds 1\napiserver_request_total{group="",resource="pods",verb="LIST",version="v1"} 7\n'
DRA = "resource.k8s.io"


def a_use(group: str, version: str, kind: str, removed: str, verbs: dict[str, int]) -> str:
    place = f'group="{group}",version="{version}",resource="{kind}",subresource=""'
    lines = [f'apiserver_requested_deprecated_apis{{{place},removed_release="{removed}"}} 1']
    lines += [f'apiserver_request_total{{{place},code="200",verb="{verb}"}} {count}' for verb, count in verbs.items()]
    return "\n".join(lines) + "\n"


def a_webhook(*rules: tuple[list[str], list[str], list[str]]) -> Json:
    named = [{"apiGroups": groups, "apiVersions": versions, "resources": kinds} for groups, versions, kinds in rules]
    return {"metadata": {"name": "guard"}, "webhooks": [{"name": "guard.example.com", "rules": named}]}


def judged(metrics: ServerMetrics, *hooks: Json, target: str = "", running: str = "v1.37.2", **more: Any) -> list[Finding]:
    lists = {"validatingwebhookconfigurations": list(hooks), "mutatingwebhookconfigurations": []}
    scope = a_scope(a_policy(upgrade={"target": target}), nodes=[a_node()], **lists, **more)
    scope.snapshot.version = running
    scope.snapshot.versions = {f"{DRA}/resourceslices": "v1"}
    return list(check_removed_apis(scope, lambda: metrics))


@each_row
def test_what_clients_ask_for(use: list[str], verbs: dict[str, int], target: str, outcome: Outcome) -> None:
    (finding,) = judged(parse(A_PAGE + (a_use(use[0], use[1], use[2], use[3], verbs) if use else "")), target=target)
    assert finding.outcome is outcome


@each_row
def test_rules_of_webhooks(rules: list[tuple[list[str], list[str], list[str]]], target: str, outcome: Outcome) -> None:
    finding, _ = judged(parse(A_PAGE), a_webhook(*rules), target=target)
    assert finding.outcome is outcome


def test_who_wrote_through_it_is_named_with_the_counts() -> None:
    entries = [
        {"manager": "dra-kubelet-plugin", "apiVersion": f"{DRA}/v1beta1"},
        {"manager": "kubectl", "apiVersion": f"{DRA}/v1"},
        {"manager": 3, "apiVersion": f"{DRA}/v1beta1"},
    ]
    slices = [{"metadata": {"name": "gpu-0", "managedFields": entries}}]
    metrics = parse(A_PAGE + a_use(DRA, "v1beta1", "resourceslices", "1.38", {"PUT": 5, "GET": 2}))
    (finding,) = judged(metrics, resourceslices=slices)
    assert (finding.subject.name, finding.cause) == ("resource.k8s.io/v1beta1 resourceslices", "RemovedApiInUse")
    assert "dra-kubelet-plugin" in finding.message
    assert "kubectl" not in finding.message
    assert "2 GET" in finding.observed


@pytest.mark.parametrize("text", ["", "<html>sign in</html>", 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n', "apiserver_request_total{} x\n"])
def test_a_page_of_something_else_decides_nothing(text: str) -> None:
    (finding,) = judged(parse(text))
    assert finding.outcome is Outcome.UNDECIDED


def test_webhooks_are_judged_where_the_page_is_refused() -> None:
    hook = a_webhook(([DRA], ["v1beta1"], ["resourceclaims"]))
    found = judged(ServerMetrics(code="RightMissing", trouble="403 forbidden"), hook)
    assert [(one.outcome, one.cause) for one in found] == [(Outcome.BAD, "WebhookOnRemovedApi"), (Outcome.UNDECIDED, "RightMissing")]


_STATE = "nvidia.com/gpu-driver-upgrade-state"


@each_row
def test_runtimes(runtime: str, running: str, target: str, outcome: Outcome) -> None:
    node = a_node()
    node.status.node_info.container_runtime_version = runtime
    scope = a_scope(a_policy(upgrade={"target": target}), nodes=[node])
    scope.snapshot.version = running
    (finding,) = check_support(scope)
    assert finding.outcome is outcome


@each_row
def test_what_images_tell(image: str, running: str, driver: str, outcome: Outcome, cause: str) -> None:
    """An operator's Deployment, and nodes whose devices NVIDIA's DRA driver publishes."""
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    operator = a_workload("Deployment", "operator", {"template": template}, namespace="kube-system")
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "driverVersion": {"version": driver}, "uuid": {"string": "GPU-0"}}}
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "gpu-0", "pool": pool, "devices": [device]}
    scope = a_scope(nodes=[a_node()], deployments=[operator], resourceslices=[{"metadata": {"name": "s"}, "spec": spec}])
    scope.snapshot.version = running
    (finding,) = check_support(scope)
    assert (finding.outcome, finding.cause) == (outcome, cause)


def a_pool(product: str, upgrading: int, cordoned: int, size: int = 8) -> list[Node]:
    nodes = []
    for index in range(size):
        labels = {"nvidia.com/gpu.product": product, **({_STATE: "pod-restart-required"} if index < upgrading else {})}
        nodes.append(a_node(f"{product}-{index}", labels=labels))
        nodes[-1].spec.unschedulable = index >= size - cordoned
    return nodes


@each_row
def test_roll_outs(first: list[int], second: list[int], cause: str) -> None:
    found = causes(check_roll_outs(a_scope(nodes=[*a_pool("H100", *first), *a_pool("T4", *second)])))
    assert set(found.values()) == ({cause} if cause else set())
