"""An embedded cluster and campaigns on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from chaos.catalogue.extension_rules import KnownNames
from chaos.catalogue.loading import check_document
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.model.experiment import Experiment
from chaos.safety.settings import settings_of
from conformance.policy.policy_file import build_policy
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.verdict.record import Target, TargetKind
from tests.chaos.catalogue.documents import LABEL, MODULES

KNOWN = KnownNames(modules=MODULES)


class Stage:
    """One cluster for many campaigns."""

    def __init__(self, embedded: EmbeddedCluster) -> None:
        self.kubeconfig = embedded.kubeconfig
        self.cluster = Cluster.from_kubeconfig(embedded.kubeconfig)
        self.policy = build_policy(embedded.policy)
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
