"""OBS: metrics and events."""

from __future__ import annotations

from conformance.obs.probes import probe_unplaced
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.evidence import Evidence
from fixtures.probes.workspace import Workspace


@requirement("OBS-06")
def test_a_device_pod_that_cannot_be_placed_gets_an_event(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A device pod that cannot be placed gets a FailedScheduling event that names the reason."""
    judge(probe_unplaced(scope, workspace))
