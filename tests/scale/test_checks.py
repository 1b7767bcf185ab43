"""SCALE-01 to 03: node pools, groups of nodes, and autoscalers."""

from typing import Any

import msgspec
import pytest
import yaml

from conformance.scale.checks import check_autoscaling, check_growth, check_node_pools
from fixtures.kubernetes.models import ConfigMap, Event, Json, Node, Pod
from fixtures.model.platform.autoscalers import of_devices
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_scope, a_spec, a_workload
from tests.dra import a_claim, a_class, a_slice
from tests.tables import each_row

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
GPU = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}


def a_pool(*, taint: Json | None = None, requirements: list[Json] | None = None, **spec: Any) -> Json:
    template = {"taints": [{**TAINT, **(taint or {})}], "requirements": [GPU] if requirements is None else requirements}
    return {"metadata": {"name": "gpu"}, "spec": {"template": {"spec": template}, "limits": {"cpu": "100"}, **spec}}


@each_row
def test_one_pool(pool: dict[str, Any], outcome: Outcome, cause: str) -> None:
    (finding,) = check_node_pools(a_scope(nodes=[a_node()], nodepools=[a_pool(**pool)]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


def test_a_pool_is_known_by_its_nodes() -> None:
    scope = a_scope(nodes=[a_node(labels={"karpenter.sh/nodepool": "gpu"})], nodepools=[a_pool(requirements=[], limits={})])
    (finding,) = check_node_pools(scope)
    assert finding.cause == "NodePoolWithoutLimit"


@each_row
def test_a_pool_of_other_nodes_is_not_judged(pool: Json) -> None:
    with pytest.raises(NotApplicable):
        list(check_node_pools(a_scope(nodes=[a_node()], nodepools=[pool])))


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


METRIC = {"type": "Pods", "pods": {"metric": {"name": "DCGM_FI_DEV_GPU_UTIL"}}}
TARGET = {"kind": "Deployment", "name": "llm"}


def conditions(since: str = OLD, **reasons: str) -> list[Json]:
    """Conditions that are False for a reason, or True without one."""
    common = {"lastTransitionTime": since}
    return [{"type": kind, "status": "False" if reason else "True", "reason": reason, **common} for kind, reason in reasons.items()]


def an_hpa(*, metrics: list[Json] | None = None, status: Json | None = None, **spec: Any) -> Json:
    spec = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 4, "metrics": [METRIC] if metrics is None else metrics, **spec}
    said = {"conditions": conditions(AbleToScale="", ScalingActive=""), **(status or {})}
    return a_workload("HorizontalPodAutoscaler", "llm", spec, status=said)


@each_row
def test_one_autoscaler(autoscaler: Json, outcome: Outcome, cause: str) -> None:
    (finding,) = check_autoscaling(a_scope(horizontalpodautoscalers=[autoscaler]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


@each_row
def test_one_scaled_object(status: list[Json], created: str, outcome: Outcome, cause: str) -> None:
    spec = {"scaleTargetRef": {"name": "llm"}, "triggers": [{"type": "prometheus", "metadata": {"query": "avg(DCGM_FI_DEV_GPU_UTIL)"}}]}
    item = {"kind": "ScaledObject", "metadata": {"name": "llm", "namespace": "team-a", "creationTimestamp": created}}
    (finding,) = check_autoscaling(a_scope(scaledobjects=[{**item, "spec": spec, "status": {"conditions": status}}]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


@each_row
def test_bounds_of_keda_are_those_of_its_scaled_object(bounds: Json, outcome: Outcome, cause: str) -> None:
    """Its own autoscaler cannot go to zero, and has equal bounds where KEDA itself goes there, or is paused at a number of replicas."""
    spec = {"scaleTargetRef": {"name": "llm"}, "triggers": [{"type": "prometheus", "metadata": {"query": "gpu"}}], **bounds}
    scaled = a_workload("ScaledObject", "llm", spec, status={"conditions": [{"type": "Ready", "status": "True"}]})
    hpa = an_hpa(maxReplicas=1)
    hpa["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "llm", "controller": True}]
    first, second = check_autoscaling(a_scope(horizontalpodautoscalers=[hpa], scaledobjects=[scaled]))
    assert (first.outcome, second.outcome, second.cause) == (Outcome.OK, outcome, cause)


@pytest.mark.parametrize(("metric", "found"), [("tpu_duty", 1), ("vllm_gpu_cache", 1), ("output_tokens", 0)])
def test_metrics_of_devices_by_their_names(metric: str, found: int) -> None:
    hpa = an_hpa(metrics=[{"type": "Pods", "pods": {"metric": {"name": metric}}}])
    assert len(list(of_devices(a_scope(horizontalpodautoscalers=[hpa])))) == found


@pytest.mark.parametrize("devices", [0, 1])
def test_one_by_another_metric_is_judged_where_its_pods_ask_for_devices(devices: int) -> None:
    queue = [{"type": "External", "external": {"metric": {"name": "queue_length"}}}]
    target = a_workload("Deployment", "llm", {"template": {"spec": a_spec(devices=devices)}})
    scope = a_scope(horizontalpodautoscalers=[an_hpa(metrics=queue)], deployments=[target])
    if devices:
        assert [finding.outcome for finding in check_autoscaling(scope)] == [Outcome.OK]
    else:
        with pytest.raises(NotApplicable):
            list(check_autoscaling(scope))


@each_row
def test_metrics_that_instances_lack(metrics: list[str], devices: Json, product: str, outcome: Outcome, cause: str) -> None:
    pod = a_pod("llm-7d9f-a", devices=devices, node="gpu-0", labels={"pod-template-hash": "7d9f"}, owner="ReplicaSet/llm-7d9f")
    custom = [{"type": "Pods", "pods": {"metric": {"name": name}}} for name in metrics if name != "cpu"]
    cpu = [{"type": "Resource", "resource": {"name": name}} for name in metrics if name == "cpu"]
    triggers = [{"type": "cpu"} if name == "cpu" else {"type": "prometheus", "metadata": {"query": f"avg({name})"}} for name in metrics]
    keda = {"conditions": [{"type": "Ready", "status": "True"}]}
    scaled = a_workload("ScaledObject", "llm", {"scaleTargetRef": {"name": "llm"}, "triggers": triggers}, status=keda)
    for one in an_hpa(metrics=custom + cpu), scaled:
        kinds: dict[str, Any] = {f"{one['kind']}s".lower(): [one]}
        scope = a_scope(nodes=[a_node(product=product)], pods=[pod], **kinds)
        (finding,) = check_autoscaling(scope)
        assert (finding.outcome, finding.cause) == (outcome, cause)
