"""Alert rules and board: each rule fires on the metrics of a cluster with its defect, none on those of a healthy one."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from conformance.catalogue import load_catalogue
from conformance.plugin.verdict import unjudged
from deploy.monitoring import RULES, alert_name, board, files, rule_object
from fixtures.simulator.config.scenario import Defect, ScenarioError, defect_names, load_defect, load_scenario
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.verdict.coverage import measure
from fixtures.verdict.record import Access, Level, Report, TargetKind, Verdict
from reports.formats.openmetrics import render
from tests.endtoend.runs import run_suite
from tests.reports.sample_report import report
from tests.requirements_offline import NOW, healthy

CATALOGUE = load_catalogue()
ASKED = tuple(f"gpu_conformance_{name}" for name in ("requirement{", "exit_code", "residue_objects", "last_run_timestamp_seconds"))
STARTED = "1970-01-01T00:00:00Z"
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


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


def series(metrics: str) -> list[dict[str, str]]:
    lines = [line.rpartition(" ") for line in metrics.splitlines() if line.startswith(ASKED)]
    return [{"series": name, "values": f"{value}x40"} for name, _, value in lines]


def case(name: str, made: Report | str, *alerts: str, at: str = "1m") -> dict[str, object]:
    """The metrics of a run every minute, or every hour of a test that takes longer, and the alerts that fire."""
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    tests = [{"expr": FIRING, "eval_time": at, "exp_samples": samples}]
    metrics = series(made if isinstance(made, str) else render(made))
    return {"name": name, "interval": "1h" if at.endswith("h") else "1m", "input_series": metrics, "promql_expr_test": tests}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rules")
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on PATH (Debian's package prometheus has it)")
    (made / "rules.yaml").write_text(yaml.safe_dump(rule_object(CATALOGUE)["spec"]))
    return made


def promtool(folder: Path, *cases: dict[str, object], every: str = "1m") -> tuple[int, str]:
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": list(cases)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", "tests.yaml"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def test_each_rule_fires_on_its_defect_and_none_on_a_healthy_cluster(folder: Path) -> None:
    tripped = {frozenset(load_defect(name).trips): name for name in defect_names()}
    cases = [case(name, judged(ids), *map(alert_name, ids)) for ids, name in tripped.items()]
    assert {one for ids in tripped for one in ids} == set(CATALOGUE.by_id)
    code, text = promtool(folder, case("healthy", judged()), *cases)
    assert code == 0, text[-3000:]


EXCUSES = "upg-too-many-nodes-at-once"
"""What is wrong with a node whose driver is being replaced is no finding: this one would hide what the others break."""


def broken(scenario: str) -> Iterator[str]:
    """Defects of a scenario that reading sees, for as many requirements as can be broken at once: some stand on what others take away."""
    objects, chosen, seen = healthy(load_scenario(scenario)), list[Defect](), set[str]()
    for defect in sorted(map(load_defect, defect_names()), key=lambda one: len(one.trips)):
        reads = all(CATALOGUE.by_id[one].access is Access.READ for one in defect.trips) and not defect.denied
        if defect.scenario == scenario and reads and defect.name != EXCUSES and not seen.issuperset(defect.trips):
            with suppress(ScenarioError):
                with_defects(deepcopy(objects), [*chosen, defect], NOW)
                chosen.append(defect)
                seen.update(defect.trips)
                yield defect.name


def severities(critical: int, warning: int) -> list[dict[str, object]]:
    counts = {"critical": critical, "warning": warning}
    samples = [{"labels": f'{{severity="{name}"}}', "value": count} for name, count in counts.items() if count]
    return [{"expr": FIRING.replace("alertname", "severity"), "eval_time": "1m", "exp_samples": samples}]


def test_the_metrics_of_a_run_raise_the_alerts_of_what_it_judged(folder: Path, tmp_path: Path) -> None:
    """Of a simulated cluster, so they are those of a real one but for their target."""
    cases: list[dict[str, object]] = []
    for name, defects in (("healthy", ()), ("broken", tuple(broken("healthy")))):
        (place := tmp_path / name).mkdir()
        done = run_suite(place, "--simulate", ",".join(["healthy", *defects]), "--read-only")
        red = [one.id for one in done.record.results if one.verdict in (Verdict.FAILED, Verdict.WARNED)]
        critical = sum(one.verdict is Verdict.FAILED and one.level is Level.MUST for one in done.record.results)
        assert (done.code, len(red) > 50) == ((1, True) if defects else (0, False)), done.output[-3000:]
        metrics = (place / "report" / "metrics.prom").read_text()
        cases += [case(f"{name}, simulated", metrics)]
        cases += [case(name, metrics.replace('target="simulated"', 'target="live"'), *map(alert_name, red))]
        cases += [{**cases[-1], "name": f"{name}, severities", "promql_expr_test": severities(critical, len(red) - critical)}]
    code, text = promtool(folder, *cases)
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
