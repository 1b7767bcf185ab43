"""SHARE: time-slicing and MPS."""

from __future__ import annotations

from conformance.requirement import requirement
from conformance.scope import Scope
from conformance.share.checks import check_isolated, check_replicas
from conformance.share.probes import probe_sharing
from fixtures.evidence import Evidence
from fixtures.probes.workspace import Workspace


@requirement("SHARE-01")
def test_shared_units_are_devices_times_replicas(judge: Evidence, scope: Scope) -> None:
    """Shared units are devices × replicas, and labels and names tell of the same sharing."""
    judge(check_replicas(scope))


@requirement("SHARE-02")
def test_isolated_tenants_share_no_device(judge: Evidence, scope: Scope) -> None:
    """No isolated tenant runs on a shared device, and no device is shared more often than the policy allows."""
    judge(check_isolated(scope))


@requirement("SHARE-03")
def test_replicas_of_one_device_run_together(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """As many pods as there are replicas run together on one device, and one more stays Pending."""
    judge(probe_sharing(scope, workspace))
