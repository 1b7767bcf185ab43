"""OBS: metrics and events."""

from __future__ import annotations

import pytest

from conformance.devices.held_nodes import maybe_held
from conformance.obs.node_words import check_heard
from conformance.obs.probes import probe_unplaced
from conformance.requirement import requirement
from conformance.scope.scope import Scope
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.managed_fields import fields_of
from fixtures.verdict.findings import Evidence


@requirement("OBS-06", devices=1)
def test_a_device_pod_that_cannot_be_placed_gets_an_event(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A device pod that cannot be placed gets a FailedScheduling event that names the reason."""
    judge(probe_unplaced(scope, workspace))


@requirement("OBS-10")
def test_what_the_platform_says_of_its_nodes_is_heard(judge: Evidence, scope: Scope, request: pytest.FixtureRequest) -> None:
    """No condition or label of an accelerator node reports a fault."""
    judge(check_heard(scope, fields_of(scope.snapshot, maybe_held(scope), lambda: request.getfixturevalue("cluster"))))
