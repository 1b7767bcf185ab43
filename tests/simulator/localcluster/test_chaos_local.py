"""Experiments on real Kubernetes: each passes under real controllers and the shipped rights, and leaves nothing.

One control plane for a handful of each sort: an agent, labels, a drain that is refused, a Node that is deleted, a gang, a device. All
of them run there with `pytest chaos --chaos --local --simulate resilience`; what came of it is in docs/chaos-local.json. Conformance
before and after is left out here: tests/chaos/engine holds the engine to it, and test_attached.py the suite to its verdicts there.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.model.records import State
from chaos.safety.gates import settings_of
from chaos.verdict.artefacts import Artefacts
from conformance.plugin.opening import SIMULATED_PACE
from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane import account
from fixtures.localcluster.install.release import Binaries
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.ownership import owned
from fixtures.policy.policy_file import build_policy
from fixtures.verdict.record import Target, TargetKind, Verdict
from tests.chaos import leak_scan
from tests.chaos.shipped import EXPERIMENTS
from tests.simulator.localcluster.no_conformance import NoConformance

pytestmark = pytest.mark.test_all

SCENARIO = "resilience"
IDS = ("A1", "A9", "N7", "S3", "D1")


@pytest.fixture(scope="module")
def local(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.start(None, SCENARIO, tmp_path_factory.mktemp("chaos"), binaries.paths["kube-apiserver"].parent) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(local: LocalCluster) -> Target:
    return Target(kind=TargetKind.LOCAL, server=local.server, scenario=local.scenario)


@pytest.fixture(scope="module")
def administrator(local: LocalCluster, target: Target) -> Cluster:
    cluster = Cluster.from_kubeconfig(local.admin_kubeconfig)
    learn_cluster(cluster, target)
    return cluster


@pytest.fixture(scope="module")
def run_id() -> str:
    return owned.new_run_id()


@pytest.fixture(scope="module")
def campaign(
    local: LocalCluster, target: Target, administrator: Cluster, run_id: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Campaign]:
    """Everything acts as the account of experiments, with the rights of deploy/ and no other; at the end all is as it was before."""
    kubeconfig = account.suite_kubeconfig(local.plane, "chaos")
    cluster = Cluster.from_kubeconfig(kubeconfig)
    policy = build_policy(SIMULATED_PACE, local.policy, {"chaos": {"namespaceUid": namespaces.uid_of_shared(cluster)}})
    access = msgspec.structs.replace(learn_cluster(cluster, target), kubeconfig=str(kubeconfig))
    where = CampaignSetup(
        cluster=cluster,
        access=access,
        target=target,
        policy=policy,
        settings=settings_of(policy, max_level=4, confirm=target.cluster_uid),
        run_id=run_id,
        folder=tmp_path_factory.mktemp("run"),
        ours=True,
    )
    before = leak_scan.scan(administrator)
    with Campaign(where) as opened:
        opened._conforming = NoConformance()  # type: ignore[assignment]
        yield opened
    assert opened.residue == []
    assert before.differences(leak_scan.scan(administrator)) == []


@pytest.mark.parametrize("id_", IDS)
def test_an_experiment_passes_on_real_kubernetes_and_leaves_nothing(
    id_: str, campaign: Campaign, administrator: Cluster, run_id: str
) -> None:
    kept = (namespaces.SHARED, namespaces.of_run(run_id, campaign._setup.mark))  # Lease, ledger and injectors, until the run ends
    before = leak_scan.scan(administrator, ignore=kept)
    result = campaign.carry_out(EXPERIMENTS[id_])
    wrong = [f"{one.verdict} {one.name}: {one.message}" for one in result.findings if one.verdict is not Verdict.PASSED]
    assert result.verdict is Verdict.PASSED, "\n".join([result.message, *wrong])
    assert (result.target_kind, result.fidelity) == (TargetKind.LOCAL, "simulated")
    last = {line.seq: line.state for line in Artefacts(Path(campaign.folder) / id_).ledger()}
    assert last
    assert set(last.values()) == {State.VERIFIED}
    assert campaign.residue == []
    assert before.differences(leak_scan.scan(administrator, ignore=kept)) == []


def test_what_a_real_daemonset_controller_would_spread_is_not_applicable(campaign: Campaign) -> None:
    result = campaign.carry_out(EXPERIMENTS["D3"])
    assert (result.verdict, result.reason_codes) == (Verdict.NOT_APPLICABLE, ["TargetKind"])
    assert "simulated targets only" in result.message
