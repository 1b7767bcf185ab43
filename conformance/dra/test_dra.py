"""Devices by claim (dynamic resource allocation)."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.dra.admin_access import ask_admin_access, check_labelled_tenants, judge_admin_access
from conformance.dra.extended_resources import check_extended
from conformance.dra.selector_probe import ask_selectors, not_asked
from conformance.dra.served import check_served
from conformance.requirement import requirement
from conformance.scope.scope import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("DRA-01")
def test_the_api_for_claims_is_served_and_classes_compile(
    judge: Evidence, scope: Scope, may_ask: bool, request: pytest.FixtureRequest
) -> None:
    """The API for claims is served in its newest version, and DeviceClasses exist with selectors that compile."""
    judge(check_served(scope, partial(ask_selectors, request.getfixturevalue("cluster")) if may_ask else not_asked))


@requirement("DRA-08")
def test_admin_access_is_refused_outside_labelled_namespaces(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Admin access to devices is refused outside namespaces labelled for it, and no tenant's namespace is."""
    judge(judge_admin_access(ask_admin_access(workspace, scope)))
    judge(check_labelled_tenants(scope))


@requirement("DRA-10")
def test_extended_resources_of_classes_have_devices(judge: Evidence, scope: Scope) -> None:
    """An extended resource that a DeviceClass serves has devices, and each pod that asks for it holds as many."""
    judge(check_extended(scope))
