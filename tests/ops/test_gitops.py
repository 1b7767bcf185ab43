"""OPS-09: Argo CD and Flux."""

from typing import Any

import pytest

from conformance.ops.api_objects import check_deliveries
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
def test_versions_of_sources(source: Json, outcome: Outcome, cause: str) -> None:
    assert found(applications=[an_application("Synced", "Healthy", source=source)]) == (outcome, cause)
    several = [{"repoURL": "https://git.example.com/values", "targetRevision": "main", "ref": "values"}, source]
    assert found(applications=[an_application("Synced", "Healthy", sources=several)]) == (outcome, cause)


@each_row
def test_versions_of_charts(chart: Json, outcome: Outcome, cause: str) -> None:
    condition = {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-09-01T00:00:00Z"}
    release = {
        "metadata": {"name": "stack", "namespace": "kube-system", "generation": 2},
        "spec": {"chart": {"spec": chart}},
        "status": {"observedGeneration": 2, "conditions": [condition]},
    }
    assert found(helmreleases=[release]) == (outcome, cause)


@pytest.mark.parametrize(("started", "outcome"), [("2026-09-21T14:13:00Z", Outcome.UNDECIDED), ("2026-09-01T00:00:00Z", Outcome.BAD)])
def test_a_sync_that_runs_is_a_change_under_way_until_it_is_late(started: str, outcome: Outcome) -> None:
    one = an_application("OutOfSync", "Healthy")
    one["status"]["operationState"] = {"phase": "Running", "startedAt": started}
    assert found(applications=[one])[0] is outcome


def test_what_tenants_deliver_to_themselves_is_not_judged() -> None:
    one = an_application("OutOfSync", "Degraded", destination={"namespace": "team-a"})
    one["status"]["resources"] = [{"group": "serving.kserve.io", "namespace": "team-a"}]
    with pytest.raises(NotApplicable):
        found(applications=[one])


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
