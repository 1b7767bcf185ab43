"""On clusters whose devices DRA offers as many requirements judge as with a device plugin, but for those that docs/dra.md lists."""

import re
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Verdict
from tests.endtoend.runs import ROOT, Finished, run_for_record

pytestmark = pytest.mark.test_all

_ROW = re.compile(r"\| ([A-Z]+-\d\d) \| [^|]+ \| (both|`[a-z-]+`) \|")
_SLICES = ("--only", "SHARE,MIG")


def listed(scenario: str) -> set[str]:
    """Requirements that the page says a scenario leaves out."""
    text = (ROOT / "docs/dra.md").read_text().partition("## What a cluster without a device plugin leaves unjudged")[2]
    return {id_ for id_, where in _ROW.findall(text.partition("\n## ")[0]) if where.strip("`") in ("both", scenario)}


def judged(folder: Path, scenario: str, *options: str) -> frozenset[str]:
    done = run_for_record(folder, "--simulate", scenario, *options)
    return frozenset(result.id for result in done.record.results if result.judged)


@pytest.fixture(scope="module")
def by_plugin(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return judged(tmp_path_factory.mktemp("healthy"), "healthy")


@pytest.mark.parametrize("scenario", ["dra", "dra-extended"])
def test_as_many_requirements_judge_without_a_device_plugin(tmp_path: Path, by_plugin: frozenset[str], scenario: str) -> None:
    by_dra = judged(tmp_path, scenario)
    assert by_plugin - by_dra == listed(scenario)
    assert len(by_dra) >= len(by_plugin) - len(listed(scenario)), (sorted(by_plugin), sorted(by_dra))


def test_shares_and_slices_are_judged_without_a_device_plugin(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("showcase", "dra-shared")}
    for folder in folders.values():
        folder.mkdir()
    by_plugin, by_dra = (judged(folder, name, *_SLICES) for name, folder in folders.items())
    assert {"SHARE-03", "MIG-07"} <= by_dra
    assert by_plugin - by_dra == listed("dra-shared") - listed("neither")


# -- runs on a machine whose clock is wrong: what they say of a cluster does not depend on it, and they say that clocks differ --


HOURS, YEARS = 3600, 365 * 86400


def with_skew(folder: Path, cluster: EmbeddedCluster, skew: int) -> Finished:
    folder.mkdir()
    options = ["--kubeconfig", str(cluster.kubeconfig), "--read-only", "--only", "ADV-03"]
    return run_for_record(folder, "-p", "tests.endtoend.skewed_clock", *options, CLOCK_SKEW=str(skew))


def join(cluster: EmbeddedCluster) -> None:
    """A GPU node that joins now: it has no devices yet."""
    session = Cluster.from_kubeconfig(cluster.kubeconfig)
    known = next(node for node in session.each("nodes") if node["status"].get("capacity", {}).get("nvidia.com/gpu"))
    labels = {**known["metadata"]["labels"], "kubernetes.io/hostname": "gpu-new"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-new", "labels": labels}, "spec": known["spec"]}
    node["spec"].pop("providerID", None)
    answer = session.create("nodes", node)
    assert answer.ok, answer.message


def notes(run: Finished) -> list[str]:
    return [note for note in run.scope.notes if "clock" in note]


def test_a_node_that_joined_now_is_new_whatever_the_runners_clock_says(tmp_path: Path) -> None:
    with EmbeddedCluster.start("healthy", tmp_path) as cluster:
        healthy = with_skew(tmp_path / "healthy", cluster, 2 * HOURS)
        assert (healthy.code, healthy.result("ADV-03").verdict) == (0, Verdict.PASSED), healthy.output
        assert notes(healthy) == ["this machine's clock is 2 h ahead of the API server's: ages are judged by the API server's clock"]
        join(cluster)
        for name, skew in (("right", 0), ("ahead", 2 * HOURS)):
            run = with_skew(tmp_path / name, cluster, skew)
            assert (run.code, run.result("ADV-03").verdict) == (10, Verdict.INCONCLUSIVE), run.output
            assert bool(notes(run)) is bool(skew)
