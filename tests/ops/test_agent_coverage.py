from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from conformance.ops.agent_coverage import check_coverage
from conformance.ops.rollout import check_rolled_out
from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import DaemonSet, Json, Node, Pod
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import NFD, a_daemonset, a_node, a_pod, a_scope
from tests.tables import each_row

EXPORTER = "nvidia.com/gpu.deploy.dcgm-exporter"
HOST = "kubernetes.io/hostname"


def nodes(count: int = 3, **more: Any) -> list[Node]:
    return [a_node(f"gpu-{n}", labels={EXPORTER: "true"}, **more) for n in range(count)]


def a_policy_with(**parts: bool) -> Json:
    """A policy that enables these parts and no others."""
    every = ("driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd", "migManager", "nodeStatusExporter")
    spec = {part: {"enabled": parts.get(part, False)} for part in every}
    return {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy", "uid": "u"}, "spec": spec, "status": {"state": "ready"}}


def an_exporter(name: str = "nvidia-dcgm-exporter", image: str = "nvcr.io/nvidia/k8s/dcgm-exporter:4.6", **selector: str) -> DaemonSet:
    wanted = {key.replace("__", "/"): value for key, value in selector.items()}
    return a_daemonset(name, node_selector={EXPORTER: "true", **wanted}, containers=[{"name": "exporter", "image": image}])


def pods_on(names: Sequence[str], daemonset: str = "nvidia-dcgm-exporter") -> list[Pod]:
    return [a_pod(f"{daemonset}-{name}", "gpu-operator", node=name, owner=f"DaemonSet/{daemonset}") for name in names]


def findings(**world: Any) -> list[Finding]:
    return list(check_coverage(a_scope(**world)))


def bad(found: Sequence[Finding]) -> Mapping[str, str]:
    return {str(finding.subject): finding.message for finding in found if finding.outcome.value != "ok"}


def test_an_exporter_that_somebody_narrowed_to_one_node_fails_although_its_counts_are_complete() -> None:
    narrowed = an_exporter(**{"kubernetes.io__hostname": "gpu-0"})
    found = findings(
        nodes=nodes(), pods=pods_on(["gpu-0"]), apps__daemonsets=[narrowed], nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)]
    )
    (words,) = bad(found).values()
    assert "selects gpu-1, gpu-2" in words


def test_a_tenants_daemonset_of_that_selector_does_not_stand_for_the_operators() -> None:
    copy = a_daemonset("nvidia-dcgm-exporter", "aaa", node_selector={EXPORTER: "true"})
    found = findings(nodes=nodes(), apps__daemonsets=[copy], nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)])
    assert list(bad(found)) == ["ClusterPolicy cluster-policy dcgmExporter"]


def test_what_the_policy_does_not_enable_or_labels_decline_is_not_asked_for() -> None:
    """The label is there whether the part is enabled or not, and an owner may set it to false."""
    assert findings(nodes=nodes(), nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=False)]) == []
    off = a_node("gpu-2", labels={EXPORTER: "false"})
    found = findings(
        nodes=[*nodes(2), off],
        pods=pods_on(["gpu-0", "gpu-1"]),
        apps__daemonsets=[an_exporter()],
        nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)],
    )
    assert bad(found) == {}


@each_row
@pytest.mark.parametrize("left_out", [{}, {"version": "1"}, {"enabled": None}, None], ids=["empty", "other fields", "null", "no part"])
def test_what_the_operator_installs_by_itself_is_asked_for_where_the_policy_says_nothing(part: str, word: str, left_out: Any) -> None:
    policy = a_policy_with()
    policy["spec"] |= {part: left_out}
    if left_out is None:
        del policy["spec"][part]
    key = f"nvidia.com/gpu.deploy.{word}"
    labelled = [a_node("gpu-0", labels={key: "true"})]
    assert list(bad(findings(nodes=labelled, nvidia_com__clusterpolicies=[policy]))) == [f"ClusterPolicy cluster-policy {part}"]
    agent = a_daemonset("agent", node_selector={key: "true"})
    there = {"nodes": labelled, "pods": pods_on(["gpu-0"], "agent"), "apps__daemonsets": [agent]}
    assert bad(findings(**there, nvidia_com__clusterpolicies=[policy])) == {}
    assert bad(findings(nodes=[a_node("gpu-0", labels={key: "pre-installed"})], nvidia_com__clusterpolicies=[policy])) == {}


AMD = "feature.node.kubernetes.io/amd-gpu"


def a_device_config(**spec: Any) -> Json:
    meta = {"name": "default", "namespace": "kube-amd-gpu"}
    return {"kind": "DeviceConfig", "metadata": meta, "spec": {"selector": {AMD: "true"}, **spec}}


def amd_findings(config: Json, *sets: DaemonSet) -> Mapping[str, str]:
    labelled = [a_node(f"gpu-{n}", labels={AMD: "true"}) for n in range(2)]
    others = [a_node("nvidia-0")]
    return bad(findings(nodes=[*labelled, *others], amd_com__deviceconfigs=[config], apps__daemonsets=sets))


def an_amd_agent(suffix: str, **selector: str) -> DaemonSet:
    return a_daemonset(f"default-{suffix}", "kube-amd-gpu", owner="DeviceConfig/default", node_selector={AMD: "true", **selector})


PLUGIN = an_amd_agent("device-plugin")


@each_row
def test_a_part_of_amds_operator_that_is_enabled_has_its_daemonset_on_every_node(suffix: str, spec: Json) -> None:
    config, place = a_device_config(**spec), f"DeviceConfig kube-amd-gpu/default {suffix}"
    assert "no DaemonSet has that selector" in amd_findings(config, PLUGIN)[place]
    assert "selects gpu-1" in amd_findings(config, PLUGIN, an_amd_agent(suffix, **{HOST: "gpu-0"}))[place]
    assert amd_findings(config, PLUGIN, an_amd_agent(suffix)) == {}
    assert amd_findings(a_device_config(), PLUGIN) == {}


def test_amds_device_plugin_is_asked_for_unless_the_config_disables_it() -> None:
    assert list(amd_findings(a_device_config())) == ["DeviceConfig kube-amd-gpu/default device-plugin"]
    assert amd_findings(a_device_config(devicePlugin={"enableDevicePlugin": False})) == {}
    assert amd_findings(a_device_config(), an_amd_agent("device-plugin-x7k2p")) == {}, "as Kernel Module Management names it"


def test_an_agent_that_waits_for_the_driver_of_a_node_is_not_missed() -> None:
    ready = {"kmm.node.kubernetes.io/kube-amd-gpu.default.ready": ""}
    assert amd_findings(a_device_config(), an_amd_agent("device-plugin", **ready)) == {}


def test_a_config_without_a_selector_says_of_no_node_that_it_wants_agents() -> None:
    config = a_device_config(metricsExporter={"enable": True})
    del config["spec"]["selector"]
    assert amd_findings(config) == {}


def a_chart(**affinity: Any) -> DaemonSet:
    return a_daemonset(
        "dcgm-exporter", "monitoring", owner="", containers=[{"name": "e", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6"}], **affinity
    )


def test_an_agent_of_a_chart_that_most_of_a_pool_runs_is_asked_for_on_all() -> None:
    some = a_chart(affinity=_hosts("gpu-0", "gpu-1"))
    pods = [a_pod(f"e-{n}", "monitoring", node=f"gpu-{n}", owner="DaemonSet/dcgm-exporter") for n in range(2)]
    (words,) = bad(findings(nodes=nodes(), pods=pods, apps__daemonsets=[some])).values()
    assert "no DaemonSet of it selects gpu-2, and 2 of 3 nodes of the pool run it" in words


def test_two_daemonsets_of_one_image_share_a_pool_as_drivers_per_kernel_do() -> None:
    pair = [
        a_daemonset(
            f"dcgm-exporter-{n}", "monitoring", owner="", affinity=_hosts(*hosts), containers=[{"name": "e", "image": "x/dcgm-exporter:1"}]
        )
        for n, hosts in enumerate((("gpu-0", "gpu-1"), ("gpu-2",)))
    ]
    pods = [a_pod(f"e-{n}", "monitoring", node=f"gpu-{n}", owner=f"DaemonSet/dcgm-exporter-{n // 2}") for n in range(3)]
    assert bad(findings(nodes=nodes(), pods=pods, apps__daemonsets=pair)) == {}


def _hosts(*names: str) -> Json:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": list(names)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


SERVICE: Json = {"metadata": {"name": "dcgm-exporter", "namespace": "gpu-operator"}, "spec": {"selector": {"app": "dcgm-exporter"}}}


def test_a_service_of_an_agent_that_is_gone_fails() -> None:
    assert "gone from every node" in bad(findings(nodes=nodes(), services=[SERVICE]))["Service gpu-operator/dcgm-exporter"]
    pod = a_pod("exporter", "gpu-operator", labels={"app": "dcgm-exporter"}, node="gpu-0")
    assert bad(findings(nodes=nodes(), services=[SERVICE], pods=[pod])) == {}
    assert findings(nodes=nodes(), services=[{**SERVICE, "spec": {}}]) == []
    assert findings(nodes=nodes(), services=[{**SERVICE, "metadata": {"name": "dcgm-exporter", "namespace": "team-a"}}]) == []


def test_an_exporter_on_one_node_of_a_pool_fails_without_an_operator_too() -> None:
    alone = a_daemonset("dcgm-exporter", owner="", node_selector={HOST: "gpu-0"}, containers=[{"image": "nvidia/dcgm-exporter:4.6"}])
    world: Any = {"nodes": [a_node(f"gpu-{n}") for n in range(4)], "pods": pods_on(["gpu-0"], "dcgm-exporter"), "daemonsets": [alone]}
    assert "selects gpu-1, gpu-2, gpu-3" in str(bad(findings(**world)))
    nowhere = a_daemonset("dcgm-exporter", owner="", node_selector={"monitored": "yes"}, desired=0)
    (found,) = check_rolled_out(a_scope(nodes=world["nodes"], daemonsets=[nowhere]))
    assert found.outcome is Outcome.BAD
    amd = [a_node("amd-0", resource="amd.com/gpu", labels={NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": ""})]
    (found,) = check_rolled_out(a_scope(nodes=amd, daemonsets=[nowhere]))
    assert found.outcome is Outcome.NOT_JUDGED


def test_discovery_on_one_node_of_a_pool_fails_although_the_plugin_of_its_image_is_on_all() -> None:
    image = [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]
    plugin = a_daemonset("nvidia-device-plugin", owner="", containers=image)
    discovery = a_daemonset("gpu-feature-discovery", owner="", node_selector={HOST: "gpu-0"}, containers=image)
    pods = [*pods_on(["gpu-0", "gpu-1", "gpu-2"], "nvidia-device-plugin"), *pods_on(["gpu-0"], "gpu-feature-discovery")]
    found = bad(findings(nodes=[a_node(f"gpu-{n}") for n in range(3)], pods=pods, daemonsets=[plugin, discovery]))
    assert list(found) == ["Agent k8s-device-plugin (discovery) on the pool of gpu-0"]


def an_efa_plugin(*types: str) -> DaemonSet:
    term = {"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": [*types]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    containers = [{"name": "plugin", "image": "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.10"}]
    return a_daemonset("aws-efa-k8s-device-plugin", "kube-system", affinity=affinity, containers=containers)


@each_row
def test_a_fabrics_plugin_is_on_each_machine_with_its_fabric(machine: str, selects: list[str], offers: dict[str, str], warns: bool) -> None:
    efa = [a_node(f"gpu-{n}", labels={INSTANCE_TYPE: machine}, capacity=offers) for n in range(2)]
    found = findings(nodes=efa, apps__daemonsets=[an_efa_plugin(*selects)] if selects else [])
    warned = [finding for finding in found if finding.outcome is Outcome.ADVISED]
    assert [finding.cause for finding in warned if finding.cause != "AdaptersNotAttached"] == ["AgentSelectsTooFew"] * warns


@each_row
def test_adapters_of_a_machine(machine: str, offers: list[int], outcome: str) -> None:
    capacity = [{"vpc.amazonaws.com/efa": str(count)} if count else {} for count in offers]
    nodes = [a_node(f"gpu-{at}", labels={INSTANCE_TYPE: machine}, capacity=one) for at, one in enumerate(capacity)]
    found = [one for one in findings(nodes=nodes) if one.subject.kind == "Machine"]
    assert [one.cause or one.outcome.value for one in found] == ([outcome] if outcome else [])
