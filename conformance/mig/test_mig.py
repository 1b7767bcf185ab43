"""MIG: Multi-Instance GPU."""

from __future__ import annotations

import pytest

from conformance.mig.applied import check_applied
from conformance.mig.checks import check_geometry, check_mixed, check_off, check_single
from conformance.mig.probes import probe_slices
from conformance.mig.state import ask_since, changing, check_state, saved_since
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence
from fixtures.probes.workspace import Workspace


@requirement("MIG-01")
def test_requested_mig_configs_are_applied(judge: Evidence, scope: Scope, now: float, request: pytest.FixtureRequest) -> None:
    """The requested MIG configuration is applied, and no change of it is stuck."""
    nodes = changing(scope)
    since = saved_since(scope, nodes)
    if nodes and not scope.snapshot.offline:  # only then is a cluster needed
        since = ask_since(request.getfixturevalue("cluster"), nodes)
    judge(check_state(scope, now, since))


@requirement("MIG-02")
def test_strategy_single_offers_one_profile(judge: Evidence, scope: Scope) -> None:
    """Under strategy single all devices have one profile, which the product label and the count say."""
    judge(check_single(scope))


@requirement("MIG-03")
def test_strategy_mixed_offers_profiles_of_the_product(judge: Evidence, scope: Scope) -> None:
    """Under strategy mixed every MIG resource is a profile of the product in the right number."""
    judge(check_mixed(scope))


@requirement("MIG-04")
def test_the_geometry_is_possible(judge: Evidence, scope: Scope) -> None:
    """The instances of a node fit on its devices."""
    judge(check_geometry(scope))


@requirement("MIG-05")
def test_the_applied_layout_is_the_requested_one(judge: Evidence, scope: Scope) -> None:
    """The layout on the devices is the one that mig.config asks for."""
    judge(check_applied(scope))


@requirement("MIG-06")
def test_no_mig_resource_where_mig_is_off(judge: Evidence, scope: Scope) -> None:
    """Where MIG is off no MIG resource is left."""
    judge(check_off(scope))


@requirement("MIG-07")
def test_a_pod_gets_the_slice_it_asked_for(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod that asks for one slice sees exactly that slice, and a profile that nobody offers is not given out."""
    judge(probe_slices(scope, workspace))
