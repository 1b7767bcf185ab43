"""``gpu-conformance job`` against the simulated cluster, as the Job in a cluster runs it."""

import json
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from conformance.cli.main import main
from conformance.delivery.node_labels import LABEL
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.simulator.process.child import EmbeddedCluster
from reports.folder import load
from tests.endtoend.runs import ROOT
from tests.simulated import simulated
from tests.tables import each_row

pytestmark = pytest.mark.test_all


def last_line(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    held = json.loads(capfd.readouterr().out.splitlines()[-1])["gpuConformance"]
    assert isinstance(held, dict)
    return held


def test_a_job_hands_its_results_on_and_labels_disturb_no_later_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    volume, sonobuoy = tmp_path / "volume", tmp_path / "sonobuoy"
    volume.mkdir()
    with simulated(tmp_path, "healthy") as kubeconfig:
        job = ["job", "--kubeconfig", str(kubeconfig)]
        assert main([*job, "--to", f"folder={volume}", "--to", f"sonobuoy={sonobuoy}", "--publish", "1", "--", "--read-only"]) == 0
        reported = last_line(capfd)
        assert (reported["simulated"], reported["verdict"], reported["undelivered"]) == (True, "passed", [])
        nodes = Cluster.from_kubeconfig(kubeconfig).page("/api/v1/nodes", "").json()["items"]
        labels = {node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(LABEL) for node in nodes}
        assert {value for name, value in labels.items() if name.startswith("h100-")} == {"passed"}
        assert {value for name, value in labels.items() if not name.startswith("h100-")} == {None}
        before = load(volume / str(reported["runId"]))
        with tarfile.open((sonobuoy / "done").read_text()) as tar:
            assert "junit.xml" in tar.getnames()
        assert main([*job, "--to", f"folder={volume}", "--to", "folder=/nowhere", "--", "--read-only", "--only=INV,OPS,ADV"]) == 3
        reported = last_line(capfd)
        assert (reported["exitCode"], reported["undelivered"]) == (3, ["folder"])
        after = load(volume / str(reported["runId"]))
    stated = {one.id: one.verdict for one in before.results}
    assert {one.id: one.verdict for one in after.results}.items() <= stated.items()
    assert len(after.results) > 10


def test_the_report_of_a_job_knows_the_history_of_its_volume(tmp_path: Path) -> None:
    with EmbeddedCluster.start("healthy,fence-untainted-gpu-node", tmp_path) as cluster:
        for _ in range(2):
            assert (
                main(["job", "--kubeconfig", str(cluster.kubeconfig), "--to", f"folder={tmp_path}", "--", "--read-only", "--only=FENCE-01"])
                == 1
            )
    first, second = (load(file) for file in sorted(tmp_path.glob("2*/report.json")))
    assert (first.causes_since, second.causes_since) == ({}, {"NodeNotFenced": first.run.started_at})


@pytest.mark.parametrize(
    ("nodes", "code", "words"),
    [
        ("nvidia.com/gpu.present=true,gpu-conformance.io/verdict!=passed", 0, "nothing was to be judged"),
        ("h100-99", 4, "usage error"),  # who names a node means it
    ],
)
def test_a_job_for_new_nodes_is_good_where_there_is_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], nodes: str, code: int, words: str
) -> None:
    with simulated(tmp_path, "healthy") as kubeconfig:
        cluster = Cluster.from_kubeconfig(kubeconfig)
        for node in cluster.each("nodes"):
            assert cluster.patch("nodes", node["metadata"]["name"], {"metadata": {"labels": {LABEL: "passed"}}}).ok
        options = ["--publish", "1", "--", "--read-only", "--if-any", f"--nodes={nodes}"]
        assert main(["job", "--kubeconfig", str(kubeconfig), *options]) == code
    reported = last_line(capfd)
    assert (reported["exitCode"], reported["verdict"]) == (code, None)
    assert words in str(reported["headline"])


def test_a_cluster_that_does_not_answer_ends_with_the_line_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "kubeconfig"
    gone.write_text("{}")
    assert main(["job", "--kubeconfig", str(gone), "--to", f"folder={tmp_path}"]) == 4
    reported = last_line(capfd)
    assert (reported["exitCode"], reported["verdict"], reported["undelivered"]) == (4, None, ["folder"])


@pytest.mark.parametrize("options", [["--collect-only", "-q"], ["--help"]], ids=str)
def test_a_job_that_judges_nothing_is_not_good(tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str]) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text("{}")
    assert main(["job", "--kubeconfig", str(config), "--", *options]) == 3
    reported = last_line(capfd)
    assert (reported["exitCode"], reported["verdict"]) == (3, None)
    assert reported["headline"] == "nothing was judged: the run ended without a report"


def test_a_job_that_is_ended_removes_what_it_made_and_says_so(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy") as kubeconfig:
        session = Cluster.from_kubeconfig(kubeconfig)
        command = [sys.executable, "-m", "conformance.cli.main", "job", "--kubeconfig", str(kubeconfig), "--", "--only", "FENCE"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
            with Observation(session, "pods", labels=f"{owned.MANAGED_BY}={owned.SUITE}") as observation:
                assert any(objects for objects in observation.until(time.monotonic() + 90)), "no probe began"
            job.send_signal(signal.SIGTERM)  # to the job alone, as the kubelet does
            output, _ = job.communicate(timeout=120)
        assert job.returncode == 2, output
        assert json.loads(output.splitlines()[-1])["gpuConformance"]["exitCode"] == 2
        assert owned.find(session) == []


@each_row
def test_a_mistake_is_reported_before_anything_runs(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        ended = main(["job", *arguments])
    except SystemExit as error:
        ended = int(str(error.code))
    assert ended == 4
    assert words in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["x", "--sweep"], ["--sweep", "--remove"]])
def test_publishing_does_one_thing_at_a_time(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", *arguments, "--in-cluster"]) == 4
    assert "one of them only" in capfd.readouterr().err
