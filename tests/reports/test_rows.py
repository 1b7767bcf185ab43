"""A report as CSV and as policy reports: nothing computes, nothing is lost without a word, a simulation is named as such."""

import csv
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from _pytest._io import TerminalWriter
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from conformance.cli.main import main
from fixtures.verdict.record import Level, Report, TargetKind, Verdict
from reports import safe_text
from reports.folder import write_all
from reports.formats import policy_report, rows
from reports.safe_text import redact
from reports.verdicts import DISPLAY, markup
from tests.reports.sample_report import HOSTILE, hostile_report, report, result, sample_report, subject
from tests.tables import each_row


def a_report() -> Report:
    bad = [
        subject("gpu-1", Verdict.FAILED, kind="Node"),
        subject("train", Verdict.FAILED, kind="Pod", namespace="team-a", message="=1;a; @b;-2"),
    ]
    should = result("OPS-04", Verdict.WARNED, [subject("x on gpu-1", Verdict.FAILED, kind="Pod", namespace="team-a")], level=Level.SHOULD)
    return report([result("FENCE-01", Verdict.FAILED, bad), should, result("NET-01", Verdict.NOT_APPLICABLE, message="nothing")])


def objects(made: Report) -> dict[str, Any]:
    return {item["metadata"].get("namespace", ""): item for item in json.loads(policy_report.render(made))["items"]}


def test_a_row_for_each_subject_and_none_is_computed() -> None:
    found = list(csv.DictReader(io.StringIO(rows.render(a_report()))))
    assert [(one["requirement"], one["name"], one["verdict"]) for one in found] == [
        ("FENCE-01", "gpu-1", "failed"),
        ("FENCE-01", "train", "failed"),
        ("OPS-04", "x on gpu-1", "warned"),
        ("NET-01", "", "not_applicable"),
    ]
    assert (found[1]["message"], found[3]["message"]) == ("'=1;a;' @b;'-2", "nothing")


@pytest.mark.parametrize("made", [hostile_report(), sample_report(TargetKind.SIMULATED)], ids=["hostile", "simulated"])
def test_every_row_has_all_columns_on_one_line(made: Report) -> None:
    text = rows.render(made)
    found = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in found} == {len(rows.HEAD)}
    assert text.count("\n") == len(found)
    assert not [cell for row in found for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_policy_reports_are_one_for_each_namespace_and_one_for_the_cluster() -> None:
    found = objects(a_report())
    assert {(space, item["kind"]) for space, item in found.items()} == {("", "ClusterPolicyReport"), ("team-a", "PolicyReport")}
    assert found["team-a"]["summary"] == {"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 0}
    assert found["team-a"]["results"][1]["resources"] == [{"kind": "Pod", "name": "x", "namespace": "team-a"}]
    assert [one["result"] for one in found[""]["results"]] == ["fail", "skip"]


def test_a_large_policy_report_keeps_what_is_urgent_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_report, "MAX_RESULTS", 3)
    many = [*(subject(f"gpu-{at}") for at in range(9)), subject("gpu-9", Verdict.FAILED)]
    item = objects(report([result("FENCE-01", Verdict.FAILED, many)]))[""]
    assert [one["result"] for one in item["results"]] == ["fail", "pass", "pass"]
    assert item["metadata"]["annotations"]["gpu-conformance.io/left-out"] == "7"
    assert item["summary"]["pass"] == 9


def test_a_policy_report_fits_into_etcd() -> None:
    many = [msgspec.structs.replace(subject(f"gpu-{at}", Verdict.FAILED), message="ü" * 900) for at in range(500)]
    item = objects(report([result("FENCE-01", Verdict.FAILED, many)]))[""]
    assert 900_000 < len(json.dumps(item)) < 1_100_000
    assert int(item["metadata"]["annotations"]["gpu-conformance.io/left-out"]) == 500 - len(item["results"])


def test_a_simulation_is_named_as_such() -> None:
    labels = objects(sample_report(TargetKind.SIMULATED))[""]["metadata"]["labels"]
    assert labels["gpu-conformance.io/simulated"] == "true"


def test_a_view_is_printed_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(report([result("A-1", Verdict.FAILED, [subject(" ".join(HOSTILE.values()), Verdict.FAILED)])]), tmp_path, views=False)
    for view in ("csv", "policyreport"):
        assert main(["report", str(tmp_path), "--as", view]) == 0
        assert "\x1b" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_controls_are_spelled_out() -> None:
    assert safe_text.visible("a\x1b[31mb\x9b2J") == "a\\x1b[31mb\\x9b2J"
    assert safe_text.visible("gpu\u202egnp") == "gpu\\u202egnp"
    assert safe_text.visible("a\ud800b") == "a\\ud800b"
    assert safe_text.visible("tag\U000e0041") == "tag\\U000e0041"
    assert safe_text.visible("one\ntwo\tthree") == "one\ntwo\tthree"
    assert safe_text.visible("שלום") == "שלום"


def test_credentials_are_redacted() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
    assert redact(f"token {token} used") == "token [redacted token] used"
    assert redact("Authorization: Bearer abcdefghijklmnop1234") == "Authorization: Bearer [redacted]"
    assert redact("https://user:pw@10.0.0.1/x") == "https://[redacted]@10.0.0.1/x"
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
    assert redact(f"a {key} b") == "a [redacted private key] b"
    assert redact("-----BEGIN PRIVATE KEY-----\nMIIE") == "[redacted private key]"
    assert redact('{"a":"-----BEGIN PRIVATE KEY-----\\nMIIE","b":1}') == '{"a":"[redacted private key]","b":1}'
    assert redact("contact me@example.com, see https://example.com/@x") == "contact me@example.com, see https://example.com/@x"


@each_row
def test_what_a_runtime_repeats_of_a_command_line_is_redacted(text: str, shown: str) -> None:
    assert redact(text) == redact(shown) == shown
    if text.startswith("{"):
        assert json.loads(shown)


@each_row
def test_words_about_credentials_are_kept(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("kept", range(280, 302))
def test_a_credential_is_known_before_its_end_is_cut_off(kept: int) -> None:
    text = "x" * kept + " https://user:hunter2@10.0.0.1/x " + "y" * 10_000
    for shown in (safe_text.visible(text, 312), safe_text.one_line(text, 312)):
        assert "hunter" not in shown
        assert re.search(r"… \([0-9,]+ more characters\)", shown)


def test_xml_legal_drops_what_xml_cannot_carry() -> None:
    assert safe_text.xml_legal("a\x00b\x0bc\ufffed\ud800e\tf") == "abcde\tf"


@given(st.text(st.characters(exclude_categories=[])))
def test_visible_text_is_always_encodable_and_free_of_controls(value: str) -> None:
    shown = safe_text.visible(value)
    shown.encode("utf-8")
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert "\n" not in safe_text.one_line(value)
    assert safe_text.ascii_only(shown).isascii()


@given(st.text())
def test_link_parts_lose_nothing(value: str) -> None:
    assert "".join(words for words, _ in safe_text.link_parts(value)) == value


def test_a_token_whose_end_was_cut_off_is_redacted_all_the_same() -> None:
    header, payload = "eyJhbGciOiJSUzI1NiJ9", "eyJzdWIiOiJwYXlsb2FkLW1hcmtlciJ9"
    token = f"{header}.{payload}.c2lnbmF0dXJl"
    for length in range(len(header) + 4, len(token) + 1):
        shown = redact(f"NVIDIA_VISIBLE_DEVICES={token[:length]} by hand")
        assert shown == "NVIDIA_VISIBLE_DEVICES=[redacted token] by hand"
    assert redact("eyJhbGciOiJSUzI1NiJ9.example") == "eyJhbGciOiJSUzI1NiJ9.example"


def test_what_only_begins_like_a_token_is_passed_over_at_once() -> None:
    """Looked through again from each of its beginnings, it would take hours."""
    text = "eyJ" * 1_000_000
    assert redact(text) == text
    assert redact(f"{text}.eyJ") == "[redacted token]"


@pytest.mark.parametrize(
    "text", [*HOSTILE.values(), "**b** _i_ ~s~ # h", "[a](b) ![c](d)", "<b>&amp;", "https://x.example www.x.example", "$x$ `y`"]
)
def test_plain_text_in_markdown_forms_nothing(text: str) -> None:
    plain = safe_text.markdown_plain(text)
    without = re.sub(r"&#\d+;", "", plain)
    assert not re.search(r"[\\`*_~\[\]|<>@!$&#]|://|www\.", without)
    assert html.unescape(plain) == text


@pytest.mark.parametrize("verdict", Verdict)
def test_pytest_and_rich_know_the_style_of_every_verdict(verdict: Verdict) -> None:
    assert TerminalWriter(io.StringIO()).markup("x", **markup(verdict)) == "x"
    assert Style.parse(DISPLAY[verdict].style)
