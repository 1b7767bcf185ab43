"""A drafted policy: read back as a policy, green where the cluster is healthy, exempting nobody, and nothing secret in it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli.main import main
from conformance.cli.policy_command import draft
from fixtures.policy.platforms import chosen_by_marks
from fixtures.policy.policy_file import build_policy, check
from fixtures.snapshot.state import Snapshot
from tests.builders import a_container, a_namespace, a_node, a_pod, a_snapshot
from tests.platforms.clusters import CLUSTERS, with_quotas
from tests.platforms.judged import not_green, snapshot_as_served
from tests.platforms.objects import node, pod

NEEDS_ITS_OWNER = {"oke-mi300x"}
"""Platforms whose healthy cluster has pods that an owner has to excuse."""


def drafted(snapshot: Snapshot, *, confirmed: bool = False) -> dict[str, Any]:
    text = draft(snapshot, chosen_by_marks(snapshot))
    document = yaml.safe_load(text.replace("#? ", "") if confirmed else text)
    check(document, "drafted")
    return dict(document)


def red(snapshot: Snapshot, document: dict[str, Any]) -> dict[str, str]:
    presets = chosen_by_marks(snapshot)
    policy = build_policy(*(preset.policy for preset in presets), document)
    return {id_: result.message for id_, result in not_green(snapshot, policy).items()}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_healthy_cluster_is_green_with_the_policy_that_was_drafted_from_it(name: str) -> None:
    snapshot = snapshot_as_served(with_quotas(CLUSTERS[name]().objects))
    document = drafted(snapshot, confirmed=name in NEEDS_ITS_OWNER)
    assert document["platform"] == ([chosen.name for chosen in chosen_by_marks(snapshot)] or ["none"])
    assert red(snapshot, document) == {}


def test_a_device_that_is_lost_later_is_red_by_the_drafted_policy() -> None:
    build = CLUSTERS["aks-plain-plugin"]
    document = drafted(snapshot_as_served(with_quotas(build().objects)))
    assert document["advertisement"]["devicesPerNode"] == {"Standard_ND96isr_H100_v5": 8}
    objects = build().objects
    for item in objects:
        if item["kind"] == "Node" and item["metadata"]["name"] == "nd-1":
            item["status"]["capacity"]["nvidia.com/gpu"] = item["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    assert any("nd-1" in message for message in red(snapshot_as_served(with_quotas(objects)), document).values())


def test_what_exempts_somebody_counts_only_when_the_owner_confirms_it() -> None:
    host = a_pod("job", "training", node="gpu-0", devices=8, hostNetwork=True)
    spaces = [a_namespace("training"), a_namespace("nvidia-tools"), a_namespace("web")]
    snapshot = a_snapshot(nodes=[a_node()], pods=[host], namespaces=spaces)
    assert set(drafted(snapshot)["tenants"]) == {"namespaces"}
    confirmed = drafted(snapshot, confirmed=True)["tenants"]
    assert confirmed["moreInfrastructure"] == ["+nvidia-tools"]
    assert confirmed["hostRdma"] == ["training"]
    assert confirmed["podSecurityExceptions"] == {"nvidia-tools": "privileged", "web": "privileged"}


def test_a_fence_of_the_owners_own_is_taken_from_all_nodes_of_a_pool() -> None:
    nodes = [a_node("gpu-0", taints=["team/gpu:NoSchedule"]), a_node("gpu-1", taints=["team/gpu:NoSchedule", "x:NoSchedule"])]
    assert drafted(a_snapshot(nodes=nodes))["fence"]["taintKeys"] == ["+team/gpu"]
    assert "taintKeys" not in drafted(a_snapshot(nodes=[a_node("gpu-0")]))["fence"]


def test_a_quarantine_of_all_nodes_is_drafted_as_no_fence() -> None:
    nodes = [a_node(f"gpu-{n}", taints=["nvidia.com/gpu-xid-error:NoSchedule"]) for n in range(3)]
    assert "taintKeys" not in drafted(a_snapshot(nodes=nodes))["fence"]


def test_an_autoscaled_pool_has_no_fixed_number_of_nodes() -> None:
    assert drafted(a_snapshot(nodes=[a_node(labels={"karpenter.sh/nodepool": "gpu"})]))["accelerators"]["expectedCount"] is None
    assert drafted(a_snapshot(nodes=[a_node(), a_node("gpu-1")]))["accelerators"]["expectedCount"] == 2


def test_no_text_of_a_cluster_leaves_its_string_and_no_secret_is_written() -> None:
    evil = 'a"\n]\nchaos: {halt: true}\u2028x: y'
    pods = [
        a_pod(
            namespace="web",
            annotations={"token": "hunter2"},
            containers=[a_container(env=[{"name": "PASSWORD", "value": "hunter2"}], args=["hunter2"])],
        )
    ]
    labels = {"node.kubernetes.io/instance-type": evil, "nvidia.com/gpu.product": "", "secret": "hunter2"}
    snapshot = a_snapshot(nodes=[a_node(labels=labels)], namespaces=[a_namespace(evil), a_namespace("web")], pods=pods)
    assert "hunter2" not in draft(snapshot, [])
    assert "chaos" not in drafted(snapshot)


def test_the_command_reads_a_saved_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [node("gpu-0", {"nvidia.com/gpu": 8}, {"compute.coreweave.com/node-pool": "a"}), pod("p", "team-a", "gpu-0")]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, space]}))
    assert main(["policy", "init", "--snapshot", str(file)]) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert document["platform"] == ["coreweave"]
    file.write_text(json.dumps(items[0]))
    assert main(["policy", "init", "--snapshot", str(file)]) == 10
    assert "the snapshot holds no" in capsys.readouterr().err
    assert main(["policy", "init"]) == 4
    assert main(["policy", "init", "--snapshot", str(file), "--platform", "nope"]) == 4
