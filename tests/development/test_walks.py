"""A value comes from its object to the finding through few rooms: modules of conformance/ and fixtures/ on one chain of calls."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from conformance.fence.checks import check_fenced
from conformance.req.waiting import check_waiting
from conformance.req.without_pods import check_jobs_without_pods, check_workloads
from fixtures.verdict.findings import Finding
from tests.builders import a_node, a_scope
from tests.development.check import ROOT
from tests.req.suffering import NOW
from tests.req.test_waiting import a_job, a_waiting_pod, holders, scope
from tests.req.test_workloads_without_pods import wants

MOST = 8
HOUSES = tuple(f"{ROOT / folder}/" for folder in ("conformance", "fixtures"))


def longest_walk(check: Callable[[], Iterable[Finding]]) -> list[str]:
    """The modules on the chain of calls that enters most of them, from the check to where a field is read."""
    longest: list[str] = []

    def called(frame: FrameType | None, event: str, _: Any) -> None:
        nonlocal longest
        rooms: dict[str, None] = {}
        while event == "call" and frame is not None:
            if frame.f_code.co_filename.startswith(HOUSES):
                rooms[frame.f_code.co_filename.removeprefix(f"{ROOT}/")] = None
            frame = frame.f_back
        longest = max(longest, [*rooms][::-1], key=len)

    sys.setprofile(called)
    try:
        found = list(check())
    finally:
        sys.setprofile(None)
    assert found
    return longest


CHECKS: dict[str, Callable[[], Iterable[Finding]]] = {
    "FENCE-01": lambda: check_fenced(a_scope(nodes=[a_node()])),
    "REQ-12 pods": lambda: check_waiting(scope(a_waiting_pod(reported="0/1 nodes are available: 1 Insufficient cpu."), holders(6)), NOW),
    "REQ-12 jobs": lambda: check_jobs_without_pods(scope(batch__jobs=[a_job()]), NOW),
    "REQ-12 workloads": lambda: check_workloads(scope(apps__deployments=[wants("Deployment")]), NOW),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_value_walks_through_few_rooms(check: str) -> None:
    walk = longest_walk(CHECKS[check])
    assert len(walk) <= MOST, f"{check}: {' > '.join(walk)}"
