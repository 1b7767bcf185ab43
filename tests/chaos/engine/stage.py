"""An embedded cluster and campaigns on it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from chaos.catalogue import KnownNames, check_document
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.model.experiment import Experiment
from chaos.safety.gates import settings_of
from chaos.verdict.artefacts import Conformance
from conformance.plugin.opening import SIMULATED_PACE
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Target, TargetKind
from tests.chaos.catalogue.documents import LABEL, MODULES

KNOWN = KnownNames(modules=MODULES)


class Stage:
    """One cluster for many campaigns."""

    def __init__(self, embedded: EmbeddedCluster) -> None:
        self.kubeconfig = embedded.kubeconfig
        self.cluster = Cluster.from_kubeconfig(embedded.kubeconfig)
        self.policy = build_policy(SIMULATED_PACE, embedded.policy)
        self.target = Target(kind=TargetKind.SIMULATED, server=self.cluster.shown_server, scenario=embedded.scenario)
        access = learn_cluster(self.cluster, self.target)
        self.access = msgspec.structs.replace(access, kubeconfig=str(embedded.kubeconfig))

    def where(self, folder: Path) -> CampaignSetup:
        return CampaignSetup(
            cluster=self.cluster,
            access=self.access,
            target=self.target,
            policy=self.policy,
            settings=settings_of(self.policy),
            run_id=owned.new_run_id(),
            folder=folder,
            ours=True,
        )

    def labelled(self) -> list[str]:
        """Nodes that carry the fault now."""
        items = self.cluster.request("GET", self.cluster.path("nodes")).json()["items"]
        return [item["metadata"]["name"] for item in items if LABEL in item["metadata"]["labels"]]

    def campaign(self, folder: Path) -> Campaign:
        return Campaign(self.where(folder))


def load(document: dict[str, Any]) -> Experiment:
    return check_document(document, KNOWN, "X1.yaml")


@contextmanager
def stage(folder: Path, scenario: str = "healthy") -> Iterator[Stage]:
    embedded = EmbeddedCluster.start(scenario, folder)
    try:
        yield Stage(embedded)
    finally:
        embedded.stop()


class NoConformance:
    """Stands for the suite, which is not run here."""

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        return Conformance(at="2026-01-01T00:00:00+00:00")

    def forget(self) -> None:
        """Nothing is remembered."""


@contextmanager
def campaign_on(scenario: str, folder: Path) -> Iterator[Campaign]:
    """A campaign that may do everything on an embedded cluster of its own, and leaves nothing. Conformance is left out."""
    with stage(folder, scenario) as on:
        settings = settings_of(on.policy, max_level=4, confirm=on.target.cluster_uid)
        with Campaign(msgspec.structs.replace(on.where(folder), settings=settings)) as opened:
            opened._conforming = NoConformance()  # type: ignore[assignment]
            yield opened
        assert opened.residue == []
