"""Alerts that the generated rules raise on the metrics of runs, as promtool evaluates them."""

import shutil
import subprocess
from pathlib import Path

import yaml

from conformance.catalogue import load_catalogue
from deploy.monitoring import NEVER_FAILED, alert_name, rule_object
from fixtures.verdict.record import Report, Verdict
from reports.formats.openmetrics import render

PROMTOOL = shutil.which("promtool")
ASKED = tuple(f"gpu_conformance_{name}" for name in ("requirement{", "exit_code", "residue_objects", "last_run_timestamp_seconds"))
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def write_rules(folder: Path) -> Path:
    """A folder with the rules, for :func:`promtool`."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule_object(load_catalogue())["spec"]))
    return folder


def series(metrics: str) -> list[dict[str, str]]:
    lines = [line.rpartition(" ") for line in metrics.splitlines() if line.startswith(ASKED)]
    return [{"series": name, "values": f"{value}x40"} for name, _, value in lines]


def case(name: str, made: Report | str, *alerts: str, at: str = "1m") -> dict[str, object]:
    """The metrics of a run every minute, or every hour of a test that takes longer, and the alerts that fire."""
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    tests = [{"expr": FIRING, "eval_time": at, "exp_samples": samples}]
    metrics = series(made if isinstance(made, str) else render(made))
    return {"name": name, "interval": "1h" if at.endswith("h") else "1m", "input_series": metrics, "promql_expr_test": tests}


def promtool(folder: Path, *cases: dict[str, object], every: str = "1m") -> tuple[int, str]:
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": list(cases)}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", "tests.yaml"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def live(metrics: str) -> str:
    """The metrics of a simulated cluster, which raise no alert, as those of a real one."""
    return metrics.replace('target="simulated"', 'target="live"')


def raised_by(report: Report) -> list[str]:
    """The alerts of what a run found: of each requirement that does not hold, and of what it could not judge."""
    red = [one.id for one in report.results if one.verdict in (Verdict.FAILED, Verdict.WARNED)]
    red += [one.id for one in report.results if one.verdict is Verdict.INCONCLUSIVE and one.id == NEVER_FAILED]
    return [*map(alert_name, red), *(["GPUConformanceNotKnown"] if report.exit_code == 10 else [])]
