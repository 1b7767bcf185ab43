"""OPS-09: Argo CD and Flux."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.ops.gitops import check_deliveries
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_daemonset, a_node, a_scope
from tests.tables import each_row


def found(**world: Any) -> tuple[Outcome, str]:
    (finding,) = check_deliveries(a_scope(nodes=[a_node()], daemonsets=[a_daemonset()], **world))
    return finding.outcome, finding.cause


def an_application(sync: str, health: str, since: str = "2026-09-01T00:00:00Z", *, group: str = "nvidia.com", **spec: Any) -> Json:
    status = {"sync": {"status": sync}, "health": {"status": health, "lastTransitionTime": since}, "resources": [{"group": group}]}
    return {"metadata": {"name": "stack", "namespace": "argocd"}, "spec": {"destination": {"namespace": "x"}, **spec}, "status": status}


@each_row
def test_applications(sync: str, health: str, since: str, outcome: Outcome, cause: str) -> None:
    assert found(applications=[an_application(sync, health, since)]) == (outcome, cause)


@each_row
def test_helm_releases(ready: str, observed: int, suspend: bool, outcome: Outcome, cause: str) -> None:
    condition = {"type": "Ready", "status": ready, "reason": "r", "lastTransitionTime": "2026-09-21T14:13:00Z"}
    entries = [{"id": "_p_nvidia.com_ClusterPolicy"}]
    release = {
        "metadata": {"name": "gpu-operator", "namespace": "flux-system", "generation": 2},
        "spec": {"suspend": suspend},
        "status": {
            "observedGeneration": observed,
            "conditions": [condition],
            "inventory": {"entries": entries},
        },
    }
    assert found(helmreleases=[release]) == (outcome, cause)


def test_a_delivery_of_something_else_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        found(applications=[an_application("OutOfSync", "Degraded", group="apps")])
