from datetime import UTC, datetime

import pytest

from conformance.adv.labels import check_labels
from conformance.adv.node_configs import check_configs
from fixtures.kubernetes.models import ConfigMap, DaemonSet, Meta, Node
from fixtures.model.platform.plugin_settings import PluginConfigError, parse_config
from fixtures.verdict.findings import Outcome
from tests.adv.built import NOW, scope_of, verdict
from tests.builders import a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.tables import each_row

LABELS = {
    key: value
    for key, value in scope_of("healthy").snapshot.node_by_name["h100-0"].metadata.label.items()
    if key.startswith("nvidia.com/") and not key.startswith("nvidia.com/gpu.deploy.")
}
SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"


def labelled(**changes: str | None) -> Node:
    labels = dict(LABELS)
    for name, value in changes.items():
        key = "nvidia.com/" + name.replace("__", ".").replace("_", "-")
        if value is None:
            del labels[key]
        else:
            labels[key] = value
    return a_node(labels=labels)


def a_config_map(data: dict[str, str], namespace: str = "gpu-operator") -> ConfigMap:
    return ConfigMap(metadata=Meta(name="device-plugin-config", namespace=namespace), data=data)


# -- ADV-04


@each_row
def test_a_wrong_label_is_named(changes: dict[str, str | None], clause: str) -> None:
    (finding,) = check_labels(a_scope(nodes=[labelled(**changes)]), NOW)
    assert finding.outcome is Outcome.BAD
    assert clause in finding.message


def test_nodes_without_discovery_are_not_judged() -> None:
    assert verdict(check_labels(a_scope(nodes=[a_node()]), NOW)) == "not_applicable"
    assert verdict(check_labels(a_scope(nodes=[labelled()]), NOW)) == "passed"


@pytest.mark.parametrize(
    ("agent", "hours", "ready", "outcome"),
    [
        ("gpu-feature-discovery", 5, "True", "failed"),
        ("gpu-feature-discovery", 0, "True", "inconclusive"),
        ("gpu-feature-discovery", 5, "False", "not_applicable"),
        ("default-node-labeller", 5, "True", "not_applicable"),
    ],
)
def test_an_agent_that_runs_and_writes_no_label_is_named(agent: str, hours: float, ready: str, outcome: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    pod = a_pod(f"{agent}-a", "gpu-operator", node="gpu-0", owner=f"DaemonSet/{agent}", status=status)
    pod.metadata.creation_timestamp = datetime.fromtimestamp(NOW - hours * 3600, UTC).isoformat()
    scope = a_scope(nodes=[a_node()], pods=[pod], daemonsets=[a_daemonset(agent)])
    assert verdict(check_labels(scope, NOW)) == outcome


def test_age_counts_only_when_the_policy_says_so() -> None:
    old = labelled(gfd__timestamp=str(int(NOW) - 30 * 86400))
    policy = a_policy(advertisement={"maxLabelAgeHours": 24})
    assert verdict(check_labels(a_scope(nodes=[old]), NOW)) == "passed"
    assert verdict(check_labels(a_scope(policy, nodes=[old]), NOW)) == "failed"
    assert verdict(check_labels(a_scope(policy, nodes=[labelled(gfd__timestamp=None)]), NOW)) == "inconclusive"


# -- ADV-06


def test_a_config_says_what_it_makes_of_devices() -> None:
    config = parse_config("flags: {migStrategy: mixed}\nsharing: {mps: {renameByDefault: true, resources: [{name: gpu, replicas: 3}]}}")
    assert (config.mig_strategy, config.sharing, config.factor("nvidia.com/gpu")) == ("mixed", "mps", 3)
    assert config.advertised_as("nvidia.com/gpu") == "nvidia.com/gpu.shared"
    assert parse_config("").sharing == "none"


@pytest.mark.parametrize(
    ("kind", "said", "refuses"), [("timeSlicing", "", False), ("timeSlicing", "true", True), ("mps", "", True), ("mps", "false", False)]
)
def test_a_config_says_whether_two_shared_units_are_refused(kind: str, said: str, refuses: bool) -> None:
    more = f"failRequestsGreaterThanOne: {said}, " if said else ""
    config = parse_config(f"sharing: {{{kind}: {{{more}resources: [{{name: gpu, replicas: 3}}]}}}}")
    assert config.one_each is refuses


@each_row
def test_what_the_plugin_refuses_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PluginConfigError, match=reason):
        parse_config(text)


@pytest.mark.parametrize(
    "text",
    [
        f"# {'x' * 300_000}\n{SHARED}",
        f"{SHARED}\n---\nnotes: for people\n",
        f"{SHARED}\nnotes: {'[' * 150}{']' * 150}\n",
        f"{SHARED}\nlogo: !!binary QUJD\n",
    ],
    ids=["long", "two documents", "deep", "bytes"],
)
def test_what_is_not_read_here_is_not_reported_to_be_refused_by_the_plugin(text: str) -> None:
    """The plugin reads each of them, and passes over what it does not know."""
    key = {"nvidia.com/device-plugin.config": "shared"}
    node = a_node(gpus=32, labels={**LABELS, **key, "nvidia.com/gpu.replicas": "4"})
    [finding] = check_configs(a_scope(nodes=[node], configmaps=[a_config_map({"shared": text})]))
    assert finding.outcome is Outcome.UNDECIDED
    assert "is not read" in finding.message
    assert judged(node, a_config_map({"shared": f"# {'x' * 200_000}\n{SHARED}"})) == "passed"


@each_row
def test_keys_that_the_plugin_passes_over_are_named(text: str, keys: list[str]) -> None:
    """Its outer sections are decoded in any case, and the sharing of resources exactly."""
    assert [found.partition(" (")[0] for found in parse_config(text).ignored] == [key.partition(" (")[0] for key in keys]
    assert all("did it mean" in found for found, key in zip(parse_config(text).ignored, keys, strict=True) if "did it mean" in key)
    key = {"nvidia.com/device-plugin.config": "shared"}
    node = a_node(gpus=32, labels={**LABELS, **key, "nvidia.com/gpu.replicas": "4"})
    if keys and "timeSlicing" in text and "shareing" not in text:
        assert judged(node, a_config_map({"shared": text})) == "warned"


def judged(node: Node, *maps: ConfigMap) -> str:
    return verdict(check_configs(a_scope(nodes=[node], configmaps=maps)))


def test_the_named_config_must_exist_and_predict() -> None:
    key = {"nvidia.com/device-plugin.config": "shared"}
    node = a_node(gpus=32, labels={**LABELS, **key, "nvidia.com/gpu.replicas": "4"})
    assert judged(node, a_config_map({"shared": SHARED})) == "passed"
    assert judged(node, a_config_map({"other": SHARED})) == "failed"
    assert judged(node, a_config_map({"shared": SHARED}, namespace="team-a")) == "failed"
    assert judged(node, a_config_map({"shared": SHARED.replace("4", "8")})) == "failed"
    assert judged(node, a_config_map({"shared": SHARED.replace("resources", "renameByDefault: true, resources")})) == "failed"
    assert judged(node, a_config_map({"shared": f"flags: {{migStrategy: mixed}}\n{SHARED}"})) == "passed"
    single = a_node(gpus=32, labels={**LABELS, **key, "nvidia.com/mig.strategy": "single"})
    assert judged(single, a_config_map({"shared": SHARED})) == "failed"
    assert judged(a_node(), a_config_map({"shared": SHARED})) == "not_applicable"


@each_row
def test_the_operator_s_configuration_says_nothing_where_it_installs_no_plugin(
    enabled: bool | None, labels: dict[str, str], wanted: str
) -> None:
    config = {"config": {"name": "plugin-configs", "default": "shared"}, **({} if enabled is None else {"enabled": enabled})}
    policy = {"metadata": {"name": "p"}, "spec": {"devicePlugin": config}, "status": {"state": "ready", "namespace": "gpu-operator"}}
    scope = a_scope(nodes=[a_node(labels={**LABELS, **labels})], configmaps=[a_config_map({"shared": SHARED})], clusterpolicies=[policy])
    assert verdict(check_configs(scope)) == wanted


def test_without_labels_of_devices_capacity_must_be_a_multiple() -> None:
    key = {"nvidia.com/device-plugin.config": "shared"}
    assert judged(a_node(gpus=16, labels=key), a_config_map({"shared": SHARED})) == "passed"
    assert judged(a_node(gpus=15, labels=key), a_config_map({"shared": SHARED})) == "failed"


@pytest.mark.parametrize(("units", "wanted"), [(32, "passed"), (8, "failed"), (16, "failed"), (12, "passed")])
def test_without_labels_of_devices_a_cloud_s_count_settles_the_factor(units: int, wanted: str) -> None:
    """12 is no multiple of 8: a lost device is ADV-03's, and tells no factor."""
    labels = {"nvidia.com/device-plugin.config": "shared", "karpenter.k8s.aws/instance-gpu-count": "8"}
    assert judged(a_node(gpus=units, labels=labels), a_config_map({"shared": SHARED})) == wanted
    sliced = a_node(gpus=56, labels=labels)  # seven slices of each, which no label tells
    assert judged(sliced, a_config_map({"shared": "flags: {migStrategy: single}"})) == "passed"


# -- ADV-04, AMD


@each_row
def test_labels_of_amd_agree(changes: dict[str, str], clause: str) -> None:
    node = scope_of("amd").snapshot.node_by_name["mi300x-0"]
    labels = {**node.metadata.label, **changes}
    (finding,) = check_labels(a_scope(nodes=[a_node(resource="amd.com/gpu", labels={**labels, "nvidia.com/gpu.product": ""})]), NOW)
    assert finding.outcome is (Outcome.BAD if clause else Outcome.OK)
    assert clause in finding.message


def test_the_configuration_lies_where_the_plugin_runs() -> None:
    plugin = a_daemonset("nvdp", "default", owner="", volumes=[{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}])
    node = labelled(device_plugin__config="shared")
    ours, unrelated = a_config_map({"shared": SHARED}, "default"), a_config_map({"shared": "greeting: hello\nversion: v9"}, "kube-system")
    alone = a_scope(nodes=[node], configmaps=[ours])
    assert "not a key of any ConfigMap" in next(check_configs(alone)).message
    (finding,) = check_configs(a_scope(nodes=[node], configmaps=[unrelated, ours], daemonsets=[plugin]))
    assert finding.outcome is Outcome.UNDECIDED
    assert "DaemonSet default/nvdp may be its plugin" in finding.message
    policy = a_policy(operators={"expectedAgents": ["default/nvdp"]})
    (finding,) = check_configs(a_scope(policy, nodes=[node], configmaps=[unrelated, ours], daemonsets=[plugin]))
    assert finding.source.startswith("ConfigMap default/")


def test_plugins_of_two_pools_are_judged_apart() -> None:
    """A chart is installed once per pool, each time with settings of its own."""
    nodes = [
        a_node("plain-0", labels={"nvidia.com/device-plugin.config": "any", "pool": "plain"}),
        a_node("cut-0", labels={"nvidia.com/device-plugin.config": "any", "pool": "cut"}, gpus=32),
    ]
    maps = [
        ConfigMap(metadata=Meta(name=f"{pool}-config", namespace="nvidia-device-plugin"), data={"any": text})
        for pool, text in (("plain", "version: v1"), ("cut", SHARED))
    ]

    def a_plugin(of: str, strategy: str, **selector: str) -> DaemonSet:
        mounts = [{"name": "c", "configMap": {"name": f"{of}-config"}}]
        one = [{"name": "main", "image": "plugin:1", "env": [{"name": "MIG_STRATEGY", "value": strategy}]}]
        name, home = f"{of}-device-plugin", "nvidia-device-plugin"
        return a_daemonset(name, home, owner="", node_selector=selector, volumes=mounts, containers=one)

    policy = a_policy(advertisement={"devicesPerNode": {"*": 8}})
    apart = [a_plugin("plain", "none", pool="plain"), a_plugin("cut", "single", pool="cut")]
    findings = list(check_configs(a_scope(policy, nodes=nodes, configmaps=maps, daemonsets=apart)))
    assert {finding.subject.name: finding.source.split(",")[0] for finding in findings} == {
        "plain-0": "ConfigMap nvidia-device-plugin/plain-config",
        "cut-0": "ConfigMap nvidia-device-plugin/cut-config",
    }
    assert {finding.outcome for finding in findings} == {Outcome.OK}, findings
    together = [a_plugin("plain", "none"), a_plugin("cut", "single")]
    for finding in check_configs(a_scope(policy, nodes=nodes, configmaps=maps, daemonsets=together)):
        assert finding.outcome is Outcome.UNDECIDED
        assert "set different MIG strategies" in finding.message
