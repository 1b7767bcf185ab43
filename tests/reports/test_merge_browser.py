"""The fleet's page in a browser: axe-core finds nothing serious, it loads and runs nothing, and it stays within a narrow window."""

from __future__ import annotations

import pytest

from fixtures.verdict.record import TargetKind, Verdict
from reports.merge.fleet import Fleet, Named, merge
from reports.merge.views import to_html
from tests.reports.browser import find_browser
from tests.reports.report_browser import Browser
from tests.reports.sample_report import hostile_report, sample_report
from tests.reports.test_html_accessibility import SERIOUS
from tests.reports.test_merge import NOW, a_run

pytestmark = [
    pytest.mark.test_all,
    pytest.mark.skipif(find_browser() is None, reason="no chromium or google-chrome on PATH"),
    pytest.mark.xdist_group("browser"),
]


def a_fleet() -> Fleet:
    runs = [Named(a_run("good", Verdict.PASSED)), Named(a_run("bad", Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE))]
    runs += [
        Named(sample_report(TargetKind.SIMULATED)),
        Named(sample_report(TargetKind.SNAPSHOT), "saved"),
        Named(hostile_report(), "hostile"),
    ]
    return merge(runs, unreadable=["x/report.json: cannot read the report"], now=NOW)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_nothing_serious_stands_in_the_way_of_a_reader(browser: Browser, axe: str, scheme: str, width: int) -> None:
    browser.send("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.show(to_html(a_fleet()))
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.run(axe)
    assert browser.run(SERIOUS) == []


def test_it_runs_no_script_and_does_not_grow_wider_than_the_window(browser: Browser) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    browser.show(to_html(a_fleet()))
    assert browser.run("window.pwned === undefined && document.scripts.length === 0")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelectorAll('.grid tbody tr').length") == 5
