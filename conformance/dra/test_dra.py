"""Devices by claim (dynamic resource allocation)."""

from functools import partial

import pytest

from conformance.common_findings import unless_settling
from conformance.dra.admin_access import ask_admin_access, check_labelled_tenants, judge_admin_access
from conformance.dra.claim_life import probe_claims
from conformance.dra.claims import check_allocations, check_reserved
from conformance.dra.classes import check_extended, check_served, compiled, not_asked
from conformance.dra.devices import check_devices
from conformance.dra.domains import check_domains
from conformance.dra.exclusive_claims import probe_exclusive
from conformance.dra.pools import check_pools, check_taints
from conformance.requirement import Asks, requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("DRA-01")
def test_the_api_for_claims_is_served_and_classes_compile(
    judge: Evidence, scope: Scope, may_ask: bool, asks: Asks, request: pytest.FixtureRequest
) -> None:
    """The API for claims is served in its newest version, and DeviceClasses exist with selectors that compile."""
    judge(check_served(scope, partial(compiled, asks, partial(request.getfixturevalue, "workspace")) if may_ask else not_asked))


@requirement("DRA-02")
def test_every_pool_is_complete_and_its_driver_alive(judge: Evidence, scope: Scope) -> None:
    """Every pool of devices is complete, and a pod of its driver lives on its node."""
    judge(unless_settling(scope, check_pools(scope)))


@requirement("DRA-03")
def test_published_devices_are_those_that_exist(judge: Evidence, scope: Scope) -> None:
    """Nodes publish the devices that they have, each once, with the attributes of its peers."""
    judge(unless_settling(scope, check_devices(scope)))


@requirement("DRA-04")
def test_no_device_taint_is_stale(judge: Evidence, scope: Scope, now: float) -> None:
    """No device taint is stale, no claim gets a tainted device, and pods that a taint evicts end."""
    judge(check_taints(scope, now))


@requirement("DRA-05", devices=1)
def test_a_claim_is_allocated_prepared_seen_and_released(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A claim of a template is allocated, prepared and released, and its pod sees the allocated device."""
    judge(probe_claims(scope, workspace))


@requirement("DRA-06", devices=2)
def test_exclusive_claims_are_given_different_devices(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Two claims are given two devices, and a claim whose selector no device meets is given none."""
    judge(probe_exclusive(scope, workspace))


@requirement("DRA-07")
def test_claims_are_reserved_for_pods_that_exist(judge: Evidence, scope: Scope, now: float) -> None:
    """Allocated claims are reserved for pods that exist, and are released after them."""
    judge(check_reserved(scope, now))


@requirement("DRA-08")
def test_admin_access_is_refused_outside_labelled_namespaces(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Admin access to devices is refused outside labelled namespaces, and no tenant's namespace has the label."""
    judge(judge_admin_access(ask_admin_access(workspace, scope)))
    judge(check_labelled_tenants(scope))


@requirement("DRA-09")
def test_compute_domains_are_ready(judge: Evidence, scope: Scope, now: float) -> None:
    """ComputeDomains are Ready, and their nodes are those of their NVLink clique."""
    judge(check_domains(scope, now))


@requirement("DRA-10")
def test_extended_resources_of_classes_have_devices(judge: Evidence, scope: Scope) -> None:
    """An extended resource that a DeviceClass serves has devices, and each pod that asks for it holds as many."""
    judge(check_extended(scope))


@requirement("DRA-11")
def test_allocated_devices_exist_and_are_given_once(judge: Evidence, scope: Scope, now: float) -> None:
    """Allocated claims name devices that exist, and no device is in two claims that do not share it."""
    judge(check_allocations(scope, now))
