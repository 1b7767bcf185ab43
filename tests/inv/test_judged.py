from __future__ import annotations

from typing import Any

import pytest

from conformance.inv.judged import check_judged
from conformance.reach import busy, foreign_taints
from fixtures.evidence import Finding, Outcome
from tests.builders import FENCE, a_cpu_node, a_node, a_pod, a_policy, a_scope


def only(**kwargs: Any) -> Finding:
    (finding,) = check_judged(a_scope(**kwargs))
    return finding


def test_a_ready_node_is_judged_and_cpu_nodes_are_no_subject() -> None:
    assert only(nodes=[a_node(), a_cpu_node()]).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("node", "word"),
    [
        (a_node(cordoned=True), "cordoned"),
        (a_node(ready=False), "NotReady"),
        (a_node(taints=[FENCE, "maintenance=disk:NoSchedule"]), "tainted away by maintenance=disk:NoSchedule"),
        (a_node(taints=[FENCE, "amd-gpu-unhealthy:NoExecute"]), "tainted away"),
    ],
)
def test_nodes_out_of_reach_make_the_run_incomplete(node: object, word: str) -> None:
    finding = only(nodes=[node])
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


def test_the_policy_may_allow_them() -> None:
    policy = a_policy(accelerators={"allowNotJudged": ["gpu-*"]})
    (finding,) = check_judged(a_scope(policy, nodes=[a_node(cordoned=True)]))
    assert finding.outcome is Outcome.NOT_JUDGED


def test_tolerated_and_soft_taints_keep_nobody_away() -> None:
    node = a_node(taints=[FENCE, "team=ml:NoSchedule", "slow:PreferNoSchedule"])
    policy = a_policy(probes={"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert foreign_taints(a_scope(policy, nodes=[node]), node) == []
    assert foreign_taints(a_scope(nodes=[node]), node) == ["team=ml:NoSchedule"]


def test_a_busy_node_is_listed_with_what_is_held() -> None:
    full = a_pod(devices=8, node="gpu-0")
    finding = only(nodes=[a_node()], pods=[full])
    assert finding.outcome is Outcome.NOT_JUDGED
    assert "nvidia.com/gpu 8 of 8" in finding.message
    (strict,) = check_judged(a_scope(a_policy(accelerators={"allowBusy": False}), nodes=[a_node()], pods=[full]))
    assert strict.outcome is Outcome.BAD


def test_one_free_device_of_any_resource_is_not_busy() -> None:
    node = a_node(capacity={"nvidia.com/mig-1g.10gb": "7"})
    scope = a_scope(nodes=[node], pods=[a_pod(devices=8, node="gpu-0"), a_pod("done", devices=8, node="gpu-0", phase="Succeeded")])
    assert busy(scope, node) == ""
