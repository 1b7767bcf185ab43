"""What a server, a capture or a record says moves no terminal, is no command of a CI system, and costs no time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.cli.arguments import tell
from conformance.outputs.kind_of_output import looked_at
from conformance.plugin.progress import header
from fixtures.verdict.record import Target, TargetKind
from reports.terminal.actions import harmless

EVIL = "v1.30.0\x1b[2J\r::add-mask::x\u202e\x9b2J\n##[error]y"


def test_what_a_server_says_of_itself_is_text() -> None:
    target = Target(kind=TargetKind.LIVE, server="https://api", context="", kubernetes_version=EVIL, components=[EVIL], notes=[EVIL])
    state: Any = SimpleNamespace(opened=SimpleNamespace(target=target), run_id="r", options=SimpleNamespace(access="read"))
    lines = header(state)
    assert all(line.isprintable() for line in lines), lines
    assert any("Kubernetes v1.30.0" in line for line in lines)


def test_lines_of_commands_are_lines_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"a {EVIL}", "\r::error::b", "::stop-commands::c")
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert len(printed.splitlines()) == 3
    assert "::stop" not in printed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r::error::x", "a\r: :error::x"),
        ("\n \t::x", "\n \t: :x"),
        ("a ::x", "a ::x"),
        ("##[group]", "## [group]"),
        ("::x\r\n\r\n::y", ": :x\r\n\r\n: :y"),
    ],
)
def test_a_carriage_return_ends_a_line_too(text: str, shown: str) -> None:
    """The runner reads lines as .NET does."""
    assert harmless(text) == shown


@pytest.mark.parametrize("blank", ["\n", " \n", "\x0b\n", "\u2028\n"])
def test_no_pattern_looks_through_blank_lines(blank: str) -> None:
    """Each that begins with white space would look through all that follow, from each of them: 60,000 took a minute."""
    assert [line.strip() for line in looked_at(f"a{blank * 5}  b\n{blank}c").split("\n")] == ["a", "b", "c"]
