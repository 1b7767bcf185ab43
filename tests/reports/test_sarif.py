"""report.sarif: against the standard's schema, as GitHub takes it, and with hostile text."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Access, Report, Result, TargetKind, Verdict
from reports.formats import sarif
from tests.reports.sample_report import HOSTILE, hostile_report, large_report, report, result, sample_report, subject
from tests.tables import each_row

SCHEMA = json.loads(Path(__file__).with_name("schemas").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)


def run(made: Report) -> dict[str, Any]:
    [one] = json.loads(sarif.render(made))["runs"]
    return dict(one)


def results(made: Report) -> list[dict[str, Any]]:
    return list(run(made)["results"])


def uri(one: dict[str, Any]) -> str:
    return str(one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


@pytest.mark.parametrize(
    "made",
    [
        *(sample_report(kind) for kind in TargetKind),
        hostile_report(),
        report([], exit_code=5),
        report([result("", Verdict.FAILED, title="", area="")]),
        large_report(60, 40),
    ],
)
def test_sarif_satisfies_the_schema(made: Report) -> None:
    document = json.loads(sarif.render(made))
    assert [f"{list(e.absolute_path)}: {e.message}"[:300] for e in VALIDATOR.iter_errors(document)] == []


def test_only_read_requirements_are_rules_and_each_is_one_passed_or_not() -> None:
    made = sample_report()
    rules = [rule["id"] for rule in run(made)["tool"]["driver"]["rules"]]
    assert rules == [r.id for r in made.results if r.access is Access.READ]
    assert "INV-01" in rules
    assert "GANG-02" not in rules


def test_results_are_what_did_not_pass_and_point_at_their_rule() -> None:
    made = sample_report(TargetKind.LIVE)
    rules = run(made)["tool"]["driver"]["rules"]
    found = results(made)
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in found)
    assert [(one["ruleId"], one["kind"], one["level"], uri(one)) for one in found] == [
        ("INV-02", "open", "none", "node/gpu-007"),
        ("FENCE-01", "fail", "error", "node/gpu-003"),
        ("FENCE-01", "fail", "error", "node/gpu-005"),
        ("FENCE-10", "fail", "warning", "node/gpu-002"),
        ("REQ-02", "fail", "note", "Job/team-a/trainer"),
    ]
    assert "no taint: any pod" in found[1]["message"]["text"]
    assert found[1]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "node gpu-003"
    assert found[1]["properties"]["source"] == "node.spec.taints"


def test_a_requirement_that_failed_without_subjects_has_a_result() -> None:
    [one] = results(report([result("A-1", Verdict.FAILED, message="nothing to judge although it is required")]))
    assert uri(one) == "Cluster"
    assert one["message"]["text"] == "nothing to judge although it is required"


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.LOCAL, TargetKind.SNAPSHOT])
def test_no_result_of_another_target_looks_like_a_live_one(kind: TargetKind) -> None:
    made = run(sample_report(kind))
    assert made["automationDetails"]["id"] == f"gpu-conformance/{kind.value}/"
    assert all(one["message"]["text"].startswith("[") for one in made["results"])
    assert made["invocations"][0]["toolExecutionNotifications"][0]["level"] == "warning"


def test_fingerprints_stay_the_same_and_tell_subjects_apart() -> None:
    later = sample_report()
    later.run.id, later.run.started_at = "another", "2027-01-01T00:00:00Z"
    later.results[2].subjects[0].message = later.results[2].subjects[0].observed = "now with other words"
    one, two = results(sample_report()), results(later)
    assert [a["partialFingerprints"] for a in one] == [b["partialFingerprints"] for b in two]
    assert len({a["partialFingerprints"]["gpuConformance/v1"] for a in one}) == len(one)
    assert len({a["partialFingerprints"]["primaryLocationLineHash"] for a in one}) == len(one)


def test_what_github_does_not_keep_is_counted() -> None:
    many = [subject(f"n{i}", Verdict.FAILED) for i in range(6_000)]
    made = run(report([result("A-1", Verdict.FAILED, many)]))
    assert len(made["results"]) == 5_000
    assert "1000 more results" in made["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_paths_of_hostile_names_lead_nowhere() -> None:
    names = ["..", ".", "../../etc/passwd", "/etc/passwd", "C:\\x", "https://x.example/", "a b", "%2e%2e", *HOSTILE.values()]
    made = report([result("A-1", Verdict.FAILED, [subject(name, Verdict.FAILED, kind=name, namespace=name) for name in names])])
    for one, name in zip(results(made), names, strict=True):
        segments = uri(one).split("/")
        assert len(segments) == 3, name
        assert not {"", ".", ".."} & set(segments)
        assert ":" not in uri(one)
        assert all(c.isascii() and c.isprintable() for c in uri(one))
    assert unquote(uri(results(made)[2])).startswith("../../etc/passwd/")


def test_markdown_of_the_help_forms_nothing_but_its_own_links() -> None:
    for rule in run(hostile_report())["tool"]["driver"]["rules"]:
        text = rule["help"]["markdown"].replace("**What to do:**", "")
        for line in text.split("\n"):
            rest = re.sub(r"^- \[(.*)\]\(<https?://[^<>\s]*>\)$", r"\1", line)
            assert not set(rest) & set("<>[]`|@!"), line
            assert "://" not in rest


GREEN = (
    result("A-1", Verdict.PASSED),
    result("A-2", Verdict.WARNED, [subject("n", Verdict.WARNED)]),
    result("A-3", Verdict.NOT_APPLICABLE),
)


def errors(made: Report, held: ChaosReport | None = None) -> tuple[list[str], list[str]]:
    """Ids of the rules with an error, and the invocation's notifications of that level."""
    document = json.loads(sarif.render(made, held))
    assert not list(VALIDATOR.iter_errors(document))
    [one] = document["runs"]
    assert all(one["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == found["ruleId"] for found in one["results"])
    notices = one["invocations"][0].get("toolExecutionNotifications", [])
    red = [found["ruleId"] for found in one["results"] if (found["kind"], found["level"]) == ("fail", "error")]
    return red, [notice["message"]["text"] for notice in notices if notice["level"] == "error"]


@each_row
@pytest.mark.parametrize(
    "more",
    [
        [],
        [result("B-1", Verdict.INCONCLUSIVE, [subject("n", Verdict.INCONCLUSIVE)])],
        [result("B-1", Verdict.ERROR)],
        [result("B-1", Verdict.FAILED, [subject("n", Verdict.FAILED)], access=Access.WORKLOAD)],
    ],
    ids=["nothing explains it", "undecided", "an error", "a probe, which is no rule"],
)
def test_a_run_that_ended_badly_is_never_green(verdict: Verdict, code: int, more: list[Result]) -> None:
    made = report([*GREEN, *more], verdict=verdict, exit_code=code)
    red, notices = errors(made)
    assert red == ["run"]
    assert any(f"exit code {code}" in text for text in notices)
    invocation = run(made)["invocations"][0]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (code, code == 1)
    assert invocation["exitCodeDescription"]


def test_the_result_of_the_run_is_the_first_and_stays_when_results_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MAX_RESULTS", 20)
    many = result("B-1", Verdict.WARNED, [subject(f"n{number}", Verdict.WARNED) for number in range(sarif.MAX_RESULTS + 1)])
    made = report([many], verdict=Verdict.ERROR, exit_code=3)
    assert errors(made)[0] == ["run"]
    assert (results(made)[0]["ruleId"], uri(results(made)[0]), len(results(made))) == ("run", "Run", sarif.MAX_RESULTS)
