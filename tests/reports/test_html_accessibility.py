"""The page as keyboards and screen readers meet it: axe-core finds nothing serious, and every control can be reached."""

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports.merge import history_views
from reports.merge.fleet import Fleet, Named, merge
from reports.merge.history import Histories, entry_of
from reports.merge.views import to_html
from tests.reports.browser import find_browser
from tests.reports.chaos_samples import bare, mixed_chaos
from tests.reports.page_reports import fleet_report, full_report
from tests.reports.report_browser import Browser
from tests.reports.sample_report import hostile_report, sample_report
from tests.reports.test_merge import NOW, a_run
from tests.tables import each_row

pytestmark = [
    pytest.mark.test_all,
    pytest.mark.skipif(find_browser() is None, reason="no chromium or google-chrome on PATH"),
    pytest.mark.xdist_group("browser"),
]

SERIOUS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.impact} ${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`))
"""


PAGES: dict[str, tuple[Report, ChaosReport | None]] = {
    "full": (full_report(), mixed_chaos()),
    "hostile": (hostile_report(), None),
    "fleet": (fleet_report(), None),
    "chaos alone": (bare(mixed_chaos()), mixed_chaos()),
}


def a_fleet() -> Fleet:
    runs = [Named(a_run("good", Verdict.PASSED)), Named(a_run("bad", Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE))]
    runs += [
        Named(sample_report(TargetKind.SIMULATED)),
        Named(sample_report(TargetKind.SNAPSHOT), "saved"),
        Named(hostile_report(), "hostile"),
    ]
    return merge(runs, unreadable=["x/report.json: cannot read the report"], now=NOW)


@each_row
def test_nothing_serious_stands_in_the_way(browser: Browser, axe: str, page: str, scheme: str, width: int) -> None:
    browser.send("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    if page == "clusters":
        browser.show(to_html(a_fleet()))
    elif page == "history":
        browser.show(
            history_views.to_html(Histories([entry_of(a_run("a", *one)) for one in ([Verdict.PASSED], [Verdict.FAILED])], ["a note"]), NOW)
        )
    else:
        report, chaos = PAGES[page]
        browser.open(report, "", chaos)
    browser.run("document.querySelectorAll('details').forEach((one, index) => { one.open = index % 3 === 0; })")
    browser.run(axe)
    assert browser.run(SERIOUS) == []


def test_the_check_finds_what_is_wrong(browser: Browser, axe: str) -> None:
    browser.open(full_report())
    browser.run("(() => { const one = document.createElement('button'); document.querySelector('main').append(one); })()")
    browser.run(axe)
    assert any("button-name" in one for one in browser.run(SERIOUS))


def test_the_page_of_many_clusters_runs_no_script_and_does_not_grow_wider_than_the_window(browser: Browser) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    browser.show(to_html(a_fleet()))
    assert browser.run("window.pwned === undefined && document.scripts.length === 0")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelectorAll('.grid tbody tr').length") == 5
