from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.ops.agent_coverage import check_coverage
from fixtures.kubernetes.models import DaemonSet, Json, Node, Pod
from fixtures.verdict.findings import Finding
from tests.builders import a_daemonset, a_node, a_pod, a_scope

EXPORTER = "nvidia.com/gpu.deploy.dcgm-exporter"
HOST = "kubernetes.io/hostname"


def nodes(count: int = 3, **more: Any) -> list[Node]:
    return [a_node(f"gpu-{n}", labels={EXPORTER: "true"}, **more) for n in range(count)]


def a_policy_with(**parts: bool) -> Json:
    spec = {part: {"enabled": enabled} for part, enabled in parts.items()}
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
    assert "not selected on gpu-1, gpu-2" in words


def test_an_agent_that_is_enabled_and_has_no_daemonset_fails() -> None:
    found = findings(nodes=nodes(), nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)])
    assert list(bad(found)) == ["ClusterPolicy cluster-policy dcgmExporter"]


def test_a_tenants_daemonset_of_that_selector_does_not_stand_for_the_operators() -> None:
    copy = a_daemonset("nvidia-dcgm-exporter", "aaa", node_selector={EXPORTER: "true"})
    found = findings(nodes=nodes(), apps__daemonsets=[copy], nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)])
    assert list(bad(found)) == ["ClusterPolicy cluster-policy dcgmExporter"]


def test_what_the_policy_does_not_enable_or_labels_decline_is_not_asked_for() -> None:
    """The label is there whether the part is enabled or not, and an owner may set it to false."""
    assert findings(nodes=nodes(), nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=False), a_policy_with()]) == []
    off = a_node("gpu-2", labels={EXPORTER: "false"})
    found = findings(
        nodes=[*nodes(2), off],
        pods=pods_on(["gpu-0", "gpu-1"]),
        apps__daemonsets=[an_exporter()],
        nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)],
    )
    assert bad(found) == {}


def test_a_node_that_lost_the_operators_labels_is_missed_even_beside_one_peer() -> None:
    """NVIDIA/gpu-operator#470: one of two nodes."""
    found = findings(
        nodes=[*nodes(1), a_node("gpu-1")],
        pods=pods_on(["gpu-0"]),
        apps__daemonsets=[an_exporter()],
        nvidia_com__clusterpolicies=[a_policy_with(dcgmExporter=True)],
    )
    assert "gpu-1" in bad(found)["ClusterPolicy cluster-policy dcgmExporter"]


def a_chart(**affinity: Any) -> DaemonSet:
    return a_daemonset(
        "dcgm-exporter", "monitoring", owner="", containers=[{"name": "e", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6"}], **affinity
    )


def test_an_agent_of_a_chart_that_most_of_a_pool_runs_is_asked_for_on_all() -> None:
    some = a_chart(affinity=_hosts("gpu-0", "gpu-1"))
    pods = [a_pod(f"e-{n}", "monitoring", node=f"gpu-{n}", owner="DaemonSet/dcgm-exporter") for n in range(2)]
    (words,) = bad(findings(nodes=nodes(), pods=pods, apps__daemonsets=[some])).values()
    assert "no DaemonSet of it selects gpu-2, and 2 of 3 nodes of the pool run it" in words


def test_an_agent_that_few_nodes_run_may_be_meant_for_them() -> None:
    some = a_chart(affinity=_hosts("gpu-0"))
    pods = [a_pod("e-0", "monitoring", node="gpu-0", owner="DaemonSet/dcgm-exporter")]
    assert bad(findings(nodes=nodes(), pods=pods, apps__daemonsets=[some])) == {}


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
