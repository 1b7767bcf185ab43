"""What a tenant makes in namespaces of his own hides nothing that is wrong with the platform, and makes nothing of it wrong."""

from collections.abc import Iterable

import pytest

from fixtures.kubernetes.models import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Defect, load_defect, load_scenario
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.verdict.record import Result, Verdict
from tests.judging import judge
from tests.platforms.objects import daemonset, meta, namespace
from tests.requirements_offline import NOW, policy_over, snapshot_of

FREE = ("aaa", "karpenter", "monitoring", "gpu-resources", "nvidia-device-plugin", "kubeflow", "gpu-conformance")
AGENTS = {
    "x-device-plugin": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "nvidia-device-plugin-daemonset": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "nvidia-dcgm-exporter": "nvcr.io/nvidia/k8s/dcgm-exporter:latest",
    "gpu-feature-discovery": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "node-feature-discovery-worker": "registry.k8s.io/nfd/node-feature-discovery:v0.17.0",
    "nvidia-dra-driver-gpu-kubelet-plugin": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0",
    "rdma-shared-dp-ds": "nvcr.io/nvidia/cloud-native/k8s-rdma-shared-dev-plugin:latest",
}
CONTROLLERS = ("gpu-operator", "volcano-scheduler", "kueue-controller-manager", "fault-quarantine")
CONFIGS = ("device-plugin-config", "default-mig-parted-config", "kueue-manager-config")
PLUGIN_FOLDER = {"d": "/var/lib/kubelet/device-plugins"}
RED = (Verdict.FAILED, Verdict.WARNED)


def stack(space: str, nodes: Iterable[str], *, healthy: bool) -> list[Json]:
    """Copies of everything that the platform runs: all well on every node, or none of it anywhere."""
    where = list(nodes) if healthy else []
    made = [namespace(space)]
    for name, image in AGENTS.items():
        mounts = None if healthy else PLUGIN_FOLDER  # whoever mounts it on a node may register devices there, and OPS-12 says so
        made += daemonset(name, space, where, image=image, select={} if healthy else {"none": "none"}, mounts=mounts)
    for name in CONTROLLERS:
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {}}}
        status = {"replicas": 1, "readyReplicas": int(healthy), "availableReplicas": int(healthy)}
        made.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(name, space), "spec": spec, "status": status})
    for name in CONFIGS:
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, space), "data": {"config.yaml": "version: v9"}})
    return made


def judged(scenario: str, *defects: Defect, healthy: bool) -> tuple[dict[str, Result], list[str]]:
    """The results beside the tenant's copies, and the namespaces that he made."""
    loaded = load_scenario(scenario)
    objects = with_defects(build(loaded, now=NOW), defects, NOW)
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    made = [name for name in FREE if ("Namespace", name) not in names]
    nodes = [name for kind, name in names if kind == "Node"]
    copies = [item for name in made for item in stack(name, nodes, healthy=healthy)]
    snapshot = snapshot_of([*objects, *copies], loaded.kubernetes_version)
    return judge(snapshot, policy_over(snapshot, policy_of(loaded, defects)), may_probe=True), made


@pytest.mark.parametrize("healthy", [True, False], ids=["well", "nowhere"])
@pytest.mark.parametrize("scenario", ["healthy", "showcase", "amd", "dra"])
def test_copies_of_the_platform_break_no_part_of_it(scenario: str, healthy: bool) -> None:
    results, made = judged(scenario, healthy=healthy)
    wrong = {
        id_: [place for place in result.subjects if place.verdict in (*RED, Verdict.INCONCLUSIVE)]
        for id_, result in results.items()
        if result.verdict in (*RED, Verdict.INCONCLUSIVE) and id_ != "GANG-01" and result.reason_code != "NoCluster"
    }
    others = {id_: rest for id_, places in wrong.items() if (rest := [one for one in places if {one.namespace, one.name}.isdisjoint(made)])}
    assert others == {}
    assert [id_ for id_, places in wrong.items() if not places] == []


@pytest.mark.parametrize(
    "name",
    [
        *("ops-agent-desired-on-no-node", "ops-toolkit-daemonset-deleted", "ops-exporter-on-one-node", "ops-image-latest"),
        *("ops-two-device-plugins", "fence-plugin-without-toleration", "adv-plugin-not-registered", "adv-config-refused"),
        *("mig-config-of-unknown-name", "dra-driver-not-ready"),
    ],
)
def test_copies_of_the_platform_hide_nothing_that_is_wrong_with_it(name: str) -> None:
    defect = load_defect(name)
    results, _ = judged(defect.scenario, defect, healthy=True)
    hidden = {id_: results[id_].message for id_ in defect.trips if id_ in results and results[id_].verdict not in RED}
    assert {id_: message for id_, message in hidden.items() if results[id_].reason_code not in ("NoCluster", "NoBaseline")} == {}
