"""Namespaces of a run: closed to all traffic but what a probe needs, and bounded in what they may hold."""

from pathlib import Path
from typing import Any

import pytest

from conformance.net.fabric_probe import NAME, objects
from conformance.plugin.session import workspace_limits
from conformance.policy.model import Network
from fixtures.cluster.client import Cluster
from fixtures.probes.namespace_limits import DNS_PORT, NETWORK_POLICIES, QUOTA, QUOTAS, among
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission import chain
from fixtures.verdict.findings import Inconclusive
from tests.builders import a_cpu_node, a_node, a_scope
from tests.served import served
from tests.troubles import Trouble

RUN = "20261121-100000-test"
GPU = "nvidia.com/gpu"


def items(cluster: Cluster, key: str, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request("GET", cluster.path(key, namespace)).json()["items"]
    return found


def a_pod(name: str, devices: int = 0) -> dict[str, Any]:
    return probe_pod(PodShape(name=name, image="registry.example/probe:1", script="true", resources={GPU: devices} if devices else {}))


@pytest.mark.parametrize(("level", "suffix"), [("restricted", ""), ("privileged", ""), ("restricted", "quota")])
def test_every_namespace_lets_nothing_in_or_out(tmp_path: Path, level: str, suffix: str) -> None:
    with served(tmp_path) as (cluster, _):
        name = Workspace(cluster, RUN).namespace(level, suffix)
        [policy] = items(cluster, NETWORK_POLICIES, name)
        assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_every_namespace_is_bounded(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN, pods=2, devices={GPU: 1})
        workspace.start(a_pod("one", devices=1))
        refused = workspace.try_create("pods", a_pod("two", devices=1), workspace.namespace())
        assert (refused.status, f"exceeded quota: {QUOTA}" in refused.message) == (403, True)
        workspace.start(a_pod("two"))
        assert workspace.try_create("pods", a_pod("three"), workspace.namespace()).status == 403
        [quota] = items(cluster, QUOTAS, workspace.namespace())
        hard = quota["spec"]["hard"]
        assert {hard[key] for key in ("persistentvolumeclaims", "services.loadbalancers", "services.nodeports")} == {"0"}
        workspace.close()
        assert workspace.residue == []


@pytest.mark.parametrize("key", [NETWORK_POLICIES, QUOTAS])
def test_a_namespace_that_cannot_be_bounded_is_not_used(tmp_path: Path, key: str) -> None:
    with served(tmp_path, troubles=[Trouble("create", key, 403, 2)]) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        for _ in range(2):
            with pytest.raises(Inconclusive, match=f"could not be limited .*{key}"):
                workspace.start(a_pod("one"))
        assert "create pods" not in cluster.requests().by_verb_and_resource
        assert workspace.namespace()  # the right was given meanwhile
        workspace.close()
        assert workspace.residue == []


def test_a_quota_that_nobody_has_counted_yet_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        namespace = workspace.namespace()
        plain, refusals = cluster.create, [2]

        def create(key: str, obj: dict[str, Any], **more: Any) -> Any:
            if key == "pods" and refusals[0]:
                refusals[0] -= 1
                hard = {"pods": "5"}
                status = {"status": {"hard": hard, "used": hard if not refusals[0] else {}}}
                assert cluster.patch(QUOTAS, QUOTA, status, namespace, "status").ok
            return plain(key, obj, **more)

        cluster.create = create  # type: ignore[method-assign]
        assert workspace.start(a_pod("one")) == "one"
        refusals[0] = 2
        assert workspace.ask("pods", a_pod("two"), namespace).ok


def test_ranks_talk_to_each_other_and_ask_for_names_and_nothing_else(tmp_path: Path) -> None:
    labels = dict(objects(Network(), [NAME]))["services"]["spec"]["selector"]
    with served(tmp_path) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        workspace.let_talk(NAME, labels)
        workspace.let_talk(NAME, labels)  # NET-05 and NET-06 share a run, and perhaps a namespace
        spec = next(item["spec"] for item in items(cluster, NETWORK_POLICIES, workspace.namespace()) if item["metadata"]["name"] == NAME)
        peers = [{"podSelector": {"matchLabels": labels}}]
        assert spec["podSelector"] == {"matchLabels": labels}
        assert spec["ingress"] == [{"from": peers}]
        [to_peers, names] = spec["egress"]
        assert to_peers == {"to": peers}
        assert {(port["protocol"], port["port"]) for port in names["ports"]} == {("UDP", DNS_PORT), ("TCP", DNS_PORT)}
        assert among(NAME, labels)["spec"] == spec


def test_there_is_room_for_a_gang_and_its_rival_and_a_pod_too_many() -> None:
    pods, devices = workspace_limits(a_scope(nodes=[a_node("a"), a_node("b"), a_cpu_node()]))
    assert devices[GPU] > 2 * 16 + 8
    assert pods >= 60 + 2 * 4
    assert workspace_limits(a_scope())[1] == {}
