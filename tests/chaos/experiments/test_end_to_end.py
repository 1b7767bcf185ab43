"""Every experiment on the embedded cluster `resilience`: each passes, and leaves nothing behind for the next.

One cluster and one campaign for all of them. Conformance before and after is the engine's to test (tests/chaos/engine), so it is left
out here; that each experiment can fail is shown with seeded bugs (tests/chaos/selfcheck).
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.cluster.injector import run_on_host
from chaos.cluster.requests import await_object
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.observe.view import View, name_of, node_of
from chaos.safety.settings import settings_of
from chaos.verdict.artefacts import Conformance
from conformance.plugin.opening import SIMULATED_PACE
from conformance.policy.policy_file import build_policy
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.ownership import owned
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.verdict.record import Target, TargetKind, Verdict
from tests.chaos.ledger.simulated_cluster import soon
from tests.chaos.shipped import EXPERIMENTS

SCENARIO = "resilience"
ELSEWHERE = {**dict.fromkeys(("A14", "A14b", "A14c", "D8", "D8b"), "dra"), "A16": "gb200"}
"""Experiments whose component is in no cluster together with a device plugin, and where it is."""


class NoConformance:
    """Stands for the suite, which is not run here."""

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        return Conformance(at="2026-01-01T00:00:00+00:00")

    def forget(self) -> None:
        """Nothing is remembered."""


@contextlib.contextmanager
def campaign_on(scenario: str, folder: Path) -> Iterator[Campaign]:
    embedded = EmbeddedCluster.start(scenario, folder)
    try:
        cluster = Cluster.from_kubeconfig(embedded.kubeconfig)
        policy = build_policy(SIMULATED_PACE, embedded.policy)
        target = Target(kind=TargetKind.SIMULATED, server=cluster.shown_server, scenario=embedded.scenario)
        access = msgspec.structs.replace(learn_cluster(cluster, target), kubeconfig=str(embedded.kubeconfig))
        where = CampaignSetup(
            cluster=cluster,
            access=access,
            target=target,
            policy=policy,
            settings=settings_of(policy, max_level=4, confirm=target.cluster_uid),
            run_id=owned.new_run_id(),
            folder=folder,
            ours=True,
        )
        with Campaign(where) as opened:
            opened._conforming = NoConformance()  # type: ignore[assignment]
            yield opened
        assert opened.residue == []
    finally:
        embedded.stop()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with campaign_on(SCENARIO, tmp_path_factory.mktemp(SCENARIO)) as opened:
        yield opened


@pytest.mark.parametrize("id_", ["A1", "D1", "N6"])
def test_an_experiment_of_each_kind_passes_and_leaves_nothing(id_: str, campaign: Campaign) -> None:
    passes(campaign, id_)


@pytest.mark.test_all
@pytest.mark.parametrize("id_", [id_ for id_ in EXPERIMENTS if id_ not in ELSEWHERE])
def test_an_experiment_passes_and_leaves_nothing(id_: str, campaign: Campaign) -> None:
    passes(campaign, id_)


@pytest.mark.test_all
@pytest.mark.parametrize(("id_", "scenario"), ELSEWHERE.items())
def test_an_experiment_on_another_component_passes_where_that_is(id_: str, scenario: str, tmp_path: Path) -> None:
    with campaign_on(scenario, tmp_path) as opened:
        passes(opened, id_)


@pytest.mark.test_all
@pytest.mark.parametrize("marks", [("00000000", "ffffffff"), ("ffffffff", "00000000")])
def test_of_two_rules_the_contender_claims_the_free_device_whatever_their_names_are(
    marks: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with campaign_on("dra", tmp_path) as opened:
        opened._setup = msgspec.structs.replace(opened._setup, mark=marks[0])
        monkeypatch.setattr(namespaces, "new_mark", lambda: marks[1])
        passes(opened, "D8")


@pytest.mark.test_all
def test_a_gpu_is_reset_beside_one_that_is_lost(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as opened:
        where, node = opened._setup, "h100-1"
        lose = ("nvml-mock-ctl", "fail", "--gpu", "0", "--mode", "lost")
        own = namespaces.ensure_run(where.cluster, where.run_id)
        assert not run_on_host(
            where.cluster, namespace=own, node=node, image="i", argv=lose, run_id=where.run_id, deadline=soon()
        ).exit_code
        for pod in View.of(where.cluster).select("pods", "gpu-operator"):
            if node_of(pod) == node and "device-plugin" in name_of(pod):  # which notices when it starts
                assert where.cluster.delete("pods", name_of(pod), "gpu-operator", grace_seconds=0).ok
        assert not await_object(where.cluster, "nodes", node, "", soon(), seven)
        opened._setup = msgspec.structs.replace(where, node=node)
        passes(opened, "D18")


def seven(node: Json | None) -> str:
    return "" if node and node["status"]["allocatable"].get("nvidia.com/gpu") == "7" else "all its devices are there"


@pytest.mark.parametrize("id_", ELSEWHERE)
def test_it_has_no_object_elsewhere_and_says_why(id_: str, campaign: Campaign) -> None:
    result = campaign.carry_out(EXPERIMENTS[id_])
    assert result.verdict is Verdict.NOT_APPLICABLE
    assert "is not installed" in result.message


def passes(campaign: Campaign, id_: str) -> None:
    result = campaign.carry_out(EXPERIMENTS[id_])
    wrong = [f"{one.verdict} {one.name}: {one.message}" for one in result.findings if one.verdict not in (Verdict.PASSED,)]
    assert result.verdict is Verdict.PASSED, "\n".join([result.message, *wrong, Path(result.artefacts or ".").as_posix()])
    assert campaign.residue == []
