"""Whole runs against the embedded cluster: outputs, gate, selection, workers."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from conformance.catalogue import load_catalogue
from conformance.cli.main import main
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Access, TargetKind, Verdict, decode_report
from reports.merge import history
from tests.endtoend.runs import ROOT, command, environment, run_suite


@pytest.mark.test_all
def test_a_healthy_cluster_is_conformant_and_every_output_says_it_is_simulated(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy")
    assert done.code == 0, done.output
    report = done.record
    assert (report.verdict, report.target.kind, report.target.scenario) == (Verdict.PASSED, TargetKind.SIMULATED, "healthy")
    assert all(result.judged for result in report.results if result.verdict is Verdict.PASSED)
    assert {result.id for result in report.results} == set(load_catalogue().by_id)
    assert report.residue == []
    folder = tmp_path / "report"
    schema = json.loads((ROOT / "reports" / "schema" / "report-1.9.json").read_bytes())
    jsonschema.validate(json.loads((folder / "report.json").read_bytes()), schema)
    assert "SIMULATED CLUSTER" in done.output
    assert "SIMULATED CLUSTER" in (folder / "report.html").read_text()
    assert len(list((folder / "allure-results").glob("*-result.json"))) == len(report.results)
    assert "<testsuite" in (folder / "junit.xml").read_text()
    assert report.target.nodes == report.target.simulated_nodes
    for result in report.results:
        area = result.area.lower()
        lines = (ROOT / "conformance" / area / f"test_{area}.py").read_text().splitlines()
        assert f'@requirement("{result.id}"' in lines[result.line - 1]


def test_a_run_may_write_its_record_alone(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    (folder / "allure-results").mkdir(parents=True)
    (folder / "allure-results" / "theirs.json").write_text("of another tool")
    arguments = ("--simulate", "healthy", "--read-only", "--only", "FENCE-01", "--record-only")
    assert run_suite(tmp_path, *arguments).code == 0
    assert sorted(file.name for file in folder.iterdir()) == ["allure-results", "report.json"], "no record says that these are a run's"
    (folder / "junit.xml").write_text("of an earlier run")
    done = run_suite(tmp_path, *arguments)
    assert [file.name for file in folder.iterdir()] == ["report.json"]
    assert done.output.endswith("report report/report.json\n")
    assert main(["report", str(folder)]) == 0
    assert "FENCE-01" in (folder / "report.html").read_text()
    assert "FENCE-01" in (folder / "junit.xml").read_text()


@pytest.mark.test_all
def test_reports_go_below_out_with_a_link_to_the_latest(tmp_path: Path) -> None:
    arguments = command("--simulate", "healthy", "--read-only", "-k", "fence")
    done = subprocess.run(arguments, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    latest = tmp_path / "out" / "latest"
    assert latest.is_symlink()
    assert (latest / "report.html").is_file()
    run_id = json.loads((latest / "report.json").read_bytes())["run"]["id"]
    assert os.readlink(latest) == run_id


def test_runs_below_out_keep_a_history_that_says_since_when(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "history.jsonl").touch()
    with EmbeddedCluster.start("healthy,fence-untainted-gpu-node", tmp_path) as cluster:
        chosen = ("--kubeconfig", str(cluster.kubeconfig), "--read-only", "--only", "FENCE-01")
        for more in ((), ("--record-only",), ("--report-dir", "named"), ("--report-dir", "kept/run"), ()):
            subprocess.run(command(*chosen, *more), cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=False)
    files = sorted((tmp_path / "out").glob("2*/report.json"), key=lambda file: file.stat().st_mtime_ns)
    runs = [decode_report(file.read_bytes()) for file in files]
    kept = [{entry.run_id for entry in history.read(tmp_path / name).entries} for name in ("out", "kept")]
    assert [len((tmp_path / name / "history.jsonl").read_text().splitlines()) for name in ("out", "kept")] == [2, 1]
    assert (kept[0], len(kept[1])) == ({one.run.id for one in runs}, 1)
    assert not (tmp_path / "history.jsonl").exists()
    began = runs[0].run.started_at
    since = [{"NodeNotFenced": began} if one.run.started_at > began else {} for one in runs]  # two runs may begin in one second
    assert ([one.causes_since for one in runs], any(since)) == (since, True)


def test_a_defect_makes_the_run_fail_with_subject_and_remediation(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy,fence-untainted-gpu-node", "--read-only")
    assert done.code == 1, done.output
    result = done.result("FENCE-01")
    assert result.verdict is Verdict.FAILED
    assert any(subject.verdict is Verdict.FAILED and subject.observed and subject.expected for subject in result.subjects)
    assert result.remediation
    assert "FENCE-01" in done.output


def test_a_failed_should_warns_and_gates_only_under_strict(tmp_path: Path) -> None:
    arguments = ["--simulate", "healthy,fence-device-pod-without-affinity", "--read-only", "-k", "fence"]
    done = run_suite(tmp_path, *arguments)
    assert done.code == 0, done.output
    assert done.result("FENCE-08").verdict is Verdict.WARNED
    strict = run_suite(tmp_path, *arguments, "--strict")
    assert strict.code == 1, strict.output
    assert strict.result("FENCE-08").verdict is Verdict.FAILED


@pytest.mark.test_all
def test_read_only_creates_nothing_and_says_what_it_left_out(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy", "--read-only")
    for result in done.record.results:
        if result.access is not Access.READ:
            assert (result.verdict, result.reason_code) == (Verdict.NOT_APPLICABLE, "AboveAccess")
    written = [key for key in done.record.requests.by_verb_and_resource if not key.startswith(("list ", "get ", "watch "))]
    assert [key for key in written if "selfsubjectaccessreviews" not in key] == []


@pytest.mark.test_all
def test_workers_give_the_verdicts_of_a_single_process_from_one_snapshot(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    alone = run_suite(tmp_path / "one", "--simulate", "healthy").record
    together = run_suite(tmp_path / "two", "--simulate", "healthy", "-n", "2").record
    assert {r.id: (r.verdict, r.judged) for r in alone.results} == {r.id: (r.verdict, r.judged) for r in together.results}
    assert together.requests.by_verb_and_resource["list nodes"] == 1


def test_a_saved_snapshot_judges_what_it_holds(tmp_path: Path) -> None:
    labels, kwok = {"nvidia.com/gpu.present": "true"}, {"kwok.x-k8s.io/node": "fake"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0", "labels": labels, "annotations": kwok}}
    node["status"] = {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}))
    done = run_suite(tmp_path, "--snapshot", str(tmp_path / "nodes.json"), "-k", "fence")
    assert done.code == 1, done.output
    assert done.result("FENCE-01").verdict is Verdict.FAILED
    assert (done.result("FENCE-02").verdict, done.result("FENCE-02").reason_code) == (Verdict.NOT_APPLICABLE, "NotInSnapshot")
    assert done.result("FENCE-05").reason_code == "SnapshotTarget"
    assert (done.record.target.kind, done.record.target.simulated_nodes) == (TargetKind.SNAPSHOT, 1)
    assert "NOT CONFORMANT [snapshot of simulated nodes]" in done.output


@pytest.mark.test_all
def test_a_run_keeps_the_evidence_of_its_verdicts_when_it_is_asked_to(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy", "--only", "FENCE-01,FENCE-05,REQ-01,ISO-01,ISO-02", "--evidence")
    assert done.code == 0, done.output
    evidence = tmp_path / "report" / "evidence"
    index = json.loads((evidence / "index.json").read_bytes())
    assert (index["complete"], index["target"]["real"]) == (True, False)
    assert {one["resource"] for one in index["lists"]} >= {"nodes", "pods"}
    fence = json.loads((evidence / "requirements" / "FENCE-01.json").read_bytes())
    node = json.loads((evidence / fence["subjects"][0]["object"]).read_bytes())
    assert (node["kind"], node["metadata"]["name"]) == ("Node", fence["subjects"][0]["name"])
    assert "nvidia.com/gpu" in {taint["key"] for taint in node["spec"]["taints"]}
    outputs = json.loads((evidence / "requirements" / "ISO-01.json").read_bytes())["outputs"]
    assert any("GPU-" in (evidence / path).read_text() for path in outputs), "what probe pods printed"
    assert all("iso-01" in path for path in outputs), "probes that wait together keep their own pods"
    assert any(path.endswith(".pod.json") for path in outputs)
    pods = [json.loads(file.read_bytes()) for file in (evidence / "outputs").glob("FENCE-05.*.pod.json")]
    assert "Pending" in {pod["status"]["phase"] for pod in pods}, "a probe pod as it was last seen"
    answers = [json.loads(file.read_bytes()) for file in (evidence / "outputs").glob("REQ-01.*.dry-run.json")]
    assert any(answer["status"] == 422 and "limit" in answer["message"] for answer in answers), "what the API answered"
    again = run_suite(tmp_path, "--simulate", "healthy", "--only", "FENCE-01")
    assert again.code == 0, again.output
    assert not evidence.exists(), "evidence of another run does not lie beside this report"


@pytest.mark.test_all
def test_alluredir_takes_the_results_of_several_runs_and_can_be_cleaned(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "allure"
    arguments = ("--simulate", "healthy", "--only", "FENCE-01", "--alluredir", str(folder))
    folder.mkdir(parents=True)
    (folder / "earlier-result.json").write_text("{}")
    assert run_suite(tmp_path, *arguments).code == 0
    assert len(list(folder.glob("*-result.json"))) == 2
    assert {"categories.json", "environment.properties"} <= {file.name for file in folder.iterdir()}
    assert run_suite(tmp_path, *arguments, "--clean-alluredir").code == 0
    assert len(list(folder.glob("*-result.json"))) == 1
