"""Pods of a watch: what did not change is not decoded again."""

from __future__ import annotations

import pytest

from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.probes.watched_pods import WatchedPods


def a_pod(name: str, node: str = "") -> Json:
    return {"metadata": {"name": name, "namespace": "run"}, "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Pending"}}


def test_only_a_pod_that_an_event_replaced_is_decoded_again() -> None:
    objects = {f"run/{name}": a_pod(name) for name in ("first", "second")}
    pods = WatchedPods()
    before = pods.among(objects, objects)
    objects["run/second"] = a_pod("second", node="gpu-1")
    after = pods.among(objects, objects)
    assert after["run/first"] is before["run/first"]
    assert [pod.spec.node_name for pod in after.values()] == ["", "gpu-1"]


def test_what_is_no_pod_is_trouble() -> None:
    with pytest.raises(ApiTrouble, match="pod: "):
        WatchedPods().among({"run/first": {"metadata": {"name": "first"}, "spec": "none"}}, ["run/first"])
