from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.simulator.api.selectors import matches_expression
from fixtures.simulator.pods.amounts import pod_requests, thousandths
from fixtures.simulator.pods.node_selectors import matches_node
from fixtures.simulator.pods.taints import tolerates, untolerated
from fixtures.simulator.scheduling import messages
from fixtures.simulator.scheduling.cluster_state import NodeInfo
from fixtures.simulator.scheduling.fit import best, fit

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> NodeInfo:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return NodeInfo({"metadata": metadata, "spec": spec, "status": {"allocatable": amounts}})


def pod(name: str = "p", requests: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"operator": "Exists"}, True),
        ({"key": GPU, "operator": "Exists"}, True),
        ({"key": GPU, "value": "present"}, True),
        ({"key": GPU, "operator": "Equal", "value": "other"}, False),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Equal", "value": "present"}, False),
        ({"key": GPU, "operator": "Nonsense", "value": "present"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], wanted: bool) -> None:
    assert tolerates(toleration, {"key": GPU, "value": "present", "effect": "NoSchedule"}) is wanted


def test_prefer_no_schedule_fences_nothing() -> None:
    assert untolerated([{"key": GPU, "effect": "PreferNoSchedule"}], []) is None
    assert untolerated([{"key": GPU, "effect": "NoExecute"}], []) == {"key": GPU, "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("operator", "values", "wanted"),
    [
        ("In", ["a"], True),
        ("NotIn", ["a"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["1"], False),
        ("What", ["a"], False),
    ],
)
def test_operators(operator: str, values: list[str], wanted: bool) -> None:
    assert matches_expression({"k": "a"}, {"key": "k", "operator": operator, "values": values}) is wanted


def test_numbers_and_missing_labels() -> None:
    assert matches_expression({"k": "12"}, {"key": "k", "operator": "Gt", "values": ["9"]})
    assert matches_expression({"k": "12"}, {"key": "k", "operator": "Lt", "values": ["13"]})
    assert matches_expression({}, {"key": "k", "operator": "NotIn", "values": ["a"]})
    assert not matches_expression({}, {"key": "k", "operator": "Lt", "values": []})
    assert not matches_node(node("a").node, {})


def test_requests_of_init_containers_sidecars_and_overhead() -> None:
    shape = pod(requests={"cpu": "1", GPU: "2"}, overhead={"cpu": "250m"})
    shape["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "big", "resources": {"limits": {"cpu": "4", GPU: "8"}}},
    ]
    found = pod_requests(shape)
    assert found["cpu"] == 5250  # the init step with the sidecar beside it, and the overhead
    assert found[GPU] == 8000
    assert thousandths("nonsense") == 0


def test_reasons_are_counted_by_node_and_sorted_as_text() -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    nodes = [node("a", taints=[taint]), node("b", 0), node("c", unschedulable=True), node("d", labels={"pool": "x"})]
    result = fit(pod(requests={GPU: "1"}, nodeSelector={"pool": "y"}), nodes)
    assert result.message.startswith(
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        "2 node(s) didn't match Pod's node affinity/selector. preemption: 0/4 nodes are available: 4 "
    )


def test_preemption_helps_only_where_the_node_could_hold_the_pod() -> None:
    full, small = node("full"), node("small", 1)
    full.add(pod("holder", {GPU: "8"}))
    result = fit(pod(requests={GPU: "2"}), [full, small])
    assert dict(result.reasons) == {"Insufficient nvidia.com/gpu": 2}
    assert result.message.endswith(
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_affinity_by_name_leaves_the_other_nodes_out() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    result = fit(pod(requests={GPU: "9"}, affinity=affinity(term)), [node("a"), node("b"), node("c")])
    assert dict(result.reasons) == {"Insufficient nvidia.com/gpu": 1, "node(s) didn't satisfy plugin(s) [NodeAffinity]": 2}
    assert [n.name for n in fit(pod(affinity=affinity(term)), [node("a"), node("b")]).feasible] == ["a"]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_a_pod_with_rules_about_other_pods_fits_nowhere(kind: str) -> None:
    rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    asks = pod("two", affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}})
    assert dict(fit(asks, [node("a")]).reasons) == {messages.POD_AFFINITY: 1}


def test_host_ports_and_pod_count() -> None:
    info = node("a")
    port = {"containers": [{"name": "c", "ports": [{"hostPort": 9400}]}]}
    info.add(pod("one") | {"spec": port})
    assert dict(fit(pod("two") | {"spec": port}, [info]).reasons) == {messages.PORTS: 1}
    for number in range(110):
        info.add(pod(f"p{number}"))
    assert dict(fit(pod("last"), [info]).reasons) == {messages.TOO_MANY_PODS: 1}


def test_the_least_allocated_node_wins() -> None:
    busy, idle = node("busy"), node("idle")
    busy.add(pod("holder", {GPU: "4"}))
    asked = pod(requests={GPU: "1"})
    assert best(asked, fit(asked, [busy, idle]).feasible).name == "idle"


def test_no_nodes() -> None:
    assert fit(pod(), []).message == "no nodes available to schedule pods"


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=8), st.integers(), st.none()), max_size=4))
def test_wild_requests_never_fail(requests: dict[str, Any]) -> None:
    result = fit(pod(requests=requests), [node("a")])
    assert result.total == 1
