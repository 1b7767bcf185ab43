"""SCALE-01: NodePools of Karpenter."""

from typing import Any

import pytest

from conformance.scale.checks import check_node_pools
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_scope
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
