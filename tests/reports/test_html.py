import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fixtures.verdict.record import InventoryRow, TargetKind, Verdict
from reports.formats import html
from reports.page.rows import MAX_DEVICES, MAX_NAMED, MAX_OTHERS_SHOWN, MAX_PASSED_SHOWN
from tests.reports.page_reports import failing_report, full_report
from tests.reports.sample_report import NODES, report, result, sample_report, subject
from tests.tables import each_row

VOID = {"meta", "path", "rect", "use", "input", "br", "img", "link"}


class Document(HTMLParser):
    """Elements with their attributes, and whether tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"repeated attribute in {tag}"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def rows(document: Document) -> list[dict[str, str]]:
    return [a for a in document.all("details") if "req" in a["class"]]


def test_every_requirement_has_one_row_with_its_verdict_level_and_area() -> None:
    document = Document(html.render(sample_report()))
    made = rows(document)
    assert [r["id"] for r in made] == [r.id for r in sample_report().results]
    assert [r["data-verdict"] for r in made] == [r.verdict.value for r in sample_report().results]
    assert {r["data-level"] for r in made} == {"MUST", "SHOULD"}
    assert [r["data-area"] for r in made if r["id"].startswith("FENCE")] == ["1", "1", "1"]
    assert not any("open" in r or "hidden" in r for r in made)


def test_policy_allows_the_inline_style_and_script_alone() -> None:
    text = html.render(sample_report())
    policy = next(a["content"] for a in Document(text).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert directives[directive] == f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    assert "unsafe" not in policy


@each_row
def test_target_that_is_not_a_live_cluster_is_named_loudly(kind: TargetKind, words: str) -> None:
    document = Document(html.render(sample_report(kind)))
    assert document.words.count(words) == 2  # at the top and in the footer
    [banner] = [a for a in document.all("p") if "banner" in a.get("class", "")]
    assert banner["role"] == "note"


def test_what_of_a_scenario_could_not_be_had_is_in_the_banner() -> None:
    made = sample_report(TargetKind.LOCAL)
    made.target.notes = ["ValidatingWebhookConfiguration hooks: left out", "<b>second</b>"]
    words = Document(html.render(made)).words
    assert words.count("Not as in the scenario: ValidatingWebhookConfiguration hooks: left out. <b>second</b>.") == 2


def test_which_gang_schedulers_were_real_is_reported_at_the_top_and_in_the_banner() -> None:
    made = sample_report(TargetKind.LOCAL)
    made.target.components = ["vc-scheduler (from /opt/bin, version v1.12.1)", "kueue (the project's look-alike)<i>"]
    document = Document(html.render(made))
    stated = "vc-scheduler (from /opt/bin, version v1.12.1). kueue (the project's look-alike)<i>."
    assert document.words.count(f"Beside the simulated nodes: {stated}") == 2
    assert "Beside the simulated nodesvc-scheduler (from /opt/bin, version v1.12.1), kueue (the project's look-alike)<i>" in document.words


def test_row_tells_observed_expected_source_remediation_and_reason() -> None:
    words = Document(html.render(sample_report())).words
    for expected in (
        "no taint",
        "a taint of the allowed keys with NoSchedule or NoExecute",
        "node.spec.taints",
        "kubectl taint nodes gpu-003 gpu-005 nvidia.com/gpu=present:NoSchedule --overwrite",
        "A soft or missing taint lets ordinary pods occupy accelerator nodes.",
        "NonConformant",
        "6 requirements",
    )[:-1]:
        assert expected in words
    assert "Exit code 1 not conformant: at least one gating requirement failed" in words
    assert (
        "14 requirements asked on a simulated cluster: 6 passed, 2 failed, 1 warned, 1 waived, 2 not applicable, 1 inconclusive, 1 error."
        in words
    )


def test_many_causes_keep_the_failed_ones_first_and_name_the_rest() -> None:
    subjects = [subject(f"n{i:04d}", observed=str(i)) for i in range(300)]
    subjects += [subject(f"bad{i:03d}", Verdict.FAILED, observed=str(i)) for i in range(180)]
    text = html.render(report([result("REQ-01", Verdict.FAILED, subjects)]))
    table = text[text.index('<table class="subjects">') :]
    assert table.count('<td class="v failed">') == MAX_OTHERS_SHOWN
    assert table.count('<td class="v passed">') == MAX_PASSED_SHOWN
    assert table.index("bad000") < table.index("n0000")
    words = Document(text).words
    assert "Also passed: n0005, n0006" in words
    assert "Also failed: bad050, bad051" in words
    assert "225 more subjects are not shown here; report.json lists them." in words  # 30 failed, 195 passed


def test_subjects_of_one_cause_share_a_row() -> None:
    failed = [subject(f"bad{i:03d}", Verdict.FAILED, message=f"bad{i:03d} has no taint") for i in range(180)]
    text = html.render(report([result("REQ-01", Verdict.FAILED, [*failed, subject("good"), subject("other", observed="x")])]))
    words, table = Document(text).words, text[text.index('<table class="subjects">') :]
    assert table.count('<td class="v failed">') == 1
    assert table.count('<td class="v passed">') == 2
    assert "node (180) bad000, bad001" in words
    assert f"bad{MAX_NAMED - 1:03d} and 80 more" in words
    assert "… has no taint" in words
    assert "80 more subjects are not shown here; report.json lists them." in words


def test_what_all_subjects_share_is_reported_once() -> None:
    subjects = [subject(f"n{i}", observed=f"5{i}", expected="at least 570", source="label x") for i in range(4)]
    text = html.render(report([result("REQ-01", Verdict.PASSED, subjects)]))
    assert text.count("at least 570") == 1
    assert all(f"<td>5{i}</td>" in text for i in range(4))
    subjects[3].expected = "at least 580"
    assert html.render(report([result("REQ-01", Verdict.PASSED, subjects)])).count("at least 570") == 3


def test_only_http_references_become_links() -> None:
    references = [
        "https://example.com/a?b=1&c=2",
        "see http://example.com/x.",
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "https://",
    ]
    document = Document(html.render(report([result("A-1", Verdict.PASSED, [subject("n")], references=references)])))
    links = [a for a in document.all("a") if not a["href"].startswith("#")]
    assert [a["href"] for a in links] == ["https://example.com/a?b=1&c=2", "http://example.com/x"]
    assert all(a["rel"] == "noopener noreferrer" for a in links)


def test_ids_of_elements_are_unique_even_when_requirement_ids_collide() -> None:
    made = report([result("A 1", Verdict.PASSED), result("A/1", Verdict.PASSED), result("", Verdict.PASSED), result("é", Verdict.PASSED)])
    ids = [a["id"] for _, a in Document(html.render(made)).elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_ordinary_report_is_below_300_kb() -> None:
    assert len(html.render(failing_report(13, 102)).encode()) < 300_000


def test_devices_are_listed_by_slice_with_their_claims_and_owners() -> None:
    text = html.render(sample_report())
    table = text[text.index('<table class="devices">') :]
    rows = re.findall(r"<tr>.*?</tr>", table[: table.index("</table>")], re.S)[1:]
    assert len(rows) == 6
    ill, held, unread = rows[:3]
    assert "gpu-0-ill" in ill
    assert ">free<" in ill
    assert "xid=gpu-0:NoExecute" in ill
    assert "team-a/train-0 of Job/train-0, used by train-0 (a share)" in held
    assert "not read" in unread
    assert "free" not in unread
    assert "generation 3" in held
    assert NODES[0] in held
    assert "10 more devices" in table


def test_devices_of_a_fleet_are_bounded_and_counted() -> None:
    fleet = sample_report()
    first = fleet.inventory[0].slices[0]
    fleet.inventory = [InventoryRow(node=f"n-{i}", slices=[first]) for i in range(400)]
    text = html.render(fleet)
    assert text.count("slice-of-gpu-0") == MAX_DEVICES
    assert f"{400 * 8 - MAX_DEVICES:,} more devices" in text


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_reach_contrast_aa(scheme: int) -> None:
    style = Path(html.TEMPLATES, "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    pairs = [(fore, back) for fore in ("ink", "muted", "accent") for back in ("bg", "card", "soft")]
    pairs += [(v.value, back) for v in Verdict for back in ("card", f"{v.value}-bg")]
    pairs += [("ink", f"{v.value}-bg") for v in Verdict]
    weak = {
        pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5
    }
    assert weak == {}


def test_attention_has_causes_and_commands_with_real_names() -> None:
    text = html.render(full_report())
    section = text[text.index('id="attention"') : text.index("</section>", text.index('id="attention"'))]
    words = Document(f"<section {section}</section>").words
    assert "Node gpu-003: any pod without a device request can be placed here" in words
    assert "kubectl taint nodes gpu-003 gpu-005 nvidia.com/gpu=present:NoSchedule" in words
    assert words.index("FENCE-01") < words.index("INV-02") < words.index("FENCE-10") < words.index("REQ-02")
    assert "waived until 2026-12-31 by platform@example.com: migration in progress" in words
    assert "INV-01" not in words


def test_comparison_with_the_baseline_is_reported_by_bucket() -> None:
    words = Document(html.render(full_report())).words
    assert "Baseline: run 20261101T000000Z-0001 of 2026-11-01T00:00:00Z, Kubernetes v1.35.4." in words
    assert "It is of another cluster: another." in words
    assert "1 new failure 0 became inconclusive 1 no longer judged 1 still failing 700 fixed" in words
    assert "New failure: 1 FENCE-01 Node gpu-003 passed → failed" in words
    assert "No longer judged: 1 NET-05 passed → none: left out by -k" in words
    assert "FENCE-01 Node gpu-003" in words
    assert "650 more, of which report.json keeps some." in words
    assert 'id="comparison"' not in html.render(sample_report())


def test_policy_is_text_and_secrets_in_it_are_not() -> None:
    made = full_report()
    assert made.policy
    made.policy.changed += "  note: Bearer abcdefghijklmnopqrstuvwxyz\n"
    text = html.render(made)
    assert "fence:\n  taintKeys:\n  - +example.com/gpu" in text
    assert "defaults, changed in part" in text
    assert "abcdefghijklmnopqrstuvwxyz" not in text
    assert "more characters" not in text[text.index('id="policy"') :]
    made.policy.changed = ""
    assert "The defaults of the suite, unchanged." in html.render(made)


def test_matrix_has_nodes_requirements_and_words_for_each_cell() -> None:
    text = html.render(full_report())
    table = text[text.index('<table class="matrix">') :]
    table = table[: table.index("</table>")]
    assert table.count('<th scope="row">') == len(NODES)
    assert table.count('<td class="v failed"><span class="vh">failed</span></td>') == 3
    assert ">FENCE-01</a>" in table
    assert ">OBS-01</a>" not in table
    assert "requirements judged these 8 nodes: no failure" in html.render(
        report([result("A-1", Verdict.PASSED, [subject(name, kind="Node") for name in NODES])])
    )
