import html
import io
import json
import re

import pytest
from _pytest._io import TerminalWriter
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from fixtures.verdict.record import Verdict
from reports import safe_text
from reports.safe_text import redact
from reports.verdicts import DISPLAY, markup
from tests.reports.sample_report import HOSTILE
from tests.tables import each_row


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
