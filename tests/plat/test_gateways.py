"""PLAT-02: the way of requests to models."""

from typing import Any

import pytest

from conformance.plat.checks import check_gateways
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_scope
from tests.findings import by_name, causes
from tests.tables import each_row

OLD, NEW = "2026-09-01T00:00:00Z", "2026-09-21T14:13:00Z"


def conditions(since: str = OLD, **states: str) -> list[Json]:
    return [{"type": kind, "status": state, "lastTransitionTime": since} for kind, state in states.items()]


def world(
    *, parent: Json | None = None, pool: list[Json] | None = None, gateway: list[Json] | None = None, named: str = "g"
) -> dict[str, Any]:
    of_pool = pool if pool is not None else conditions(Accepted="True", ResolvedRefs="True")
    shown = {"conditions": gateway if gateway is not None else conditions(Accepted="True", Programmed="True")}
    parents = [{"parentRef": parent or {"name": named}, "conditions": of_pool}]
    return {
        "inferencepools": [{"metadata": {"name": "models", "namespace": "a"}, "status": {"parents": parents}}],
        "gateways": [{"metadata": {"name": "g", "namespace": "a"}, "spec": {"gatewayClassName": "c"}, "status": shown}],
        "gatewayclasses": [{"metadata": {"name": "c"}, "status": {"conditions": conditions(Accepted="True")}}],
    }


@each_row
def test_what_is_on_the_way(changed: dict[str, Any], name: str, outcome: Outcome) -> None:
    found = list(check_gateways(a_scope(**world(**changed))))
    assert by_name(found)[name] is outcome
    assert set(causes(found).values()) <= {"GatewayNotProgrammed", "ChangeUnderWay"}


@pytest.mark.parametrize("changed", [{"parent": {"kind": "Status", "name": "default"}}], ids=["a pool that no Gateway leads to"])
def test_without_a_gateway_there_is_nothing_to_judge(changed: dict[str, Any]) -> None:
    with pytest.raises(NotApplicable):
        list(check_gateways(a_scope(**world(**changed))))
