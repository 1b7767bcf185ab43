"""JUnit, CTRF and metrics by the schemas and parsers of those who read them, and against text that gives orders."""

import json
from pathlib import Path

import jsonschema
import pytest
from lxml import etree
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as classic_families

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports.formats import ctrf, junit, openmetrics
from tests.reports.chaos_samples import bare, hostile_chaos, mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report, subject

REPOSITORY = Path(__file__).parents[2]
SCHEMA = Path(__file__).with_name("schemas") / "jenkins-junit.xsd"


@pytest.fixture(scope="module")
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(SCHEMA)))


def parsed(made: Report, chaos: ChaosReport | None = None) -> etree._Element:
    return etree.fromstring(junit.render(made, chaos).encode(), etree.XMLParser(resolve_entities=False, no_network=True))


def odd_report() -> Report:
    """Empty names, and lengths of time that are none."""
    made = report([result("", Verdict.FAILED, area="", title="", duration_seconds=float("nan"))])
    made.results += [result("A-1", Verdict.WAIVED, duration_seconds=-3.0), result("A-2", Verdict.NOT_APPLICABLE, duration_seconds=1e300)]
    made.run.duration_seconds = float("inf")
    made.run.started_at = "yesterday"
    return made


@pytest.mark.parametrize(
    ("made", "chaos"),
    [
        *((sample_report(kind), None) for kind in TargetKind),
        (sample_report(), mixed_chaos()),
        (bare(mixed_chaos()), mixed_chaos()),
        (hostile_report(), None),
        (bare(hostile_chaos()), hostile_chaos()),
        (report([], exit_code=5), None),
        (large_report(300, 40), None),
        (odd_report(), None),
    ],
)
def test_junit_satisfies_the_schema(schema: etree.XMLSchema, made: Report, chaos: ChaosReport | None) -> None:
    document = parsed(made, chaos)
    assert schema.validate(document), schema.error_log


def test_the_file_of_a_case_is_a_test_of_the_suite() -> None:
    areas = sorted(path.parent.name for path in (REPOSITORY / "conformance").glob("*/catalogue.yaml"))
    assert len(areas) > 10
    made = report([result(f"{area.upper()}-01", Verdict.PASSED) for area in areas])
    files = [case.get("file") for case in parsed(made).iter("testcase")]
    assert [(REPOSITORY / str(file)).is_file() for file in files] == [True] * len(areas)


def test_text_from_the_cluster_gives_jenkins_no_orders() -> None:
    order = "[[ATTACHMENT|/etc/passwd]] [[[PROPERTY|a=b]]]"
    made = report([result(f"A-{i}", verdict, [subject(order, Verdict.FAILED, observed=order)], message=order, remediation=order)
                   for i, verdict in enumerate(Verdict)])  # fmt: skip
    made.residue = [order]
    text = junit.render(made)
    assert "ATTACHMENT|/etc/passwd" in text, "the words are still there to read"
    assert "[[" not in text


def test_output_of_a_case_is_bounded() -> None:
    made = report([result("A-1", Verdict.FAILED, [subject("n" * 9_000, Verdict.FAILED, observed="o" * 9_000)] * 100,
                          remediation="r" * 90_000, references=["h" * 9_000] * 100)])  # fmt: skip
    assert max(len(element.text or "") for element in parsed(made).iter("failure")) < 51_000


@pytest.mark.parametrize(("line", "shown"), [(12, "12"), (0, None), (-1, None), (10**9, None)])
def test_a_case_names_the_line_of_its_test_where_that_is_known(line: int, shown: str | None, schema: etree.XMLSchema) -> None:
    document = parsed(report([result("FENCE-01", Verdict.PASSED, area="FENCE", line=line)]))
    assert [case.get("line") for case in document.iter("testcase")] == [shown]
    assert schema.validate(document), schema.error_log


CTRF_SCHEMA = json.loads(Path(__file__).with_name("schemas").joinpath("ctrf-1.0.json").read_text(encoding="utf-8"))
CTRF = jsonschema.Draft7Validator(CTRF_SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)


def problems(text: str) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message}"[:300] for error in CTRF.iter_errors(json.loads(text))]


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
