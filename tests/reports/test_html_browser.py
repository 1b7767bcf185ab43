import base64
import re

import pytest

from fixtures.verdict.record import Measure, TargetKind
from reports.formats import html
from tests.reports.browser import find_browser
from tests.reports.chaos_samples import bare, chaos, experiment, hostile_chaos, marks
from tests.reports.page_reports import failing_report, fleet_report, full_report
from tests.reports.report_browser import Browser
from tests.reports.sample_report import hostile_report, large_report, sample_report

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no chromium or google-chrome on PATH"),
    pytest.mark.xdist_group("browser"),
]

SHOWN = "[...document.querySelectorAll('details.req')].filter(row => row.checkVisibility()).map(row => row.id)"


def test_page_asks_for_nothing_but_itself_and_complains_about_nothing(browser: Browser) -> None:
    address = browser.open(sample_report())
    assert browser.page.requests == [address]
    assert browser.page.problems == []
    assert browser.run("document.styleSheets.length") == 1
    assert browser.run("getComputedStyle(document.querySelector('.banner')).backgroundColor") == "rgb(255, 210, 63)"
    assert "SIMULATED CLUSTER: scenario h100-8x" in browser.run("document.querySelector('.banner').innerText")


@pytest.mark.test_all
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


@pytest.mark.test_all
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


@pytest.mark.test_all
def test_link_to_a_requirement_opens_it_even_when_filtered_away(browser: Browser) -> None:
    browser.open(sample_report(), "#GANG-02")
    assert browser.run("document.getElementById('GANG-02').open") is True
    browser.choose("q", "FENCE-01")
    browser.run("new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = 'PSA-04'; })")
    assert browser.run("document.getElementById('PSA-04').checkVisibility() && document.getElementById('PSA-04').open") is True


@pytest.mark.test_all
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


@pytest.mark.test_all
def test_policy_stops_what_escaping_would_let_through(browser: Browser) -> None:
    browser.open(sample_report())
    browser.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s);"
        "const d = document.createElement('div'); d.innerHTML = '<b onclick=\"window.injected=2\">x</b>'; document.body.append(d);"
        "d.firstChild.click(); const i = new Image(); i.src = 'https://example.invalid/x.png'; document.body.append(i); })()"
    )
    assert browser.run("typeof window.injected") == "undefined"
    assert any("Content Security Policy" in problem for problem in browser.page.problems)


@pytest.mark.test_all
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


@pytest.mark.test_all
def test_a_command_is_copied_as_it_stands(browser: Browser) -> None:
    browser.open(full_report())
    browser.run("(() => { window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text); }; })()")
    browser.click("#attention button.copy")
    assert browser.run("window.copied") == ["kubectl get node gpu-003 -o jsonpath='{.spec.taints}'"]
    assert browser.run("document.getElementById('copied').textContent") == "Command copied"
    browser.run("navigator.clipboard.writeText = async () => { throw new Error('refused'); }")
    browser.click("#attention button.copy")
    assert browser.run("getSelection().toString()") == "kubectl get node gpu-003 -o jsonpath='{.spec.taints}'"


@pytest.mark.test_all
def test_every_control_can_be_reached_by_keyboard(browser: Browser) -> None:
    browser.open(full_report())
    browser.run(
        "window.reached = []; window.unseen = []; document.addEventListener('focusin', ({target}) => {"
        " window.reached.push(target); if (getComputedStyle(target).outlineStyle === 'none') window.unseen.push(target.outerHTML); }); 0"
    )
    for _ in range(60):
        for kind in ("keyDown", "keyUp"):
            browser.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.run("window.reached[0].className") == "skip"
    assert browser.run("window.reached.some((one) => one.matches('button.copy'))") is True
    assert browser.run("window.reached.some((one) => one.matches('#scope summary'))") is True
    assert browser.run("window.unseen") == [], "where the focus is can be seen"


@pytest.mark.test_all
def test_print_shows_what_is_not_green_and_nothing_else(browser: Browser) -> None:
    browser.open(sample_report(TargetKind.LIVE))
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        shown = browser.run("document.body.innerText")
        assert "kubectl taint nodes gpu-003 gpu-005 nvidia.com/gpu=present:NoSchedule" in shown
        assert "half a gang holds 16 devices" in shown
        for hidden in ("#filters", "#requirements", "#areas", "#inventory", "#requests", "#matrix", "nav", ".copy"):
            assert browser.run(f"[...document.querySelectorAll('{hidden}')].some(one => one.checkVisibility())") is False, hidden
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def pages(browser: Browser) -> int:
    printed = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    return len(re.findall(rb"/Type\s*/Page\b", printed))


@pytest.mark.test_all
def test_ten_failures_print_on_four_pages(browser: Browser) -> None:
    browser.open(failing_report())
    assert browser.run("document.querySelectorAll('.todo > li').length") == 10
    assert 1 <= pages(browser) <= 4


@pytest.mark.test_all
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_page_never_scrolls_sideways(browser: Browser, width: int) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(hostile_report())
        browser.click("button[data-do=expand]")
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


@pytest.mark.test_all
def test_filtering_touches_each_of_many_requirements_once(browser: Browser) -> None:
    browser.open(large_report(300, 20))
    browser.run(
        "new MutationObserver((changes) => { window.changes = (window.changes || 0) + changes.length; })"
        ".observe(document.body, {subtree: true, attributes: true, childList: true, characterData: true})"
    )
    browser.choose("q", "a03-0003")
    assert browser.run(SHOWN) == ["A03-0003"]
    assert 0 < browser.run("window.changes") <= 2 * 300


@pytest.mark.test_all
def test_a_fleet_with_many_failures_is_light_and_usable(browser: Browser) -> None:
    made = fleet_report()
    assert len(html.render(made).encode()) < 2_000_000
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(made)
        assert browser.page.problems == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run("document.querySelectorAll('.matrix tbody tr:not(.pool)').length") <= 60
        browser.choose("q", "gpu-pool-0-0000.example")
        assert "ADV-00" in browser.run(SHOWN)
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def test_on_a_telephone_the_pools_keep_their_bars_and_the_figures_their_names(browser: Browser) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    made = sample_report()
    made.results[0].subjects[0].measure = Measure(value=120, unit="GB/s", least=240)
    browser.open(made)
    for cell in ("#nodes td.barcell", "#measured tbody td:nth-child(2)"):
        assert browser.run(f"[...document.querySelectorAll('{cell}')].map((one) => one.checkVisibility())").count(True) > 0, cell
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


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


@pytest.mark.test_all
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


@pytest.mark.test_all
def test_hostile_experiments_do_not_run_and_do_not_break_the_page(browser: Browser) -> None:
    browser.open(bare(hostile_chaos()), "", hostile_chaos())
    assert browser.page.problems == []
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('details.exp').length") == 2
