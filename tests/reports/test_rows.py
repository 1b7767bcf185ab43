"""A report as CSV and as policy reports: nothing computes, nothing is lost without a word, a simulation is named as such."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.cli.main import main
from fixtures.verdict.record import Level, Report, TargetKind, Verdict
from reports.folder import write_all
from reports.formats import policy_report, rows
from tests.reports.sample_report import HOSTILE, hostile_report, report, result, sample_report, subject


def a_report() -> Report:
    bad = [
        subject("gpu-1", Verdict.FAILED, kind="Node"),
        subject("train", Verdict.FAILED, kind="Pod", namespace="team-a", message="=1;a; @b;-2"),
    ]
    should = result("OPS-04", Verdict.WARNED, [subject("x on gpu-1", Verdict.FAILED, kind="Pod", namespace="team-a")], level=Level.SHOULD)
    return report([result("FENCE-01", Verdict.FAILED, bad), should, result("NET-01", Verdict.NOT_APPLICABLE, message="nothing")])


def objects(made: Report) -> dict[str, Any]:
    return {item["metadata"].get("namespace", ""): item for item in json.loads(policy_report.render(made))["items"]}


def test_a_row_for_each_subject_and_none_is_computed() -> None:
    found = list(csv.DictReader(io.StringIO(rows.render(a_report()))))
    assert [(one["requirement"], one["name"], one["verdict"]) for one in found] == [
        ("FENCE-01", "gpu-1", "failed"),
        ("FENCE-01", "train", "failed"),
        ("OPS-04", "x on gpu-1", "warned"),
        ("NET-01", "", "not_applicable"),
    ]
    assert (found[1]["message"], found[3]["message"]) == ("'=1;a;' @b;'-2", "nothing")


@pytest.mark.parametrize("made", [hostile_report(), sample_report(TargetKind.SIMULATED)], ids=["hostile", "simulated"])
def test_every_row_has_all_columns_on_one_line(made: Report) -> None:
    text = rows.render(made)
    found = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in found} == {len(rows.HEAD)}
    assert text.count("\n") == len(found)
    assert not [cell for row in found for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_policy_reports_are_one_for_each_namespace_and_one_for_the_cluster() -> None:
    found = objects(a_report())
    assert {(space, item["kind"]) for space, item in found.items()} == {("", "ClusterPolicyReport"), ("team-a", "PolicyReport")}
    assert found["team-a"]["summary"] == {"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 0}
    assert found["team-a"]["results"][1]["resources"] == [{"kind": "Pod", "name": "x", "namespace": "team-a"}]
    assert [one["result"] for one in found[""]["results"]] == ["fail", "skip"]


def test_a_large_policy_report_keeps_what_is_urgent_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_report, "MAX_RESULTS", 3)
    many = [*(subject(f"gpu-{at}") for at in range(9)), subject("gpu-9", Verdict.FAILED)]
    item = objects(report([result("FENCE-01", Verdict.FAILED, many)]))[""]
    assert [one["result"] for one in item["results"]] == ["fail", "pass", "pass"]
    assert item["metadata"]["annotations"]["gpu-conformance.io/left-out"] == "7"
    assert item["summary"]["pass"] == 9


def test_a_policy_report_fits_into_etcd() -> None:
    many = [msgspec.structs.replace(subject(f"gpu-{at}", Verdict.FAILED), message="ü" * 900) for at in range(500)]
    item = objects(report([result("FENCE-01", Verdict.FAILED, many)]))[""]
    assert 900_000 < len(json.dumps(item)) < 1_100_000
    assert int(item["metadata"]["annotations"]["gpu-conformance.io/left-out"]) == 500 - len(item["results"])


def test_a_simulation_is_named_as_such() -> None:
    labels = objects(sample_report(TargetKind.SIMULATED))[""]["metadata"]["labels"]
    assert labels["gpu-conformance.io/simulated"] == "true"


def test_a_view_is_printed_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(report([result("A-1", Verdict.FAILED, [subject(" ".join(HOSTILE.values()), Verdict.FAILED)])]), tmp_path, views=False)
    for view in ("csv", "policyreport"):
        assert main(["report", str(tmp_path), "--as", view]) == 0
        assert "\x1b" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
