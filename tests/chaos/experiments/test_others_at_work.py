"""A person cordons the node while an experiment is on: its result tells nothing then, and the cordon stays."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from chaos.cluster.node_work import named_cordoner
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import Verdict
from tests.chaos.experiments.test_end_to_end import SCENARIO, campaign_on
from tests.chaos.shipped import EXPERIMENTS

pytestmark = pytest.mark.test_all

SECONDS = 60.0


def faulty(node: Json) -> bool:
    return any(item["type"] == "SysLogsXIDError" and item["status"] == "True" for item in node["status"]["conditions"])


def cordon_the_first_faulty(cluster: Cluster, cordoned: list[str]) -> None:
    with Observation(cluster, "nodes") as observation:
        for objects in observation.until(time.monotonic() + SECONDS):
            found = [node for node in objects.values() if faulty(node)]
            if found:
                name = str(found[0]["metadata"]["name"])
                path, query = cluster.path("nodes", "", name), {"fieldManager": "kubectl-cordon"}
                body, kind = {"spec": {"unschedulable": True}}, "application/strategic-merge-patch+json"
                if cluster.request("PATCH", path, query=query, body=body, content_type=kind).ok:
                    cordoned.append(name)
                return


def test_a_persons_cordon_makes_it_inconclusive_and_outlives_it(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster, cordoned = campaign._setup.access.open(), list[str]()
        person = threading.Thread(target=cordon_the_first_faulty, args=(cluster, cordoned))
        person.start()
        result = campaign.carry_out(EXPERIMENTS["D13"])
        person.join()
        assert len(cordoned) == 1
        assert result.verdict is Verdict.INCONCLUSIVE, result.message
        assert result.reason_codes == ["OthersAtWork"]
        assert f'somebody else cordoned the node (["{cordoned[0]}: kubectl-cordon"])' in result.message
        assert campaign.residue == []
        node = cluster.get("nodes", cordoned[0]).json()
        assert named_cordoner(node) == "kubectl-cordon"
        assert not faulty(node)
