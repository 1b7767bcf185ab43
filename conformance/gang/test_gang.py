"""GANG: all-or-nothing placement."""

from __future__ import annotations

from conformance.gang.checks import check_installed, check_partial, check_used
from conformance.gang.probes import for_each_adapter, probe_competition, probe_fit, probe_misfit
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence
from fixtures.probes.workspace import Workspace


@requirement("GANG-01")
def test_a_gang_scheduler_is_installed_and_healthy(judge: Evidence, scope: Scope) -> None:
    """A gang scheduler is installed and healthy where multi-pod device jobs run."""
    judge(check_installed(scope))


@requirement("GANG-02")
def test_a_gang_that_fits_binds_all_its_pods(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A gang that fits binds all its pods."""
    judge(for_each_adapter(scope, workspace, probe_fit))


@requirement("GANG-03")
def test_a_gang_that_does_not_fit_binds_no_pod(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A gang one pod larger than what is free binds no pod."""
    judge(for_each_adapter(scope, workspace, probe_misfit))


@requirement("GANG-04")
def test_two_gangs_never_deadlock(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Two gangs that do not fit together run one after the other."""
    judge(for_each_adapter(scope, workspace, probe_competition))


@requirement("GANG-05")
def test_no_device_job_stays_partly_placed(judge: Evidence, scope: Scope, now: float) -> None:
    """No multi-pod device job stays partly placed."""
    judge(check_partial(scope, now))


@requirement("GANG-06")
def test_device_jobs_use_a_gang_scheduler(judge: Evidence, scope: Scope) -> None:
    """Multi-pod device jobs are given to a gang scheduler."""
    judge(check_used(scope))
