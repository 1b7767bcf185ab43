"""A tenant who may create namespaces takes every name of a run that he can guess."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster import namespaces
from fixtures.ownership import owned
from fixtures.verdict.record import Verdict
from tests.chaos.experiments.test_end_to_end import SCENARIO, campaign_on
from tests.chaos.shipped import EXPERIMENTS


def test_an_experiment_passes_although_the_run_s_names_were_taken(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster, run_id = campaign._setup.cluster, campaign._setup.run_id
        taken = {namespaces.of_run(run_id), f"{namespaces.of_run(run_id)}-canaries"}
        for name in taken:
            meta = {"name": name, "labels": owned.labels(run_id)}
            assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}).ok
        result = campaign.carry_out(EXPERIMENTS["A1"])
        assert result.verdict is Verdict.PASSED, result.message
        assert campaign.residue == []
        for name in taken:
            assert cluster.request("GET", cluster.path("pods", name)).json()["items"] == []
    assert campaign.residue == []
