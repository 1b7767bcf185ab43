"""Terminal and Markdown: what people read without a browser."""

import re

from fixtures.verdict.record import AppliedPreset, UsedTable, Verdict
from reports.formats import markdown
from reports.terminal import summary
from tests.reports.sample_report import hostile_report, large_report, report, result, sample_report, subject
from tests.tables import each_row

SENTENCES = ("NOT JUDGED: ", "WORSE THAN THE BASELINE: ", "WAIVERS TO RENEW OR REMOVE: ", "Note: ")


def plain(made: object = None, width: int = 110) -> str:
    return summary.summary(made or sample_report(), width=width, colour=False, report_path="out/x/report.html")  # type: ignore[arg-type]


def test_summary_without_colour_is_ascii_within_the_width() -> None:
    for width in (80, 110, 200):
        for made in (sample_report(), hostile_report()):
            lines = plain(made, width).splitlines()
            assert all(line.isascii() for line in lines)
            wrapped = [line for line in lines[:-1] if not line.startswith(SENTENCES)]
            assert all(len(line) <= width for line in wrapped)  # the others are sentences to be found again, as the last line is
            assert "\x1b" not in "\n".join(lines)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_summary_has_a_row_per_area_and_a_total() -> None:
    table = {cells(line)[0]: cells(line)[1:] for line in plain().splitlines() if line.startswith("| ")}
    assert table["area"] == ["passed", "failed", "warned", "waived", "n.a.", "inconclusive", "error", "judged/total"]
    assert table["FENCE"] == ["1", "1", "1", "0", "0", "0", "0", "10/10"]
    assert table["DRA"] == ["0", "0", "0", "0", "2", "0", "0", "0/0"]
    assert table["all"] == ["6", "2", "1", "1", "2", "1", "1", "161/162"]


def test_summary_lists_only_what_needs_attention_most_urgent_first() -> None:
    text = plain()
    found = re.findall(r"^\| ([A-Z]+-\d+) +\| (MUST|SHOULD) +\| ([a-z ]+?) +\|", text, re.M)
    assert found == [
        ("FENCE-01", "MUST", "failed"),
        ("GANG-02", "MUST", "failed"),
        ("PSA-04", "MUST", "error"),
        ("INV-02", "MUST", "inconclusive"),
        ("FENCE-10", "SHOULD", "warned"),
        ("REQ-02", "MUST", "waived"),
    ]
    folded = " ".join(text.replace("|", " ").split())
    assert "Do: kubectl taint nodes gpu-003 gpu-005 nvidia.com/gpu=present:NoSchedule --overwrite" in folded
    assert "INV-01" not in text


def test_summary_shows_three_subjects_and_counts_the_rest() -> None:
    subjects = [subject(f"n{i}", Verdict.FAILED, observed="a", expected="b") for i in range(12)]
    text = plain(report([result("A-1", Verdict.FAILED, subjects)]))
    assert re.findall(r"- (node n\d+)", text) == ["node n0", "node n1", "node n2"]
    assert "- and 9 more" in text


def test_residue_is_named() -> None:
    made = sample_report()
    made.residue = ["Namespace a\x1b[2J", *[f"Pod {i}" for i in range(30)]]
    text = plain(made)
    assert "RESIDUE: 31 left behind" in text
    assert "- Namespace a\\x1b[2J" in text
    assert "- and 11 more" in text


def test_coloured_summary_carries_no_escape_of_the_cluster() -> None:
    text = summary.summary(hostile_report(), width=100, colour=True, report_path="r")
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b[" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", stripped)
    assert "\\x1b" in stripped
    assert "[bold]" not in plain(report([result("A-1", Verdict.FAILED, title="x")]))


def test_summary_of_a_thousand_requirements_is_bounded() -> None:
    text = plain(large_report())
    assert len(text.splitlines()) < 3_000


def test_markdown_has_verdict_banner_areas_and_findings() -> None:
    text = markdown.render(sample_report())
    lines = text.splitlines()
    assert lines[0].endswith("GPU conformance: Not conformant")
    assert any(line.startswith("> **SIMULATED CLUSTER: scenario h100-8x") for line in lines)
    assert "| FENCE | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 10 / 10 |" in lines
    assert text.count("<details>") == text.count("</details>") == 6
    assert text.index("FENCE-01") < text.index("REQ-02") < text.index("| Area |"), "causes stand before counts"


def test_markdown_says_what_needs_attention_before_how_it_was_judged() -> None:
    made = sample_report()
    made.run.presets = [AppliedPreset(name="eks", why="a label")]
    made.run.tables = [UsedTable(name="versions", date="2026-11")]
    text = markdown.render(made)
    places = [text.index(part) for part in ("What needs attention", "| Area |", "**Presets:** eks", "**Judged by:** tables of 2026-11")]
    assert places == sorted(places)
    assert len(markdown.render(made, max_bytes=1_000).encode()) <= 1_000


def test_markdown_escapes_what_github_would_interpret() -> None:
    text = markdown.render(hostile_report())
    assert "<script" not in text
    assert "<img" not in text
    assert "@someone" not in text
    assert "](" not in text
    assert "://" not in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in table} == {10}


@each_row
def test_commands_of_a_remediation_are_code_in_markdown(remediation: str, shown: str) -> None:
    made = markdown.render(report([result("A-1", Verdict.FAILED, [subject("n", Verdict.FAILED)], remediation=remediation)]))
    line = next(line for line in made.splitlines() if line.startswith("**What to do:**"))
    assert line.removeprefix("**What to do:**").split() == shown.split()


def test_a_narrow_table_keeps_its_areas_and_leaves_out_what_nothing_has() -> None:
    made = report([result("FENCE-01", Verdict.PASSED, [subject("n")], area="FENCE"), result("MIG-01", Verdict.NOT_APPLICABLE, area="MIG")])
    lines = [line for line in plain(made, 60).splitlines() if line.startswith("| ")]
    assert [line.split()[1] for line in lines] == ["area", "FENCE", "MIG", "all"]
    assert lines[0].split("|")[2:-1] == [" pass ", " fail ", " n.a. ", " judged/total "]
    every = report([result(f"A-{n}", one, area="FENCE") for n, one in enumerate(Verdict)])
    head = next(line for line in plain(every, 60).splitlines() if line.startswith("|area"))
    assert len(head.split("|")) == 11
