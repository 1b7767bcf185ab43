"""Requests, limits and quantities of devices."""

from __future__ import annotations

from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted, check_whole_devices
from conformance.req.claim_probe import ask_claims, judge_claims
from conformance.req.quantity_probe import ask_quantities, counted_resource, judge_quantities
from conformance.req.quota_probe import ask_quota, judge_quota
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence
from fixtures.probes.claims import BY_CLASS
from fixtures.probes.workspace import Workspace


@requirement("REQ-01")
def test_the_api_refuses_malformed_device_amounts_and_copies_limits(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """The API refuses malformed device amounts and copies limits to requests."""
    resource = counted_resource(scope)
    if resource.startswith(BY_CLASS):
        judge(judge_claims(resource, ask_claims(workspace, resource)))
    else:
        judge(judge_quantities(ask_quantities(workspace, scope)))


@requirement("REQ-02")
def test_every_template_asks_whole_devices_with_request_equal_to_limit(judge: Evidence, scope: Scope) -> None:
    """Every pod template and pod asks whole devices with request equal to limit."""
    judge(check_whole_devices(scope))


@requirement("REQ-03")
def test_no_node_has_more_devices_held_than_allocatable(judge: Evidence, scope: Scope) -> None:
    """On every node and resource, bound pods hold at most what is allocatable."""
    judge(check_not_overcommitted(scope))


@requirement("REQ-04")
def test_every_pending_pod_asks_for_devices_some_node_could_offer(judge: Evidence, scope: Scope) -> None:
    """Every pending pod asks for devices that some node could offer."""
    judge(check_can_be_offered(scope))


@requirement("REQ-05")
def test_only_approved_device_names_are_in_use(judge: Evidence, scope: Scope) -> None:
    """Only approved device resource names are in use."""
    judge(check_approved_names(scope))


@requirement("REQ-07")
def test_a_quota_on_devices_is_enforced(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A quota on devices is enforced."""
    judge(judge_quota(ask_quota(workspace, scope)))
