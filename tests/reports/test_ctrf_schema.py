"""ctrf.json against the JSON Schema of CTRF 1.0."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports.formats import ctrf
from tests.reports.chaos_samples import bare, hostile_chaos, mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report

SCHEMA = json.loads(Path(__file__).with_name("schemas").joinpath("ctrf-1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)


def problems(text: str) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message}"[:300] for error in VALIDATOR.iter_errors(json.loads(text))]


@pytest.mark.parametrize(
    ("made", "chaos"),
    [
        *((sample_report(kind), None) for kind in TargetKind),
        (sample_report(), mixed_chaos()),
        (hostile_report(), None),
        (bare(hostile_chaos()), hostile_chaos()),
        (report([], exit_code=5), None),
        (report([result("", Verdict.ERROR, title="", area="")]), None),
        (large_report(300, 40), None),
    ],
)
def test_ctrf_satisfies_its_schema(made: Report, chaos: ChaosReport | None) -> None:
    assert problems(ctrf.render(made, chaos)) == []


def test_ctrf_satisfies_its_schema_whatever_the_lengths_of_time() -> None:
    made = report([result(f"A-{i}", Verdict.PASSED, duration_seconds=s) for i, s in enumerate((-1.0, float("nan"), float("inf"), 1e300))])
    made.run.duration_seconds = float("nan")
    assert problems(ctrf.render(made)) == []
