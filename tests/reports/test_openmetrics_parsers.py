"""metrics.prom as the parsers of Prometheus' own Python client read it, in the classic format and as OpenMetrics."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as classic_families

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind
from reports.formats import openmetrics
from tests.reports.chaos_samples import bare, hostile_chaos, mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, report, sample_report

REPORTS = pytest.mark.parametrize(
    ("made", "chaos"),
    [
        *((sample_report(kind), None) for kind in TargetKind),
        (sample_report(), mixed_chaos()),
        (hostile_report(), None),
        (bare(hostile_chaos()), hostile_chaos()),
        (report([], exit_code=5), None),
        (large_report(300, 3), None),
    ],
)
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def classic(made: Report, chaos: ChaosReport | None = None) -> Series:
    families = classic_families(openmetrics.render(made, chaos))
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def strict(made: Report, chaos: ChaosReport | None = None) -> Series:
    families = openmetrics_families(openmetrics.render(made, chaos, openmetrics=True))  # type: ignore[no-untyped-call]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


@REPORTS
def test_both_parsers_read_the_same_series(made: Report, chaos: ChaosReport | None) -> None:
    found = classic(made, chaos)
    assert found == strict(made, chaos)
    lines = [line for line in openmetrics.render(made, chaos).splitlines() if not line.startswith("#")]
    assert len(found) == len(lines), "no series is lost, none is there twice"


@REPORTS
def test_every_family_has_help_and_a_type(made: Report, chaos: ChaosReport | None) -> None:
    families = list(classic_families(openmetrics.render(made, chaos)))
    assert all(family.documentation.endswith(".") for family in families)
    assert {family.type for family in families} == {"gauge"}
    assert len({family.name for family in families}) == len(families)


def test_values_are_those_of_the_record() -> None:
    found = classic(sample_report())
    target = ("target", "simulated")
    assert found["gpu_conformance_exit_code", frozenset({target})] == 1
    assert found["gpu_conformance_requirements", frozenset({target, ("verdict", "failed")})] == 2
    assert found["gpu_conformance_subjects_judged", frozenset({target, ("id", "FENCE-01")})] == 8
