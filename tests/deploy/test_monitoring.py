"""Alert rules and board. Whether a rule fires on the metrics of its defect's run, ``tests/endtoend/test_matrix.py`` tries."""

import json
import re
from pathlib import Path

import pytest
import yaml

from conformance.catalogue import load_catalogue
from conformance.plugin.verdict import unjudged
from deploy.monitoring import RULES, alert_name, board, files
from fixtures.verdict.coverage import measure
from fixtures.verdict.record import Level, Report, TargetKind, Verdict
from reports.formats.openmetrics import render
from tests.deploy.alerts import FIRING, PROMTOOL, case, promtool, write_rules
from tests.reports.sample_report import report

CATALOGUE = load_catalogue()
STARTED = "1970-01-01T00:00:00Z"

pytestmark = pytest.mark.test_all


def judged(failing: frozenset[str] = frozenset(), kind: TargetKind = TargetKind.LIVE) -> Report:
    """A run in which these requirements do not hold, and all others do."""
    results = [unjudged(one) for one in CATALOGUE.by_id.values()]
    for one in results:
        fails = Verdict.FAILED if one.level is Level.MUST else Verdict.WARNED
        one.verdict, one.judged, one.total = (fails if one.id in failing else Verdict.PASSED), 1, 1
    made = report(results, kind=kind, exit_code=int(bool(failing)))
    made.scope = measure([], results, {})
    made.run.started_at = STARTED
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if PROMTOOL is None:
        pytest.skip("promtool is not on PATH (Debian's package prometheus has it)")
    return write_rules(tmp_path_factory.mktemp("rules"))


def test_each_requirement_raises_its_own_alert_and_none_if_it_holds(folder: Path) -> None:
    """The detection matrix tries the metrics of each defect's run."""
    names = list(CATALOGUE.by_id)
    cases = [case("all", judged(frozenset(names)), *map(alert_name, names)), case("none", judged())]
    code, text = promtool(folder, *cases)
    assert code == 0, text[-3000:]


def severities(critical: int, warning: int) -> list[dict[str, object]]:
    counts = {"critical": critical, "warning": warning}
    samples = [{"labels": f'{{severity="{name}"}}', "value": count} for name, count in counts.items() if count]
    return [{"expr": FIRING.replace("alertname", "severity"), "eval_time": "1m", "exp_samples": samples}]


def test_a_must_that_failed_is_critical_and_all_else_a_warning(folder: Path) -> None:
    made = judged(frozenset(CATALOGUE.by_id))
    failed = [one for one in made.results if one.verdict is Verdict.FAILED]
    failed[0].verdict = Verdict.WARNED
    critical = len(failed) - 1
    made_case = {**case("all", made), "promql_expr_test": severities(critical, len(made.results) - critical)}
    code, text = promtool(folder, made_case)
    assert code == 0, text[-3000:]


def test_a_simulated_cluster_raises_no_alert(folder: Path) -> None:
    failing = frozenset({"FENCE-01", "HW-01"})
    assert promtool(folder, *(case(kind.value, judged(failing, kind)) for kind in (TargetKind.SIMULATED, TargetKind.LOCAL)))[0] == 0


def test_a_run_that_did_not_judge_left_something_or_never_came_is_an_alert(folder: Path) -> None:
    unknown, left = judged(), judged()
    unknown.exit_code = 10
    left.exit_code, left.residue = 11, ["Pod x/y"]
    cases = [
        case("not known", unknown, "GPUConformanceNotKnown"),
        case("residue", left, "GPUConformanceResidue"),
    ]
    assert promtool(folder, *cases)[0] == 0
    assert promtool(folder, case("stale", judged(), "GPUConformanceRunMissing", at="27h"), every="1h")[0] == 0
    assert promtool(folder, case("fresh", judged(), at="25h"), every="1h")[0] == 0


def test_a_node_that_failed_and_a_verdict_that_nothing_ends_are_alerts(folder: Path) -> None:
    """As kube-state-metrics has them: the condition of a node, and when the sweep last succeeded."""

    def metrics(status: str, swept: int | None) -> list[dict[str, str]]:
        found = [{"series": f'kube_node_status_condition{{node="gpu-0",condition="GPUConformant",status="{status}"}}', "values": "1x40"}]
        cronjob = 'kube_cronjob_status_last_successful_time{cronjob="gpu-conformance-labels"}'
        return found if swept is None else [*found, {"series": cronjob, "values": f"{swept}x40"}]

    cases = [
        {**case("failed", judged(), "GPUConformanceNodeNotConformant", at="4h"), "input_series": metrics("false", None)},
        {**case("never swept", judged(), "GPUConformanceVerdictNotSwept", at="4h"), "input_series": metrics("true", None)},
        {**case("not swept any more", judged(), "GPUConformanceVerdictNotSwept", at="4h"), "input_series": metrics("true", 0)},
        {**case("swept", judged(), at="4h"), "input_series": metrics("true", 3 * 3600)},
    ]
    code, text = promtool(folder, *cases, every="1h")
    assert code == 0, text[-3000:]


def test_promtool_tells_a_rule_that_does_not_fire(folder: Path) -> None:
    assert promtool(folder, case("wrong", judged(), "GPUConformanceFENCE01"))[0] == 1


def test_the_board_asks_for_series_that_a_run_writes_and_has_every_area() -> None:
    held = set(re.findall(r"^(gpu_conformance_\w+)", render(judged()), re.MULTILINE))
    panels = board(CATALOGUE)["panels"]
    asked = {name for panel in panels for name in re.findall(r"gpu_conformance_\w+", panel["targets"][0]["expr"])}
    assert asked <= held
    assert {area.area for area in CATALOGUE.areas} <= {panel["title"].partition(":")[0] for panel in panels}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_the_files_are_those_of_the_folder() -> None:
    made = files(CATALOGUE)
    assert yaml.safe_load(made[RULES])["kind"] == "PrometheusRule"
    assert json.loads(made["observability/grafana-board.json"])["title"] == "GPU conformance"
