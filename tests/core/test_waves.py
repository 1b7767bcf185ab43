"""Probes of several requirements run in one wave, within the free devices, and leave each other's pods alone."""

from pathlib import Path

import pytest

from conformance.plugin.waves import fit_beside
from fixtures.cluster.client import Cluster
from fixtures.probes.workspace import Workspace
from fixtures.simulator.interface import start
from fixtures.verdict.findings import Inconclusive
from tests.endtoend.runs import run_for_record
from tests.tables import each_row

POD_START = 4
TOGETHER = ("FENCE-06", "PSA-04", "ISO-01", "ISO-02")


@each_row
def test_a_wave_holds_no_more_than_the_scarcest_place_has_free(units: list[int], free: list[int], fits: bool) -> None:
    assert fit_beside(units, free) is fits


def test_probes_wait_for_their_pods_together_and_each_is_judged(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", f"healthy:podStart={POD_START}", "--only", ",".join(TOGETHER))
    assert done.report is not None, done.output
    results = [done.result(id_) for id_ in TOGETHER]
    assert {result.verdict for result in results} == {"passed"}, done.output
    waited = [result.duration_seconds for result in results]
    assert min(waited) >= POD_START
    assert done.report.run.duration_seconds < sum(waited) - POD_START


def test_a_part_of_a_workspace_clears_its_own_pods_and_creates_none_after_the_end(tmp_path: Path) -> None:
    running = start("healthy", tmp_path)
    try:
        workspace = Workspace(Cluster.from_kubeconfig(running.kubeconfig), "waves-test")
        first, second = workspace.branch(), workspace.branch()
        namespace = workspace.namespace()
        for part, name in ((first, "one"), (second, "two")):
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            part.create("configmaps", config, namespace)
        first.clear()
        there = {name: workspace.cluster.get("configmaps", name, namespace).status for name in ("one", "two")}
        assert there == {"one": 404, "two": 200}
        workspace.halt()
        with pytest.raises(Inconclusive):
            second.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}, namespace)
        workspace.join(second)
        workspace.close()
        assert workspace.residue == []
    finally:
        running.stop()
