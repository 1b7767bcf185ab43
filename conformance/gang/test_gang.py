"""GANG: all-or-nothing placement."""

from conformance.gang.checks import check_held, check_installed, check_partial, check_queues_admit, check_quota_exists, check_used
from conformance.gang.kueue_whole import probe_admission
from conformance.gang.lost_member import probe_lost_member
from conformance.gang.probes import for_each_adapter, probe_competition, probe_fit, probe_misfits
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("GANG-01")
def test_a_gang_scheduler_is_installed_and_healthy(judge: Evidence, scope: Scope, may_probe: bool) -> None:
    """A gang scheduler is installed and healthy where multi-pod device jobs run."""
    judge(check_installed(scope, may_probe=may_probe))


@requirement("GANG-02")
def test_a_gang_that_fits_binds_all_its_pods(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A gang that fits binds all its pods within the window."""
    judge(for_each_adapter(scope, workspace, probe_fit))


@requirement("GANG-03")
def test_a_gang_that_does_not_fit_binds_no_pod(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A gang that is one pod too large for the free devices binds no pod during the watched window."""
    judge(probe_misfits(scope, workspace))


@requirement("GANG-04")
def test_two_gangs_never_deadlock(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Two gangs that do not fit together run one after the other and never deadlock."""
    judge(for_each_adapter(scope, workspace, probe_competition))


@requirement("GANG-05")
def test_no_device_job_stays_partly_placed(judge: Evidence, scope: Scope, now: float) -> None:
    """No multi-pod device job stays partly placed longer than the policy allows."""
    judge(check_partial(scope, now))


@requirement("GANG-06")
def test_device_jobs_use_a_gang_scheduler(judge: Evidence, scope: Scope) -> None:
    """Multi-pod device jobs are given to a gang scheduler."""
    judge(check_used(scope))


@requirement("GANG-07")
def test_a_queue_of_kueue_admits_whole_workloads_only(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A queue of Kueue admits whole workloads only."""
    judge(probe_admission(scope, workspace))


@requirement("GANG-08")
def test_a_gang_that_lost_a_member_starts_again_or_gives_all_back(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A gang that lost a member starts again or gives all of its devices back."""
    judge(probe_lost_member(scope, workspace))


@requirement("GANG-09")
def test_the_quota_of_a_queue_is_there_on_its_nodes(judge: Evidence, scope: Scope) -> None:
    """The nodes that a queue selects have as many devices as its nominal quota."""
    judge(check_quota_exists(scope))


@requirement("GANG-10")
def test_reserved_quota_is_held_by_live_pods(judge: Evidence, scope: Scope, now: float) -> None:
    """Reserved quota of devices is held by live pods."""
    judge(check_held(scope, now))


@requirement("GANG-11")
def test_queues_with_device_work_can_admit_it(judge: Evidence, scope: Scope, now: float) -> None:
    """Queues with device work can admit it, and no workload is admitted and evicted again and again."""
    judge(check_queues_admit(scope, now))
