"""SHARE: time-slicing and MPS."""

from conformance.common_findings import unless_settling
from conformance.requirement import requirement
from conformance.share.checks import check_isolated, check_mps, check_replicas
from conformance.share.probes import probe_several, probe_sharing
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("SHARE-01")
def test_shared_units_are_devices_times_replicas(judge: Evidence, scope: Scope) -> None:
    """A node advertises devices × replicas shared units, and its labels, product suffix and resource name agree."""
    judge(unless_settling(scope, check_replicas(scope)))


@requirement("SHARE-02")
def test_isolated_tenants_share_no_device(judge: Evidence, scope: Scope) -> None:
    """No isolated tenant runs on a shared device, and no node shares a device more often than the policy allows."""
    judge(check_isolated(scope))


@requirement("SHARE-03")
def test_replicas_of_one_device_run_together(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """As many pods as there are replicas run together on one device, and one more stays Pending."""
    judge(probe_sharing(scope, workspace))


@requirement("SHARE-04", devices=3)
def test_a_request_for_two_shared_units_is_refused_where_the_plugin_is_told_so(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A request for two shared units is refused where the plugin is configured to refuse it."""
    judge(probe_several(scope, workspace))


@requirement("SHARE-05")
def test_the_control_daemon_of_mps_is_ready_where_devices_are_shared_by_it(judge: Evidence, scope: Scope) -> None:
    """The control daemon of MPS is Ready on every node that shares its devices by MPS."""
    judge(unless_settling(scope, check_mps(scope)))
