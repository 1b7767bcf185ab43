"""Every healthy scenario stays green, and every defect of these areas turns exactly its read requirements red."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from conformance.fence.checks import check_agents_reach, check_aimed, check_blanket_tolerations, check_fenced, check_intruders
from conformance.inv.agreement import check_agreement
from conformance.inv.judged import check_judged
from conformance.ops.images import check_pinned
from conformance.ops.resources import check_ready
from conformance.ops.rollout import check_rolled_out
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted, check_whole_devices
from conformance.scope import Scope
from fixtures.evidence import Finding
from fixtures.record import Verdict
from fixtures.simulator.scenario import defect_names, load_defect, load_scenario, scenario_names
from tests.requirements_offline import scope_of, verdict

CHECKS: dict[str, Callable[[Scope], Iterator[Finding]]] = {
    "INV-01": check_agreement,
    "INV-02": check_judged,
    "FENCE-01": check_fenced,
    "FENCE-02": check_intruders,
    "FENCE-03": check_blanket_tolerations,
    "FENCE-04": check_agents_reach,
    "FENCE-08": check_aimed,
    "REQ-02": check_whole_devices,
    "REQ-03": check_not_overcommitted,
    "REQ-04": check_can_be_offered,
    "REQ-05": check_approved_names,
    "OPS-01": check_ready,
    "OPS-02": check_rolled_out,
    "OPS-04": check_pinned,
}
CALM = (Verdict.PASSED, Verdict.WAIVED, Verdict.NOT_APPLICABLE)
"""No alarm. INV-02 is waived where nodes are busy, as the default policy allows."""

OWN = [name for name in defect_names() if name.startswith(("inv-", "fence-", "req-", "ops-"))]


def red(scope: Scope) -> dict[str, str]:
    """Requirements that failed or could not be judged, with their messages."""
    found = {id_: verdict(lambda check=check: check(scope)) for id_, check in CHECKS.items()}  # type: ignore[misc]
    return {id_: message for id_, (result, message) in found.items() if result not in CALM}


@pytest.mark.parametrize("name", scenario_names())
def test_healthy_scenarios_raise_no_alarm(name: str) -> None:
    assert red(scope_of(load_scenario(name))) == {}


@pytest.mark.parametrize("name", OWN)
def test_defects_trip_what_they_say(name: str) -> None:
    defect = load_defect(name)
    found = red(scope_of(load_scenario(defect.scenario), [defect]))
    assert sorted(found) == sorted(set(defect.trips) & set(CHECKS)), found


def test_every_read_requirement_has_a_defect() -> None:
    assert set(CHECKS) <= {id_ for name in OWN for id_ in load_defect(name).trips}
