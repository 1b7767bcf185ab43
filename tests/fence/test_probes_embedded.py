"""The probes of these areas against the embedded cluster: what is asked, watched and cleared, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conformance.fence.device_probe import probe_devices
from conformance.fence.fence_probe import probe_fence
from conformance.inv.rights import ask_rights, check_rights, rights
from conformance.policy.model import Policy
from conformance.req.quantity_probe import ask_quantities, judge_quantities
from conformance.req.quota_probe import ask_quota, judge_quota
from conformance.requirement import Needs
from conformance.scope.scope import Scope
from fixtures.cluster.client import Cluster
from fixtures.probes.workspace import Workspace
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.snapshot.collect import collect
from fixtures.verdict.findings import Finding, Outcome

PACE = {"probes": {"windowSeconds": 0.5, "startSeconds": 20.0}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scope, Workspace]]:
    """The scenario ``mig-mixed``: MIG and whole devices, so that resource names differ between pools."""
    embedded = EmbeddedCluster.start("mig-mixed", tmp_path_factory.mktemp("embedded"))
    try:
        cluster = Cluster.from_kubeconfig(Path(embedded.kubeconfig))
        snapshot = collect(cluster, ["nodes", "pods"], version=cluster.probe())
        workspace = Workspace(cluster, "probes")
        yield Scope(snapshot, msgspec.convert({**embedded.policy, **PACE}, Policy)), workspace
        workspace.close()
        assert workspace.residue == []
    finally:
        embedded.stop()


def outcomes(findings: Iterator[Finding]) -> set[Outcome]:
    found = list(findings)
    assert found
    return {finding.outcome for finding in found}


def test_the_fence_holds_and_its_controls_run(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    found = {finding.subject.name: finding.outcome for finding in probe_fence(scope, workspace)}
    assert found.keys() == {node.name for node in scope.accelerator_nodes}
    assert set(found.values()) == {Outcome.OK, Outcome.NOT_JUDGED}  # one of each product was asked
    workspace.clear()


def test_a_device_of_every_pool_is_had_and_counted(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    found = list(probe_devices(scope, workspace))
    assert outcomes(iter(found)) == {Outcome.OK, Outcome.NOT_JUDGED}
    assert any("nvidia.com/mig-" in finding.observed for finding in found)
    assert [finding.subject.name for finding in found] == [node.name for node in scope.accelerator_nodes]
    workspace.clear()


def test_quantities_and_quota_are_refused_by_name(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    assert outcomes(judge_quantities(ask_quantities(workspace, scope))) == {Outcome.OK}
    assert outcomes(judge_quota(ask_quota(workspace, scope))) == {Outcome.OK}
    workspace.clear()


def test_rights_are_reviewed(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    needs = Needs(reads={"pods": ["FENCE-02"], "nodes": ["INV-01"]}, writes={"create pods": ["FENCE-05"]})
    assert outcomes(check_rights(ask_rights(workspace.cluster, rights(needs, scope.snapshot)))) == {Outcome.OK}
