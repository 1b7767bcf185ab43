"""UPG-02: budgets beside drains of accelerator nodes."""

from typing import Any

import pytest

from conformance.upg.checks import check_drains
from fixtures.kubernetes.models import Json, Pod
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope
from tests.findings import by_name, causes
from tests.tables import each_row


def a_budget(
    name: str = "web", *, allowed: int = 1, healthy: int = 2, desired: int = 1, owner: str = "", refused: str = "", **spec: Any
) -> Json:
    conditions = [{"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": refused}] if refused else []
    counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": 2}
    owners = [{"kind": owner, "name": "vm"}] if owner else []
    return {
        "metadata": {"name": name, "namespace": "team-a", "generation": 1, "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {**counts, "observedGeneration": 1, "conditions": conditions},
    }


def a_web(name: str = "web-0", node: str = "gpu-0", **more: Any) -> Pod:
    return a_pod(name, node=node, labels={"app": "web"}, **more)


@each_row
def test_one_budget(budget: dict[str, Any], outcome: Outcome, cause: str) -> None:
    (finding,) = check_drains(a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=[a_budget(**budget)]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


def test_a_controller_that_acts_on_drains_by_itself_is_known_by_its_pods() -> None:
    budget = a_budget(minAvailable=1, allowed=0, desired=2)
    of_longhorn = a_scope(nodes=[a_node()], pods=[a_web(owner="InstanceManager/im-0")], poddisruptionbudgets=[budget])
    mixed = a_scope(nodes=[a_node()], pods=[a_web(owner="InstanceManager/im-0"), a_web("web-1")], poddisruptionbudgets=[budget])
    assert [one.outcome for scope in (of_longhorn, mixed) for one in check_drains(scope)] == [Outcome.NOT_JUDGED, Outcome.BAD]


@pytest.mark.parametrize(("instances", "outcome"), [(1, Outcome.BAD), (2, Outcome.NOT_JUDGED)])
def test_a_database_moves_its_primary_to_another_instance_where_it_has_one(instances: int, outcome: Outcome) -> None:
    budget = a_budget(
        "db-primary", minAvailable=1, allowed=0, healthy=1, desired=1, selector={"matchLabels": {"cnpg.io/instanceRole": "primary"}}
    )
    budget["metadata"]["ownerReferences"] = [{"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db"}]
    budget["status"]["expectedPods"] = 1
    roles = ["primary", "replica"][:instances]
    pods = [a_pod(f"db-{role}", node="gpu-0", labels={"cnpg.io/cluster": "db", "cnpg.io/instanceRole": role}) for role in roles]
    (finding,) = check_drains(a_scope(nodes=[a_node()], pods=pods, poddisruptionbudgets=[budget]))
    assert finding.outcome is outcome


def test_a_pod_with_two_budgets_is_never_evicted() -> None:
    budgets = [a_budget("a"), a_budget("b", selector={})]
    found = list(check_drains(a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=budgets)))
    assert causes(found) == {"a": "TwoBudgets", "b": "TwoBudgets"}


@each_row
def test_what_no_drain_of_an_accelerator_node_evicts_is_not_judged(pod: Pod) -> None:
    scope = a_scope(nodes=[a_node(), a_cpu_node()], pods=[pod], poddisruptionbudgets=[a_budget(maxUnavailable=0)])
    with pytest.raises(NotApplicable):
        list(check_drains(scope))


def test_a_budget_without_a_selector_guards_nothing() -> None:
    scope = a_scope(nodes=[a_node()], pods=[a_web()], poddisruptionbudgets=[a_budget(), a_budget("none", maxUnavailable=0, selector=None)])
    assert by_name(check_drains(scope)) == {"web": Outcome.OK}
