"""SCALE-02: what autoscalers say of their groups."""

from typing import Any

import msgspec
import pytest
import yaml

from conformance.scale.checks import check_growth
from fixtures.kubernetes.models import ConfigMap, Event, Json, Node, Pod
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_scope
from tests.dra import a_claim, a_class, a_slice
from tests.tables import each_row

OLD = "2026-09-01T00:00:00Z"


def a_group(name: str = "gpu", *, least: int = 0, most: int = 4, health: Json | None = None, growth: Json | None = None) -> Json:
    common = {"status": "Healthy", "minSize": least, "maxSize": most, "lastTransitionTime": OLD}
    return {"name": name, "health": {**common, **(health or {})}, "scaleUp": {"status": "NoActivity", **(growth or {})}}


def a_status(groups: list[Json] | str) -> ConfigMap:
    text = groups if isinstance(groups, str) else yaml.safe_dump({"autoscalerStatus": "Running", "nodeGroups": groups})
    meta = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    return msgspec.convert({"metadata": meta, "data": {"status": text}}, ConfigMap)


@each_row
def test_groups(groups: list[Json] | str, found: dict[str, str]) -> None:
    scope = a_scope(nodes=[a_node("gpu-0")], configmaps=[a_status(groups)])
    assert {one.subject.name: f"{one.outcome} {one.cause}".strip() for one in check_growth(scope)} == found


@each_row
def test_nodes_of_a_group(group: str, node: Node, found: int) -> None:
    scope = a_scope(nodes=[node], configmaps=[a_status([a_group(group)])])
    assert len([one for one in check_growth(scope) if one.subject.kind == "NodeGroup"]) == found


@each_row
def test_nodes_that_keep_an_autoscaler_from_its_work(
    node: dict[str, Any], annotations: dict[str, str], pods: list[Pod], cause: str
) -> None:
    one = a_node("x", **node)
    one.metadata.annotations, one.metadata.creation_timestamp = annotations, OLD
    scope = a_scope(nodes=[one], pods=pods, configmaps=[a_status([])])
    assert [found.cause for found in check_growth(scope)] == [cause] * bool(cause)


@each_row
def test_a_label_on_a_node_with_devices_for_claims(labels: dict[str, str], devices: int, found: str) -> None:
    one = a_node("x", gpus=0, labels=labels)
    one.metadata.creation_timestamp = OLD
    scope = a_scope(nodes=[one], configmaps=[a_status([])], resourceslices=[a_slice("x", devices=devices)])
    assert " ".join(f"{one.outcome} {one.cause}" for one in check_growth(scope)) == found


def test_a_node_whose_devices_claims_hold_is_not_idle() -> None:
    one = a_node("x", gpus=0)
    one.metadata.annotations = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    claims = [a_claim("whole", device="gpu-0", pool="x")]
    pods = [a_pod("train", node="x", resourceClaims=[{"name": "gpu", "resourceClaimName": "whole"}])]
    more: dict[str, Any] = {"configmaps": [a_status([])], "resourceslices": [a_slice("x")], "deviceclasses": [a_class()]}
    assert [found.cause for found in check_growth(a_scope(nodes=[one], pods=pods, resourceclaims=claims, **more))] == []
    assert [found.cause for found in check_growth(a_scope(nodes=[one], resourceclaims=[], **more))] == ["IdleNodeKept"]


@each_row
def test_pods_that_no_node_is_bought_for(groups: list[str], devices: int, words: str, outcome: str) -> None:
    pod = a_pod("train", devices=devices)
    about = {"kind": "Pod", "name": "train", "namespace": pod.namespace, "uid": pod.metadata.uid}
    event = {"metadata": {"name": "e", "namespace": pod.namespace}, "type": "Normal", "reason": "NotTriggerScaleUp", "message": words}
    events = [msgspec.convert({**event, "involvedObject": about}, Event)]
    status = a_status([a_group(name) for name in groups])
    scope = a_scope(nodes=[a_node("x")], pods=[pod], events=events, configmaps=[status])
    assert [str(one.outcome) for one in check_growth(scope) if one.subject.kind == "Pod"] == [outcome] * bool(outcome)


@pytest.mark.parametrize(
    ("status", "outcome"), [("True", Outcome.OK), ("False", Outcome.BAD), ("Unknown", Outcome.NOT_JUDGED), ("", Outcome.NOT_JUDGED)]
)
def test_a_node_pool_that_is_not_ready(status: str, outcome: Outcome) -> None:
    conditions = [{"type": "Ready", "status": status, "reason": "NodeClassNotReady", "lastTransitionTime": OLD}]
    spec = {"template": {"spec": {}}, "limits": {"nvidia.com/gpu": "8"}}
    pool = {"metadata": {"name": "gpu"}, "spec": spec, "status": {"conditions": conditions if status else []}}
    (finding,) = check_growth(a_scope(nodes=[a_node()], nodepools=[pool]))
    assert finding.outcome is outcome


def test_without_an_autoscaler_there_is_nothing_to_judge() -> None:
    with pytest.raises(NotApplicable):
        list(check_growth(a_scope(nodes=[a_node()])))
