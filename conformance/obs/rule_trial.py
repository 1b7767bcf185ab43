"""Whether an alert rule fires on a fault, by ``promtool test rules`` over a scrape of this cluster in which one device has the fault.

Facts: docs/facts/telemetry.md#alert-rules.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from conformance.obs.page import plain_name
from conformance.obs.promql import Expression
from conformance.outputs.dcgm import is_blank
from conformance.outputs.metric_samples import Sample
from fixtures.text import yaml_text

_HEALTHY, _LEAST = 60, 7200.0
_STEPS = 2000
_SECONDS = 20


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a series goes over to the fault: ``from`` one value ``to`` another, which ``grows`` each minute, or ``by`` so much."""

    start: float | None = msgspec.field(default=None, name="from")
    to: float = 0.0
    by: float = 0.0
    grows: float = 0.0


class Situation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule has to fire on. ``absent``: series of the exporter end."""

    text: str
    series: tuple[str, ...]
    changes: Mapping[str, Change]
    absent: bool = False


@functools.cache
def situations() -> dict[str, Situation]:
    """Every situation by its name in the policy."""
    return yaml_text.packaged(Path(__file__).with_name("situations.yaml"), dict[str, Situation])


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: an alert, or (``records``) a series that others are made of. ``where`` is the object or file that holds it."""

    name: str
    where: str
    expr: str
    wait: str = ""
    records: bool = False


def promtool() -> str:
    """Where promtool is; empty where it is not on PATH."""
    return shutil.which("promtool") or ""


def series_of(situation: Situation, expression: Expression, scrape: Sequence[Sample]) -> list[dict[str, str]]:
    """The series that an expression names, healthy for an hour and then with the fault, as promtool writes them."""
    found = []
    for sample in scrape:
        if sample.name not in expression.series or is_blank(sample.value):
            continue
        change = situation.changes.get(plain_name(sample.name))
        before, after, step = sample.value, f"{sample.value:g}", 0.0
        if change is not None:
            before = sample.value if change.start is None else change.start
            after, step = f"{before + change.by if change.by else change.to:g}", change.grows
        elif situation.absent:
            after = "_"
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(sample.labels.items()))
        later = f"_x{_STEPS}" if after == "_" else f"{after}+{step:g}x{_STEPS}"
        found.append({"series": f"{sample.name}{{{labels}}}", "values": f"{before:g}x{_HEALTHY} {later}"})
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def fires(rule: Rule, records: Iterable[Rule], series: Sequence[Mapping[str, str]], longest: float) -> str:
    """Empty where the alert fires at some time after the fault began, else why not, as a clause.

    ``records`` are what the expression is made of, ``longest`` the longest time that it or the alert looks back, in seconds.
    """
    step = max(60.0, 2 * longest / _STEPS)
    horizon = int(_HEALTHY * step + max(_LEAST, 2 * longest))
    group = [*({"record": one.name, "expr": one.expr} for one in records), {"alert": "Tried", "expr": rule.expr, "for": rule.wait or "0s"}]
    asked = f'count(max_over_time(ALERTS{{alertname="Tried",alertstate="firing"}}[{horizon}s])) > bool 0'
    expected = {"expr": asked, "eval_time": f"{horizon}s", "exp_samples": [{"labels": "{}", "value": 1}]}
    trial = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{step:.0f}s",
        "tests": [{"interval": f"{step:.0f}s", "input_series": list(series), "promql_expr_test": [expected]}],
    }
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-rules-") as folder:
        Path(folder, "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "tried", "rules": group}]}), encoding="utf-8")
        Path(folder, "trial.yaml").write_text(yaml.safe_dump(trial), encoding="utf-8")
        try:
            command = [promtool(), "test", "rules", "trial.yaml"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"promtool gave no answer ({type(error).__name__})"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    broken = next((line.strip() for line in lines if "parse error" in line or "unknown" in line), "")
    return f"it cannot be evaluated: {broken[:200]}" if broken else "it does not fire"
