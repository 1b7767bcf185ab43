"""Probes that claim their devices, on the embedded cluster: they see them, different ones, and leave neither claim nor template."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conformance.dra.exclusive_claims import probe_exclusive
from conformance.fence.probes import probe_devices
from conformance.iso.probes import probe_bypass, probe_disjoint, probe_holders
from conformance.psa.probes import probe_nonroot, probe_refusal
from conformance.req.amount_probes import ask_amounts, ask_quota, counted_resource, judge_amounts, judge_quota
from fixtures.cluster.client import Cluster
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import CLAIMS, CLASSES, SLICES, TEMPLATES
from fixtures.ownership.owned import RUN_LABEL
from fixtures.policy.model import Policy
from fixtures.probes.workspace import Workspace
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.snapshot.collect import collect
from fixtures.verdict.findings import Finding, Outcome

PACE = {"probes": {"windowSeconds": 0.5, "startSeconds": 20.0}}
RUN = "claims"


@pytest.fixture(scope="module", params=["dra", "dra-extended"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scope, Workspace]]:
    embedded = EmbeddedCluster.start(request.param, tmp_path_factory.mktemp("embedded"))
    try:
        cluster = Cluster.from_kubeconfig(Path(embedded.kubeconfig))
        snapshot = collect(cluster, ["nodes", "pods", "namespaces", SLICES, CLASSES, CLAIMS, TEMPLATES], version=cluster.probe())
        workspace = Workspace(cluster, RUN)
        yield Scope(snapshot, msgspec.convert({**embedded.policy, **PACE}, Policy)), workspace
        workspace.close()
        assert workspace.residue == []
    finally:
        embedded.stop()


def outcomes(findings: Iterator[Finding]) -> set[Outcome]:
    found = list(findings)
    assert any(finding.outcome is Outcome.OK for finding in found)
    return {finding.outcome for finding in found}


@pytest.mark.parametrize(
    "probe", [probe_devices, probe_holders, probe_bypass, probe_disjoint, probe_nonroot, probe_refusal, probe_exclusive]
)
def test_a_claimed_device_is_judged_like_any_other(target: tuple[Scope, Workspace], probe: object) -> None:
    scope, workspace = target
    assert outcomes(probe(scope, workspace)) <= {Outcome.OK, Outcome.NOT_JUDGED}  # type: ignore[operator]
    workspace.clear()
    for key in (TEMPLATES, CLAIMS):
        answer = workspace.cluster.request("GET", workspace.cluster.path(key), query={"labelSelector": f"{RUN_LABEL}={RUN}"})
        assert answer.json()["items"] == []
    assert workspace.residue == []


def test_a_quota_on_claimed_devices_is_enforced(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    seen = ask_quota(workspace, scope)
    assert seen.resource in ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    assert outcomes(judge_quota(seen)) == {Outcome.OK}
    workspace.clear()


def test_malformed_claims_are_refused_by_name(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    resource = counted_resource(scope)
    found = judge_amounts(resource, ask_amounts(workspace, scope, resource))
    assert [finding.outcome for finding in found] == [Outcome.OK] * 5
    workspace.clear()
