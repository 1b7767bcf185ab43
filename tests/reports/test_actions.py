"""Commands for GitHub Actions hold any text, and any text can be kept from being a command."""

from __future__ import annotations

import re

import msgspec
import pytest

from fixtures.verdict.record import Verdict
from reports.terminal import actions
from tests.endtoend.runner import carried_out
from tests.reports.sample_report import report, result, sample_report, subject

TEXTS = ["100%", "a\r\nb", "%0A", "a:b,c", "::error::x", "x,title=y", "##[error]x", "\n::error::x"]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_arrives_in_one_command(text: str) -> None:
    line = actions.command("error", text, title=text)
    assert len(line.splitlines()) == 1
    (found,) = carried_out(line)
    assert (found.name, found.text, found.title) == ("error", text, text)


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::error::x", "\t::group::", "a\n::error::x", "x ##[error]y", "##[group]", "\u00a0::error::x"]
)
def test_text_is_made_harmless_and_stays_readable(text: str) -> None:
    assert list(carried_out(text))
    shown = actions.harmless(text)
    assert list(carried_out(shown)) == []
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["a ##vso[task.setvariable variable=PATH]b", "##teamcity[buildStatus status='SUCCESS']"])
def test_commands_of_other_ci_systems_are_broken_up(text: str) -> None:
    assert not re.search(r"##\w*\[", actions.harmless(text))


def test_what_needs_attention_is_annotated_and_no_more_than_github_shows() -> None:
    made = sample_report()
    lines = list(actions.annotate(made))
    assert lines
    wanted = [
        result.id for result in made.results if result.verdict in (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.WARNED)
    ]
    assert sorted(one.title.split(" ")[0] for one in carried_out("\n".join(lines))) == sorted(wanted)
    made.results = [msgspec.structs.replace(one, id=f"{one.id}{copy}") for one in made.results for copy in range(12)]
    assert sum(line.startswith("::error") for line in actions.annotate(made)) == actions.MAX_ANNOTATIONS


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_only_a_step_is_a_step(value: str, expected: bool) -> None:
    assert actions.is_on({actions.VARIABLE: value}) is expected


def test_what_fails_the_run_itself_is_annotated_first() -> None:
    made = report([result("A-1", Verdict.WARNED, [subject("n", Verdict.WARNED)])])
    made.waiver_problems, made.residue = ["waiver 1, A-1: expired on 2020-01-31"], ["Pod a/b"]
    found = list(carried_out("\n".join(actions.annotate(made))))
    assert [(one.name, one.title, one.text) for one in found[:2]] == [
        ("error", "Left behind", "1 objects, such as Pod a/b"),
        ("error", "Waivers to renew or remove", "waiver 1, A-1: expired on 2020-01-31"),
    ]
    assert found[2].title == "A-1 warned"
