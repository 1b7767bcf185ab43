"""What a server, a capture or a record says moves no terminal, is no command of a CI system, and costs no time."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.cli.arguments import show_json, tell
from conformance.cli.reports import main
from conformance.outputs.inspection import looked_at
from conformance.plugin.progress import header
from fixtures.verdict.record import Target, TargetKind, Verdict
from reports.folder import write_all
from reports.terminal.actions import harmless
from tests.reports.sample_report import report, result, subject
from tests.tables import each_row

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


def test_json_holds_no_command_and_reads_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"##[error]": ["##[add-mask]CLOSED", EVIL, "###[x"]}
    show_json(value)
    printed = capsys.readouterr().out
    assert "##[" not in printed
    assert json.loads(printed) == value


def test_the_gate_prints_no_command_that_a_tenant_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, verdict in (("before", Verdict.PASSED), ("after", Verdict.FAILED)):
        one = subject("j spec.##[add-mask]CLOSED", verdict, kind="Job", namespace="team-x")
        write_all(report([result("FENCE-03", verdict, [one])], verdict=verdict, exit_code=int(verdict is Verdict.FAILED)), tmp_path / name)
    assert main(["gate", str(tmp_path / "before"), str(tmp_path / "after")]) == 1
    printed = capsys.readouterr().out
    assert "add-mask" in printed
    assert "##[" not in printed


@each_row
def test_a_carriage_return_ends_a_line_too(text: str, shown: str) -> None:
    """The runner reads lines as .NET does."""
    assert harmless(text) == shown


@pytest.mark.parametrize("blank", ["\n", " \n", "\x0b\n", "\u2028\n"])
def test_no_pattern_looks_through_blank_lines(blank: str) -> None:
    """Each that begins with white space would look through all that follow, from each of them: 60,000 took a minute."""
    assert [line.strip() for line in looked_at(f"a{blank * 5}  b\n{blank}c").split("\n")] == ["a", "b", "c"]
