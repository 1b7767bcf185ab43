"""SHARE: time-slicing and MPS."""

from __future__ import annotations

from conformance.common_findings import unless_settling
from conformance.requirement import requirement
from conformance.share.checks import check_isolated, check_replicas
from conformance.share.probes import probe_sharing
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
