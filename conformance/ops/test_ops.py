"""Operator and agents."""

from __future__ import annotations

from conformance.ops.images import check_pinned
from conformance.ops.resources import check_ready
from conformance.ops.rollout import check_rolled_out
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence


@requirement("OPS-01")
def test_the_stack_s_custom_resources_are_ready_for_a_real_reason(judge: Evidence, scope: Scope) -> None:
    """The stack's custom resources are ready, for a reason that is not an empty cluster."""
    judge(check_ready(scope))


@requirement("OPS-02")
def test_every_agent_is_rolled_out_on_every_node_that_expects_it(judge: Evidence, scope: Scope) -> None:
    """Every agent is rolled out and Ready on every node that expects it."""
    judge(check_rolled_out(scope))


@requirement("OPS-04")
def test_images_of_the_stack_are_pinned_and_the_same_on_every_node(judge: Evidence, scope: Scope) -> None:
    """Images of the stack are pinned and the same on every node."""
    judge(check_pinned(scope))
