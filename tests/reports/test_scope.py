"""Every view says how much the verdict rests on, and none calls a selection conformant."""

import json
from xml.etree import ElementTree as ET

import msgspec
import pytest

from fixtures.verdict.coverage import Asked, measure
from fixtures.verdict.record import FindingCause, Level, Remedy, Report, Target, TargetKind, Verdict, decode_report, encode
from reports import phrases
from reports.formats import ctrf, html, junit, markdown, openmetrics
from reports.page.matrix import matrix
from reports.terminal import summary
from tests.reports.sample_report import report, result, sample_report, subject
from tests.reports.test_html import Document

ASKED = [Asked(id=f"A-{n:02}", title=f"Title {n}", area="A", level=Level.MUST) for n in range(1, 5)]
GOOD = [result(f"A-{n:02}", Verdict.PASSED, [subject("n")]) for n in range(1, 4)]
WITHIN = "within the selection: 3 of 4 requirements judged; not judged: 1 (A-04), left out by -k mig"
ABSENT = "3 of 4 requirements judged; not judged: 1 (A-04), because the cluster has nothing that they judge"
SHORT = "3 requirements were judged, and --min-judged asks for 4"


def selected() -> Report:
    made = report(GOOD)
    made.scope = measure(ASKED, GOOD, {"A-04": "-k mig"})
    return made


def whole() -> Report:
    results = [*GOOD, result("A-04", Verdict.NOT_APPLICABLE, reason_code="NoSharing", message="no node shares its devices")]
    made = report(results)
    made.scope = measure(ASKED, results, {})
    return made


def short() -> Report:
    made = whole()
    assert made.scope is not None
    made.verdict, made.exit_code = Verdict.INCONCLUSIVE, 10
    made.scope.shortfalls, made.scope.notes = [SHORT], ["a note"]
    return made


def lacking() -> Report:
    results = [*GOOD, result("A-04", Verdict.NOT_APPLICABLE, reason_code="NotInSnapshot", message="the snapshot holds no pods")]
    made = report(results)
    made.scope = measure(ASKED, results, {})
    return made


def last_line(made: Report) -> str:
    return summary.summary(made, width=120, colour=False, report_path="r.html").splitlines()[-1]


def test_the_last_line_of_the_terminal() -> None:
    assert last_line(whole()) == f"CONFORMANT: {ABSENT}; exit code 0 (conformant: no gating requirement failed), report r.html"
    assert last_line(selected()) == (
        f"PASSED WITHIN THE SELECTION: {WITHIN}; exit code 0 (no gating requirement of the selection failed), report r.html"
    )
    assert last_line(lacking()) == (
        "PASSED WITHIN THE SNAPSHOT: 3 of 4 requirements judged; not judged: 1 (A-04), because the snapshot holds no pods; "
        "exit code 0 (no gating requirement failed among those that the snapshot can answer), report r.html"
    )
    assert last_line(short()) == f"INCONCLUSIVE: {ABSENT}; exit code 10 (inconclusive: {SHORT}), report r.html"


def test_the_record_keeps_it() -> None:
    scope = decode_report(encode(selected())).scope
    assert scope is not None
    assert (scope.sentence, scope.judged, scope.requirements) == (WITHIN, 3, 4)
    assert json.loads(encode(selected()))["scope"]["notJudged"] == [
        {"id": "A-04", "title": "Title 4", "area": "A", "level": "MUST", "cause": "selection", "because": "left out by -k mig"}
    ]


def test_the_page_says_it_above_everything_else() -> None:
    words = Document(html.render(selected())).words
    assert "Passed within the selection 3 of 4 requirements judged" in words
    assert "1 left out by -k mig: A-04" in words
    assert "Conformant" not in words
    assert SHORT in Document(html.render(short())).words


@pytest.mark.parametrize("made", [selected(), lacking(), short()], ids=["selected", "lacking", "short"])
def test_no_view_calls_it_conformant(made: Report) -> None:
    assert not last_line(made).startswith("CONFORMANT")
    assert not markdown.render(made).splitlines()[0].endswith("Conformant")
    assert '\ngpu_conformance_conformant{target="live"} 0\n' in openmetrics.render(made)


def test_ctrf_says_it() -> None:
    scope = json.loads(ctrf.render(short()))["results"]["summary"]["extra"]["scope"]
    assert scope == {
        "sentence": ABSENT,
        "requirements": 4,
        "judged": 3,
        "notJudged": {"absent": 1},
        "shortfalls": [SHORT],
        "notes": ["a note"],
    }


def test_junit_says_it_and_a_shortfall_is_a_red_case() -> None:
    root = ET.fromstring(junit.render(whole()))
    assert [one.get("value") for one in root.iter("property") if one.get("name") == "scope"] == [ABSENT]
    assert root.get("errors") == "0"
    red = ET.fromstring(junit.render(short()))
    assert red.get("errors") == "1"
    error = next(red.iter("error"))
    assert (error.get("message"), error.text) == (f"{SHORT}; exit code 10", SHORT)


def test_metrics_count_it_by_cause() -> None:
    text = openmetrics.render(selected())
    for line in (
        'requirements_known{target="live"} 4',
        'requirements_judged{target="live"} 3',
        'requirements_not_judged{cause="selection",target="live"} 1',
        'requirements_not_judged{cause="absent",target="live"} 0',
        'scope_shortfalls{target="live"} 0',
    ):
        assert f"\ngpu_conformance_{line}\n" in text


def test_a_record_of_schema_1_0_tells_of_its_results_alone() -> None:
    document = json.loads(encode(sample_report()))
    del document["scope"]
    read = decode_report(json.dumps(document | {"schemaVersion": "1.0"}).encode())
    assert "10 of the 14 requirements in this record judged" in last_line(read)
    assert "10 of the 14 requirements in this record judged" in Document(html.render(read)).words


def test_a_simulated_cluster_that_a_kubeconfig_leads_to_tells_neither_scenario_nor_defects() -> None:
    target = Target(kind=TargetKind.SIMULATED, server="http://127.0.0.1:1")
    assert phrases.simulation(target) == "scenario and defects not known"
    assert phrases.simulation(msgspec.structs.replace(target, scenario="healthy")) == "scenario healthy, defects none"


@pytest.mark.parametrize(("blames", "cells"), [(True, {"gpu-0": [Verdict.FAILED]}), (False, {})])
def test_the_matrix_shows_a_pod_on_its_node_where_the_cause_is_the_nodes(blames: bool, cells: dict[str, list[Verdict]]) -> None:
    cause = FindingCause(code="Odd", title="Odd", remedy=Remedy.LOOK, advice="Look.", blames_node=blames)
    made = report([result("A-01", Verdict.FAILED, [subject("p", Verdict.FAILED, kind="Pod", node="gpu-0", cause="Odd")])])
    made.causes = [cause]
    found = matrix(made)
    assert ({row.nodes[0]: row.cells for row in found.rows if any(row.cells)} if found else {}) == cells
