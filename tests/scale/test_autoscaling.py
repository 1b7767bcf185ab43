"""SCALE-03: what autoscalers of pods with devices say of themselves."""

from typing import Any

import pytest

from conformance.scale.checks import check_autoscaling
from fixtures.kubernetes.models import Json
from fixtures.model.platform.autoscalers import of_devices
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_scope, a_spec, a_workload
from tests.tables import each_row

OLD = "2026-09-01T00:00:00Z"
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
