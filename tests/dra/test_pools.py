"""DRA-02 and 04: pools, their nodes and the pods of their drivers, and taints of devices."""

from typing import Any

import pytest

from conformance.dra.pools import check_pools, check_taints
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_daemonset, a_pod, a_policy, a_scope
from tests.dra import a_claim, a_device, a_slice
from tests.findings import by_name, messages
from tests.tables import each_row

REGISTRY = [{"name": "registry", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}]
NODE = "gpu-0 gpu.nvidia.com"


PLUGIN = "nvidia-dra-driver-gpu-kubelet-plugin"
HOME = "kube-system"


def a_driver(node: str = "gpu-0", namespace: str = HOME, *, ready: bool = True, owner: str = PLUGIN, **more: Any) -> Pod:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return a_pod(f"{owner}-{node}", namespace, node=node, owner=f"DaemonSet/{owner}", status=status, volumes=REGISTRY, **more)


def judged(slices: list[Json], pods: list[Pod] | None = None, **items: Any) -> dict[str, Outcome]:
    nodes = [a_cpu_node("gpu-0"), a_cpu_node("gpu-1")]
    given = {"nodes": nodes, "resourceslices": slices, "pods": [a_driver()] if pods is None else pods, **items}
    return by_name(check_pools(a_scope(**given)))


@each_row
def test_the_newest_generation_is_complete_and_its_names_unique(slices: list[Json], outcome: Outcome) -> None:
    assert judged(slices)[NODE] is outcome


def counted(sets: list[str], *draws: str, counter: str = "memory") -> Json:
    """A slice with counter sets, and devices that draw on them."""
    used = [
        a_device(f"mig-{n}", consumesCounters=[{"counterSet": name, "counters": {counter: {"value": "1"}}}]) for n, name in enumerate(draws)
    ]
    found = a_slice("gpu-0", devices=used, slices=2, name="-".join([*sets, *draws]))
    found["spec"]["sharedCounters"] = [{"name": name, "counters": {"memory": {"value": "2"}}} for name in sets]
    return found


def without_counter(name: str) -> Json:
    return counted([], name, counter="compute")


@each_row
def test_devices_draw_on_counters_of_their_pool(slices: list[Json], outcome: Outcome) -> None:
    assert judged(slices)[NODE] is outcome


@each_row
def test_a_pod_of_the_driver_lives_on_the_node(pods: list[Pod], outcome: Outcome) -> None:
    if any("csi" in pod.name for pod in pods):
        storage = {"hostPath": {"path": "/var/lib/kubelet/plugins/ebs.csi.aws.com"}}
        pods = [a_pod("ebs-csi-node-x", "kube-system", node="gpu-0", volumes=[*REGISTRY, storage])]
    assert judged([a_slice("gpu-0")], pods)[NODE] is outcome


def test_a_driver_of_any_name_is_found_by_the_nodes_it_serves() -> None:
    pods = [a_driver(owner="acme-agent"), a_driver("gpu-1", owner="acme-agent", ready=False)]
    slices = [a_slice("gpu-0", "accel.example.org"), a_slice("gpu-1", "accel.example.org")]
    found = judged(slices, pods)
    assert found == {"gpu-0 accel.example.org": Outcome.OK, "gpu-1 accel.example.org": Outcome.BAD}


def test_a_slice_of_a_node_that_is_gone_is_found() -> None:
    findings = list(check_pools(a_scope(nodes=[a_cpu_node("gpu-1")], resourceslices=[a_slice("gpu-0")], pods=[a_driver("gpu-1")])))
    assert findings[0].outcome is Outcome.BAD
    assert "node gpu-0 does not exist" in messages(findings)


@pytest.mark.parametrize(("new", "outcome"), [
    (["gpu-0"], Outcome.BAD), (["gpu-1"], Outcome.UNDECIDED), (["gpu-0", "gpu-1"], Outcome.UNDECIDED), ([], Outcome.BAD),
])  # fmt: skip
def test_a_node_that_has_just_joined_excuses_its_own_driver_alone(new: list[str], outcome: Outcome) -> None:
    nodes = [a_cpu_node("gpu-0"), a_cpu_node("gpu-1")]
    for node in nodes:
        node.metadata.creation_timestamp = "2026-09-21T14:10:00Z" if node.name in new else "2020-01-01T00:00:00Z"
    shared = a_slice("gpu-0", devices=[a_device(name, nodeName=name) for name in ("gpu-0", "gpu-1")], pool="rack")
    del shared["spec"]["nodeName"]
    assert list(judged([shared], [a_driver(), a_driver("gpu-1", ready=False)], nodes=nodes).values()) == [outcome]


def test_a_node_that_is_not_ready_is_another_requirement_s() -> None:
    assert judged([a_slice("gpu-0")], [], nodes=[a_cpu_node("gpu-0", ready=False)])[NODE] is Outcome.NOT_JUDGED


def test_a_network_driver_counts_beside_accelerators_only() -> None:
    eth: Json = {"name": "eth0", "attributes": {"ifName": {"string": "eth0"}}}
    lonely, beside = a_slice("gpu-1", "dra.net", [eth], slices=3), a_slice("gpu-0", "dra.net", [eth], slices=3)
    found = judged([a_slice("gpu-0"), lonely, beside])
    assert found["gpu-0 dra.net"] is Outcome.BAD
    assert "gpu-1 dra.net" not in found


def test_a_driver_that_lost_the_slice_of_one_node_is_found() -> None:
    channel: Json = {"name": "channel-0", "attributes": {"type": {"string": "channel"}}}
    slices = [a_slice("gpu-0"), a_slice("gpu-1"), a_slice("gpu-0", "compute-domain.nvidia.com", [channel])]
    found = judged(slices, [a_driver(), a_driver("gpu-1")])
    assert found["gpu-1 compute-domain.nvidia.com"] is Outcome.BAD
    assert found["gpu-0 compute-domain.nvidia.com"] is Outcome.OK


def test_a_network_driver_is_not_looked_for_in_another_driver_s_pods() -> None:
    eth: Json = {"name": "eth0", "attributes": {"ifName": {"string": "eth0"}}}
    slices = [a_slice("gpu-0"), a_slice("gpu-1"), a_slice("gpu-0", "dra.net", [eth])]
    found = judged(slices, [a_driver(), a_driver("gpu-1")])
    assert found["gpu-0 dra.net"] is Outcome.NOT_JUDGED
    assert "gpu-1 dra.net" not in found  # NVIDIA's pod has nothing to publish for it
    assert judged(slices, [a_driver(), a_driver("gpu-1"), a_driver(owner="dranet", ready=False)])["gpu-0 dra.net"] is Outcome.BAD


def test_a_copy_in_a_tenant_s_namespace_neither_stands_for_the_driver_nor_makes_it_red() -> None:
    copy, elsewhere = a_driver(namespace="aaa"), a_driver("gpu-1")
    assert judged([a_slice("gpu-0")], [copy, elsewhere])[NODE] is Outcome.BAD
    assert judged([a_slice("gpu-0")], [a_driver(namespace="aaa", ready=False), a_driver()])[NODE] is Outcome.OK
    made = a_daemonset(PLUGIN, namespace="aaa", owner="", volumes=REGISTRY)
    assert judged([a_slice("gpu-0")], [a_driver(owner="acme")], apps__daemonsets=[made])[NODE] is Outcome.OK


def test_a_driver_in_a_namespace_of_its_own_is_judged_once_the_policy_names_it() -> None:
    world: dict[str, Any] = {"nodes": [a_cpu_node("gpu-0")], "resourceslices": [a_slice("gpu-0")]}
    alone = a_scope(**world, pods=[a_driver(namespace="claims")])
    [finding] = check_pools(alone)
    assert finding.outcome is Outcome.UNDECIDED
    assert f"claims/{PLUGIN} may be it" in finding.message
    assert "tenants.moreInfrastructure" in finding.message
    named = a_scope(a_policy(tenants={"moreInfrastructure": ["claims"]}), **world, pods=[a_driver(namespace="claims")])
    assert [finding.outcome for finding in check_pools(named)] == [Outcome.OK]


NOW = 1_790_000_000.0
WEEK_AGO, HOUR_AGO = "2026-09-14T14:13:20Z", "2026-09-21T13:13:20Z"


def a_taint(added: str = WEEK_AGO, effect: str = "NoSchedule", key: str = "gpu.nvidia.com/xid", value: str = "48") -> Json:
    return {"key": key, "value": value, "effect": effect, "timeAdded": added} if added else {"key": key, "effect": effect}


def judged_taints(taint: Json | None = None, **items: Any) -> Finding:
    devices = [a_device("gpu-0", taints=[taint] if taint else ()), a_device("gpu-1")]
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0", devices=devices)], **items)
    return next(one for one in check_taints(scope, NOW) if one.subject.kind == "Node")


@each_row
def test_a_taint_is_stale_by_its_age(taint: Json | None, outcome: Outcome) -> None:
    assert judged_taints(taint).outcome is outcome


def a_rule(key: str, name: str = "rule-1", created: str = WEEK_AGO, **spec: Any) -> Json:
    chosen = {"deviceSelector": {"pool": "gpu-0", "device": "gpu-1"}, "taint": {"key": key, "effect": "NoSchedule"}, **spec}
    fields = [{"manager": "nvsentinel", "time": created}]
    return {"metadata": {"name": name, "creationTimestamp": created, "managedFields": fields}, "spec": chosen}


@each_row
def test_a_rule_may_reserve_devices_for_ever_but_not_repair_them(rule: Json, outcome: Outcome) -> None:
    finding = judged_taints(devicetaintrules=[a_rule(**rule)])
    assert finding.outcome is outcome
    assert "written by nvsentinel" in finding.observed


def test_a_rule_for_every_device_is_advised_against() -> None:
    rule = a_rule("example.com/reserved", name="drain-one", deviceSelector={}, taint={"key": "k", "effect": "NoExecute"})
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0")], devicetaintrules=[rule])
    stated = [one for one in check_taints(scope, NOW) if one.subject.kind == "DeviceTaintRule"]
    assert [(one.subject.name, one.outcome) for one in stated] == [("drain-one", Outcome.ADVISED)]


HOUR = a_taint(HOUR_AGO, "NoExecute")
TOLERATED = {"tolerations": [{"key": "gpu.nvidia.com/xid", "operator": "Exists"}]}


@each_row
def test_pods_end_that_a_taint_evicts(taint: Json, pod: Json, request_: Json, outcome: Outcome) -> None:
    claim = a_claim("c", device="gpu-0")
    claim["metadata"]["creationTimestamp"] = WEEK_AGO
    claim["spec"]["devices"]["requests"] = [{"name": "devices", **request_}]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "train-0", "uid": "uid-team-a-train-0"}]
    finding = judged_taints(taint, resourceclaims=[claim], pods=[a_pod(node="gpu-0", **{"status": {"startTime": WEEK_AGO}, **pod})])
    assert finding.outcome is outcome
    assert (outcome is Outcome.BAD) is ("pod team-a/train-0 goes on using gpu-0 1 h after" in finding.message)


def test_a_rule_without_a_selector_is_advised_against() -> None:
    rule = a_rule("example.com/all")
    del rule["spec"]["deviceSelector"]
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0")], devicetaintrules=[rule])
    assert [one.outcome for one in check_taints(scope, NOW)] == [Outcome.OK, Outcome.ADVISED]


@each_row
def test_no_claim_is_given_a_device_after_it_was_tainted(created: str, result: Json, outcome: Outcome) -> None:
    claim = a_claim("late", device="gpu-0", **result)
    claim["metadata"]["creationTimestamp"] = created
    assert judged_taints(a_taint(HOUR_AGO), resourceclaims=[claim]).outcome is outcome


def test_the_moment_of_the_allocation_tells_where_the_claim_is_older() -> None:
    claim = a_claim("old", device="gpu-0")
    claim["metadata"]["creationTimestamp"] = WEEK_AGO
    claim["status"]["allocation"]["allocationTimestamp"] = "2026-09-21T14:00:00Z"
    assert "team-a/old was given gpu-0" in judged_taints(a_taint(HOUR_AGO), resourceclaims=[claim]).message
