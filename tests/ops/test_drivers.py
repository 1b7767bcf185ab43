"""OPS-05: where a node's driver comes from."""

from __future__ import annotations

import pytest

from conformance.ops.drivers import check_driver_sources
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_daemonset, a_node, a_pod, a_scope
from tests.tables import each_row

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@each_row
def test_one_node(labelled: str, loaded: str, image: str, ready: bool, outcome: Outcome) -> None:
    labels = {"nvidia.com/gpu.deploy.driver": labelled, "nvidia.com/cuda.driver-version.full": loaded}
    agent = a_daemonset("nvidia-driver-daemonset", containers=[{"name": "driver", "image": image or "x"}])
    owner = f"DaemonSet/{agent.name}"
    pods = [a_pod("driver-0", agent.namespace, node="gpu-0", owner=owner, status=READY if ready else {})] if image else []
    for pod in pods:
        pod.metadata.owners[0].uid = agent.metadata.uid
    (finding,) = check_driver_sources(a_scope(nodes=[a_node(labels=labels)], daemonsets=[agent], pods=pods))
    assert finding.outcome is outcome


def test_a_driver_of_which_nothing_says_where_it_comes_from_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_driver_sources(a_scope(nodes=[a_node()])))
