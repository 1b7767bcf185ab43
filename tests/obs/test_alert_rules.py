"""Alert rules: the series that they name, and whether they fire on a fault. Reports: LLMKube#1356, dcgm-exporter#310, dcgm-exporter#348."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conformance.obs.alert_rules import (
    check_rules,
    fires,
    promtool,
    read_expression,
    rules_of_files,
    scrape_of,
    seconds,
    series_of,
    situations,
    unserved,
)
from conformance.obs.page import read_page
from conformance.obs.scraping import Scrape
from fixtures.model.platform.exporters import Exporter, kinds
from fixtures.model.platform.monitoring import Rule
from fixtures.simulator.builder.installation import raw
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.obs.test_owners import labelled
from tests.obs.test_pages import WHOLE, later, page
from tests.tables import each_row

needs_promtool = pytest.mark.skipif(not promtool(), reason="promtool is not on PATH (Debian's package prometheus has it)")
OWN = next(item for item in raw("prometheus.yaml") if item["kind"] == "PrometheusRule")


@each_row
def test_the_names_of_series_are_read_and_nothing_else(text: str, names: str) -> None:
    assert read_expression(text).series == frozenset(names.split())


def test_ranges_and_durations_are_seconds() -> None:
    assert [seconds(text) for text in ("90m", "1h30m", "1d:5m", "")] == [5400, 5400, 86_400, 0]
    assert read_expression("a[5m] + max_over_time(b[2h:1m])").longest == 7200


@each_row
def test_a_rule_on_what_no_exporter_serves_is_dead(node: str, expr: str, missing: list[str]) -> None:
    name, _, release = node.partition(" ")
    text = later(page(name)) if release else page(name)
    assert unserved(read_expression(expr), read_page(text).series) == missing


def scraped(node: str = WHOLE) -> tuple[Any, Exporter]:
    scope = a_scope(nodes=[a_node(node, gpus=4)])
    pod = a_pod("exporter-x", "gpu-operator", owner="DaemonSet/nvidia-dcgm-exporter", node=node)
    return scope, Exporter(node=node, pod=pod, kind=kinds()[0])


@needs_promtool
@each_row
def test_a_rule_is_tried_on_the_scrape_of_its_fault(situation: str, expr: str, wait: str, fired: bool) -> None:
    assert (tried(situation, expr, wait, labelled(page(), 0)) == "") is fired


@needs_promtool
@each_row
def test_a_rule_by_the_names_of_dcgm_exporter_4_9_is_tried(situation: str, expr: str, wait: str, fired: bool) -> None:
    assert (tried(situation, expr, wait, later(labelled(page(), 0))) == "") is fired


def tried(situation: str, expr: str, wait: str, text: str) -> str:
    """Why a rule does not fire on the fault of a page."""
    scope, exporter = scraped()
    scrape = scrape_of(scope, exporter, read_page(text))
    expression = read_expression(expr)
    series = series_of(situations()[situation], expression, scrape)
    return fires(Rule(name="x", where="here", expr=expr, wait=wait), [], series, max(expression.longest, seconds(wait)))


@needs_promtool
@pytest.mark.parametrize(
    ("rules", "causes"),
    [
        (OWN["spec"]["groups"][0]["rules"], {}),
        ([], dict.fromkeys(situations(), "RuleMissing")),
        (
            [{"record": "gpu:xid", "expr": "max by (gpu) (DCGM_FI_DEV_XID_ERRORS)"}, {"alert": "Xid", "expr": "gpu:xid > 0"}],
            {name: "RuleMissing" for name in situations() if name != "xid"},
        ),
        (
            [*OWN["spec"]["groups"][0]["rules"][2:], {"alert": "Xid", "expr": 'DCGM_FI_DEV_XID_ERRORS{gpu="9"} > 0'}],
            {"xid": "RuleNeverFires", "allocatable": "RuleMissing"},
        ),
    ],
)
def test_each_situation_needs_an_alert_that_fires(tmp_path: Path, rules: list[dict[str, Any]], causes: dict[str, str]) -> None:
    _, exporter = scraped()
    objects = [{"metadata": {"name": "r", "namespace": "monitoring"}, "spec": {"groups": [{"name": "g", "rules": rules}]}}]
    scope = a_scope(a_policy(), nodes=[a_node(WHOLE, gpus=4)], prometheusrules=objects)
    one = Scrape(exporter=exporter, at=0.0, page=read_page(labelled(page(), 0)))
    findings = check_rules(scope, SimpleNamespace(pages=lambda: {WHOLE: one}))  # type: ignore[arg-type]
    assert {found.subject.name: found.cause for found in findings if found.outcome is Outcome.BAD} == causes


@needs_promtool
@pytest.mark.parametrize("first", [str, later])
@pytest.mark.parametrize(
    "rules",
    [
        [{"alert": "Xid", "expr": "DCGM_FI_DEV_XID_ERRORS > 0 or DCGM_FI_DEV_XID_ERROR > 0"}],
        [{"alert": "Xid", "expr": "DCGM_FI_DEV_XID_ERRORS > 0"}, {"alert": "XidNow", "expr": "DCGM_FI_DEV_XID_ERROR > 0"}],
        [{"record": "gpu:xid", "expr": "DCGM_FI_DEV_XID_ERRORS or DCGM_FI_DEV_XID_ERROR"}, {"alert": "Xid", "expr": "gpu:xid > 0"}],
    ],
)
def test_alerts_by_both_names_fire_where_the_releases_of_exporters_differ(first: Any, rules: list[dict[str, Any]]) -> None:
    objects = [{"metadata": {"name": "r", "namespace": "monitoring"}, "spec": {"groups": [{"name": "g", "rules": rules}]}}]
    scope = a_scope(a_policy(metrics={"alerts": ["xid"]}), nodes=[a_node(WHOLE, gpus=4)], prometheusrules=objects)
    forms = {WHOLE: first, "h100-1": str if first is later else later}
    ones = {
        node: Scrape(exporter=msgspec.structs.replace(scraped()[1], node=node), at=0.0, page=read_page(form(labelled(page(), 0))))
        for node, form in forms.items()
    }
    findings = list(check_rules(scope, SimpleNamespace(pages=lambda: ones)))  # type: ignore[arg-type]
    assert {found.outcome for found in findings} == {Outcome.OK}, findings


def test_files_of_rules_are_read_or_named(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("groups: [{name: g, rules: [{alert: A, expr: up == 0, for: 5m}, {record: b, expr: sum(c)}]}]")
    assert [(rule.name, rule.wait, rule.records) for rule in rules_of_files([str(file)])] == [("A", "5m", False), ("b", "", True)]
    with pytest.raises(Inconclusive, match=r"missing\.yaml"):
        list(rules_of_files([str(tmp_path / "missing.yaml")]))
