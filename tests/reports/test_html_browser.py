from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind
from reports.formats import html
from tests.reports.browser import Page, find_browser
from tests.reports.chaos_samples import bare, chaos, experiment, hostile_chaos, marks, mixed_chaos
from tests.reports.sample_report import hostile_report, large_report, sample_report

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no chromium or google-chrome on PATH")

SHOWN = "[...document.querySelectorAll('details.req')].filter(row => row.checkVisibility()).map(row => row.id)"


class Browser:
    """A page and the loop it lives in, for plain tests."""

    def __init__(self, runner: asyncio.Runner, page: Page, folder: Path) -> None:
        self._runner = runner
        self.page = page
        self._folder = folder

    def open(self, report: Report, fragment: str = "", chaos: ChaosReport | None = None) -> str:
        file = self._folder / "report.html"
        file.write_text(html.render(report, chaos), encoding="utf-8")
        self._runner.run(self.page.open("about:blank"))
        self._runner.run(self.page.open(file.as_uri() + fragment))
        return file.as_uri()

    def run(self, expression: str) -> Any:
        return self._runner.run(self.page.run(expression))

    def send(self, method: str, **params: object) -> Any:
        return self._runner.run(self.page.send(method, **params))

    def choose(self, control: str, value: str) -> None:
        self.run(
            f"(() => {{ const c = document.getElementById('filters').elements.{control}; c.value = {value!r};"
            " c.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({selector!r}).click()")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = find_browser()
    assert executable
    folder = tmp_path_factory.mktemp("browser")
    with asyncio.Runner() as runner:
        page = runner.run(Page(executable, folder / "profile").__aenter__())
        try:
            yield Browser(runner, page, folder)
        finally:
            runner.run(page.__aexit__(None, None, None))


def test_page_asks_for_nothing_but_itself_and_complains_about_nothing(browser: Browser) -> None:
    address = browser.open(sample_report())
    assert browser.page.requests == [address]
    assert browser.page.problems == []
    assert browser.run("document.styleSheets.length") == 1
    assert browser.run("getComputedStyle(document.querySelector('.banner')).backgroundColor") == "rgb(255, 210, 63)"
    assert "SIMULATED CLUSTER: scenario h100-8x" in browser.run("document.querySelector('.banner').innerText")


def test_filters_hide_and_show_the_right_rows(browser: Browser) -> None:
    browser.open(sample_report())
    everything = browser.run(SHOWN)
    assert len(everything) == 14
    fence = browser.run("[...document.querySelectorAll('select[name=area] option')].find(o => o.text === 'FENCE').value")
    browser.choose("area", fence)
    assert browser.run(SHOWN) == ["FENCE-01", "FENCE-05", "FENCE-10"]
    assert browser.run("document.querySelectorAll('section.area:not([hidden])').length") == 1
    browser.click("input[value=failed]")
    assert browser.run(SHOWN) == ["FENCE-01"]
    browser.choose("area", "")
    assert browser.run(SHOWN) == ["FENCE-01", "GANG-02"]
    assert browser.run("document.querySelector('output[name=shown]').value") == "2 of 14 shown"
    browser.click("input[value=waived]")
    assert browser.run(SHOWN) == ["FENCE-01", "REQ-02", "GANG-02"]
    browser.click("button[type=reset]")
    assert browser.run(SHOWN) == everything
    browser.choose("level", "SHOULD")
    assert browser.run(SHOWN) == ["FENCE-10", "OBS-01"]
    browser.click("button[type=reset]")
    browser.choose("q", "PREFERnoschedule gpu-005")
    assert browser.run(SHOWN) == ["FENCE-01"]
    browser.choose("q", "no such words")
    assert browser.run(SHOWN) == []
    assert browser.run("document.getElementById('nothing').checkVisibility()") is True
    assert browser.page.problems == []


def test_failed_requirement_opens_to_observed_expected_and_remediation(browser: Browser) -> None:
    browser.open(sample_report())
    assert "no taint" not in browser.run("document.getElementById('FENCE-01').innerText")
    browser.click("#FENCE-01 summary")
    text = browser.run("document.getElementById('FENCE-01').innerText")
    assert "no taint" in text
    assert "a taint of the allowed keys with NoSchedule or NoExecute" in text
    assert "kubectl taint nodes gpu-003 gpu-005 nvidia.com/gpu=present:NoSchedule" in text
    assert browser.run("[...document.querySelectorAll('#FENCE-01 .body a')].map(a => [a.protocol, a.rel])") == [
        ["https:", "noopener noreferrer"]
    ]


def test_link_to_a_requirement_opens_it_even_when_filtered_away(browser: Browser) -> None:
    browser.open(sample_report(), "#GANG-02")
    assert browser.run("document.getElementById('GANG-02').open") is True
    browser.choose("q", "FENCE-01")
    browser.run("new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = 'PSA-04'; })")
    assert browser.run("document.getElementById('PSA-04').checkVisibility() && document.getElementById('PSA-04').open") is True


def test_expand_and_collapse_act_on_what_is_shown(browser: Browser) -> None:
    browser.open(sample_report())
    browser.click("input[value=failed]")
    browser.click("button[data-do=expand]")
    assert browser.run("[...document.querySelectorAll('details.req[open]')].map(r => r.id)") == ["FENCE-01", "GANG-02"]
    browser.click("button[data-do=collapse]")
    assert browser.run("document.querySelectorAll('details.req[open]').length") == 0


def test_hostile_text_does_not_run(browser: Browser) -> None:
    address = browser.open(hostile_report())
    browser.click("button[data-do=expand]")
    assert browser.run("typeof window.pwned") == "undefined"
    assert browser.run("document.querySelectorAll('img, iframe, object, embed, link, base').length") == 0
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelectorAll('[onload], [onerror], [onclick]').length") == 0
    assert browser.run("[...document.querySelectorAll('a')].every(a => ['https:', 'http:', 'file:'].includes(a.protocol))") is True
    assert "<script>window.pwned=1</script>" in browser.run("document.body.innerText")
    assert browser.page.requests == [address]
    assert browser.page.problems == []


def test_policy_stops_what_escaping_would_let_through(browser: Browser) -> None:
    browser.open(sample_report())
    browser.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s);"
        "const d = document.createElement('div'); d.innerHTML = '<b onclick=\"window.injected=2\">x</b>'; document.body.append(d);"
        "d.firstChild.click(); const i = new Image(); i.src = 'https://example.invalid/x.png'; document.body.append(i); })()"
    )
    assert browser.run("typeof window.injected") == "undefined"
    assert any("Content Security Policy" in problem for problem in browser.page.problems)


def test_without_script_everything_is_shown(browser: Browser) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(sample_report())
        root = browser.send("DOM.getDocument")["root"]["nodeId"]

        def found(selector: str) -> int:
            return len(browser.send("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])

        assert found("#filters[hidden]") == 1
        assert found("details.req") == 14
        assert found("details.req[hidden], section.area[hidden]") == 0
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_print_shows_every_closed_row(browser: Browser) -> None:
    browser.open(sample_report(TargetKind.LIVE))
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("[...document.querySelectorAll('details.req')].every(row => row.open)") is True
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelectorAll('details.req[open]').length") == 0
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.run("document.getElementById('filters').checkVisibility()") is False
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_page_never_scrolls_sideways(browser: Browser, width: int) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(hostile_report())
        browser.click("button[data-do=expand]")
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def test_a_thousand_requirements_filter_quickly(browser: Browser) -> None:
    browser.open(large_report(1_000, 20))
    browser.run("window.before = performance.now()")
    browser.choose("q", "a03-0003")
    assert browser.run(SHOWN) == ["A03-0003"]
    assert browser.run("performance.now() - window.before") < 5_000


OVERLAPS = """
(() => {
  const found = [];
  for (const drawing of document.querySelectorAll("svg.timeline")) {
    const boxes = [...drawing.querySelectorAll(".at text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const whole = drawing.getBoundingClientRect();
    for (const [name, box] of boxes) {
      if (box.left < whole.left || box.right > whole.right) found.push(`${name} leaves the drawing`);
      for (const [other, second] of boxes) {
        const apart = box.right <= second.left || second.right <= box.left || box.bottom <= second.top + 2 || second.bottom <= box.top + 2;
        if (name < other && !apart) found.push(`${name} covers ${other}`);
      }
    }
  }
  return found;
})()
"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("last", [4.4, 5.0, 9.0, 40.0, 4000.0])
def test_labels_of_marks_never_cover_each_other(browser: Browser, width: int, last: float) -> None:
    made = marks(inject=4.0, detect=4.1, contained=4.2, recovered=last)
    held = chaos(experiment(marks=made, ended_seconds=last + 0.2, recovery_from="undo", recovery_seconds=0.1))
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(bare(held), "#chaos-A1", held)
        assert browser.run("document.querySelectorAll('.at text').length") == 5
        assert browser.run(OVERLAPS) == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def test_page_of_experiments_alone_works_without_the_filters(browser: Browser) -> None:
    browser.open(bare(mixed_chaos()), "#chaos-A1", mixed_chaos())
    assert browser.page.problems == []
    assert browser.run("document.getElementById('filters')") is None
    assert browser.run("document.getElementById('chaos-A1').open"), "a link to an experiment opens it"
    assert not browser.run("document.getElementById('chaos-D13').open")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.getElementById('chaos-D13').open")
    assert browser.run("document.querySelector('#chaos-A1 .words').open"), "on paper the words are there too"
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not browser.run("document.getElementById('chaos-D13').open")


def test_hostile_experiments_do_not_run_and_do_not_break_the_page(browser: Browser) -> None:
    browser.open(bare(hostile_chaos()), "", hostile_chaos())
    assert browser.page.problems == []
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('details.exp').length") == 2
