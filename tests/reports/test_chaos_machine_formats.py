"""Chaos experiments for programs: JUnit, CTRF, Allure and metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report
from reports.formats import allure, ctrf, junit, openmetrics
from tests.reports.chaos_samples import bare, chaos, experiment, mixed_chaos
from tests.reports.sample_report import sample_report

# -- JUnit


def cases(made: Report, of: ChaosReport) -> dict[str, ET.Element]:
    root = ET.fromstring(junit.render(made, of))
    return {case.get("name", "").split()[0]: case for case in root.iter("testcase")}


def test_junit_properties_of_an_experiment() -> None:
    case = cases(bare(mixed_chaos()), mixed_chaos())["A1"]
    assert {p.get("name"): p.get("value") for p in case.iter("property")} == {
        "id": "A1",
        "level": "L1",
        "verdict": "passed",
        "fidelity": "simulated",
        "targetKind": "simulated",
        "targets": "pods gpu-operator/plugin-1",
        "detectionSeconds": "0.500",
        "recoverySeconds": "8.500",
        "recoveryUncertaintySeconds": "0.250",
        "recoveryFrom": "fault",
        "recoveryBoundSeconds": "30.000",
    }
    failure = cases(bare(mixed_chaos()), mixed_chaos())["A3"].find("failure")
    assert failure is not None
    assert failure.get("message") == "too slow"
    assert failure.text == "recovery [RecoveryTooSlow]: not recovered within 30 s"
    assert "NOT PUT BACK: nodes n1" in (cases(bare(mixed_chaos()), mixed_chaos())["N7"].findtext("error") or "")


def test_junit_of_a_passed_experiment_with_residue_is_red() -> None:
    held = chaos(experiment(residue=["nodes n1"]))
    made = bare(held)
    made.residue = ["nodes n1"]
    assert len(list(ET.fromstring(junit.render(made, held)).iter("error"))) == 1
    assert "NOT PUT BACK: nodes n1" in (cases(made, held)["A1"].findtext("system-out") or "")


# -- CTRF


def ctrf_tests(made: Report, of: ChaosReport) -> dict[str, dict[str, Any]]:
    document = json.loads(ctrf.render(made, of), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    summary, tests = document["results"]["summary"], document["results"]["tests"]
    assert summary["tests"] == len(tests) == len(made.results) + len(of.experiments)
    assert sum(summary[s] for s in ("passed", "failed", "skipped", "pending", "other")) == len(tests)
    return {test["labels"]["id"]: test for test in tests}


def test_ctrf_has_a_test_per_experiment() -> None:
    tests = ctrf_tests(bare(mixed_chaos()), mixed_chaos())
    statuses = {"A1": "passed", "A3": "failed", "D6": "other", "N7": "other", "D13": "skipped"}
    assert {identifier: test["status"] for identifier, test in tests.items()} == statuses
    one = tests["A1"]
    assert (one["type"], one["suite"], one["rawStatus"], one["duration"]) == ("chaos", ["chaos"], "passed", 21_500)
    assert one["start"] == 1_767_225_605_000
    assert one["labels"] == {"id": "A1", "level": "L1", "fidelity": "simulated", "target": "simulated"}
    times = [one["extra"][name] for name in ("recoverySeconds", "recoveryUncertaintySeconds", "detectionSeconds")]
    assert times == [8.5, 0.25, 0.5]
    assert tests["A3"]["extra"]["recoverySeconds"] is None
    assert tests["A3"]["message"] == "too slow"
    assert tests["N7"]["extra"]["residue"] == 1
    assert len({test["id"] for test in tests.values()}) == 5


# -- Allure


def test_allure_has_a_result_per_experiment(tmp_path: Path) -> None:
    allure.write(sample_report(), tmp_path, mixed_chaos())
    items = {i["name"].split()[0]: i for file in tmp_path.glob("*-result.json") if (i := json.loads(file.read_text(encoding="utf-8")))}
    statuses = {"A1": "passed", "A3": "failed", "D6": "broken", "N7": "broken", "D13": "skipped", "FENCE-01": "failed"}
    assert {identifier: items[identifier]["status"] for identifier in statuses} == statuses
    one = items["A1"]
    assert {"name": "recovery, s", "value": "8.50 ± 0.25", "excluded": True} in one["parameters"]
    assert {"name": "fidelity", "value": "simulated", "excluded": True} in one["parameters"]
    assert {"name": "epic", "value": "chaos"} in one["labels"]
    assert {"name": "tag", "value": "simulated cluster"} in one["labels"]
    assert "SIMULATED CLUSTER" in one["description"]
    assert "NOT PUT BACK: nodes n1" in items["N7"]["statusDetails"]["trace"]
    table = (tmp_path / items["A3"]["attachments"][0]["source"]).read_text(encoding="utf-8")
    assert re.search(r"failed +recovery +RecoveryTooSlow +not recovered within 30 s", table)


# -- metrics


def test_metrics_of_experiments() -> None:
    lines = openmetrics.render(bare(mixed_chaos()), mixed_chaos()).splitlines()
    labels = 'experiment="A1",fidelity="simulated",target="simulated"'
    assert f'gpu_conformance_chaos_recovery_seconds{{{labels},from="fault"}} 8.5' in lines
    assert f'gpu_conformance_chaos_recovery_uncertainty_seconds{{{labels},from="fault"}} 0.25' in lines
    assert f'gpu_conformance_chaos_verdict{{{labels},verdict="passed"}} 1' in lines
    assert f'gpu_conformance_chaos_verdict{{{labels},verdict="failed"}} 0' in lines
    assert 'gpu_conformance_chaos_experiments{verdict="error",target="simulated"} 1' in lines
    assert 'gpu_conformance_chaos_residue_changes{experiment="N7",fidelity="simulated",target="simulated"} 1' in lines
    assert not any(line.startswith('gpu_conformance_chaos_recovery_seconds{experiment="A3"') for line in lines), "none was measured"
