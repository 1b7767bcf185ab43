"""What the real controller manager writes into HorizontalPodAutoscalers that cannot scale, and what SCALE-03 finds there."""

import time
from typing import Any

import pytest

from conformance.scale.checks import check_autoscaling
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.model.cluster import Scope
from fixtures.snapshot.collect import collect
from tests.builders import a_policy

pytestmark = [pytest.mark.xdist_group("accounts"), pytest.mark.test_all]

KEY, NAMESPACE = "autoscaling/horizontalpodautoscalers", "autoscaled"
AWAITED = {
    "no-metric": "FailedGetPodsMetric",
    "no-target": "FailedGetScale",
    "first": "AmbiguousSelector",  # once it has met the pods of its target
    "second": "AmbiguousSelector",
}
METRIC = {"type": "Pods", "pods": {"metric": {"name": "DCGM_FI_DEV_GPU_UTIL"}, "target": {"type": "AverageValue", "averageValue": "80"}}}


def an_hpa(name: str, target: str, **spec: Any) -> dict[str, Any]:
    scaled = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}, "maxReplicas": 4, "metrics": [METRIC]}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": {**scaled, **spec}}


def a_deployment(name: str, app: str) -> dict[str, Any]:
    labels = {"app": app, "name": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "registry.example.com/model:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_what_the_real_controller_writes_is_found(plane: ControlPlane) -> None:
    admin = Cluster.from_kubeconfig(plane.kubeconfig)
    assert admin.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).status == 201
    try:
        for name in ("lonely", "twice"):
            assert admin.create("apps/deployments", a_deployment(name, name), namespace=NAMESPACE).status == 201
        for one in (an_hpa("no-metric", "lonely"), an_hpa("no-target", "gone"), an_hpa("first", "twice"), an_hpa("second", "twice")):
            assert admin.create(KEY, one, namespace=NAMESPACE).status == 201
        with Observation(admin, KEY, NAMESPACE) as autoscalers:
            for seen in autoscalers.until(time.monotonic() + 90):
                reasons = {
                    name.partition("/")[2]: {one.get("reason") for one in (item.get("status") or {}).get("conditions") or ()}
                    for name, item in seen.items()
                }
                if all(reason in reasons.get(name, ()) for name, reason in AWAITED.items()):
                    break
        snapshot = collect(admin, [KEY], version="")
        found = check_autoscaling(Scope(snapshot, a_policy(requests={"pendingMinutes": 0})))
        assert {one.subject.name: one.cause for one in found} == {
            "no-metric": "AutoscalerWithoutMetric",
            "no-target": "AutoscalerUnable",
            "first": "AutoscalersOverlap",
            "second": "AutoscalersOverlap",
        }
    finally:
        assert admin.delete("namespaces", NAMESPACE).ok
