"""PLAT-05: namespaces in their deletion."""

import pytest

from conformance.plat.checks import check_namespaces
from fixtures.kubernetes.models import Namespace
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_namespace, a_node, a_pod, a_scope
from tests.findings import messages
from tests.tables import each_row


def a_going(since: str, kind: str = "", message: str = "") -> Namespace:
    made = a_namespace("team-a")
    made.metadata.deletion_timestamp = since or None
    made.status = {"phase": "Terminating", "conditions": [{"type": kind, "status": "True", "message": message}] if kind else []}
    return made


@each_row
def test_a_namespace_with_devices(since: str, kind: str, message: str, outcome: Outcome, cause: str) -> None:
    scope = a_scope(nodes=[a_node()], pods=[a_pod(devices=1, node="gpu-0")], namespaces=[a_going(since, kind, message)])
    (finding,) = found = list(check_namespaces(scope))
    assert (finding.outcome, finding.cause) == (outcome, cause)
    if outcome is Outcome.BAD:
        assert message in messages(found)


def test_one_that_only_an_object_of_the_stack_keeps_is_named() -> None:
    message = "Some resources are remaining: rayclusters.ray.io has 1 resource instances"
    kept = a_going("2026-09-20T00:00:00Z", "NamespaceContentRemaining", message)
    (finding,) = check_namespaces(a_scope(nodes=[a_node()], namespaces=[kept]))
    assert finding.cause == "NamespaceStuck"


def test_one_that_has_nothing_to_do_with_devices_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_namespaces(a_scope(nodes=[a_node()], namespaces=[a_going("2026-09-20T00:00:00Z")])))
