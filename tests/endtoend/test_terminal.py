"""What a run prints: each failure once, as wide as it may be, plain in pipes, and no command for a CI system but its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.endtoend import hostile
from tests.endtoend.runner import carried_out
from tests.endtoend.runs import run_suite
from tests.served import served

FAILING = ("--simulate", "healthy,fence-untainted-gpu-node", "--only", "FENCE-01")
TOLD = "the node has no taint: any pod that fits lands on it"
COMMANDS = ("::error::injected", " ::add-mask::a", "##[add-mask]a", "x ##[group]injected", "%0A::error::injected", "::stop-commands::x")


def test_each_failure_stands_once_with_what_to_do(tmp_path: Path) -> None:
    done = run_suite(tmp_path, *FAILING, COLUMNS="400")
    assert done.code == 1, done.output
    assert done.output.count(TOLD) == 1
    assert len(re.findall(r"\$ kubectl taint nodes", done.output)) == 1
    assert "FAILURES" not in done.output
    assert "short test summary" not in done.output
    assert "1 failed" in done.output
    assert done.output.splitlines()[-1].startswith("NOT CONFORMANT")


@pytest.mark.parametrize("silence", [("--no-summary",), ("-q", "-q"), ("-q", "-q", "--no-summary")], ids=" ".join)
def test_the_last_line_is_the_verdict_whatever_a_user_silences(tmp_path: Path, silence: tuple[str, ...]) -> None:
    done = run_suite(tmp_path, *FAILING, *silence)
    assert done.code == 1, done.output
    assert done.output.splitlines()[-1].startswith("NOT CONFORMANT")
    assert "report/report.html" in done.output.splitlines()[-1]
    assert done.output.count("NOT CONFORMANT") == 1
    assert (TOLD in done.output) == ("--no-summary" not in silence)


def test_who_asks_pytest_for_its_list_of_failures_gets_it(tmp_path: Path) -> None:
    done = run_suite(tmp_path, *FAILING, "-rf")
    assert "short test summary" in done.output
    assert re.search(r"^.*test_fence.py::test_every_accelerator_node", done.output, re.MULTILINE)


@pytest.mark.parametrize("columns", ["64", "90", "200"])
def test_tables_are_as_wide_as_they_are_allowed_to_be(tmp_path: Path, columns: str) -> None:
    done = run_suite(tmp_path, *FAILING, COLUMNS=columns)
    widths = [len(line) for line in done.output.splitlines() if line.startswith(("|", "+"))]
    assert max(widths) <= int(columns)
    assert max(widths) > int(columns) * 0.5


def test_a_pipe_gets_plain_text_unless_colour_is_asked_for(tmp_path: Path) -> None:
    plain = run_suite(tmp_path, *FAILING).output
    assert "\x1b" not in plain
    assert plain.isascii()
    assert "\x1b" in run_suite(tmp_path, *FAILING, FORCE_COLOR="1").output
    assert "\x1b" not in run_suite(tmp_path, *FAILING, FORCE_COLOR="1", NO_COLOR="1").output


def test_a_step_of_github_actions_gets_a_group_and_annotations(tmp_path: Path) -> None:
    done = run_suite(tmp_path, *FAILING, GITHUB_ACTIONS="true")
    found = list(carried_out(done.output))
    assert [one.name for one in found] == ["group", "endgroup", "error"]
    assert found[2].title == "FENCE-01 failed"
    assert TOLD in found[2].text
    assert done.output.splitlines()[-1].startswith("NOT CONFORMANT")
    assert list(carried_out(done.output + "::error::of the step's next program\n"))[-1].text == "of the step's next program"


def test_nothing_that_a_cluster_says_is_a_command_of_the_step(tmp_path: Path) -> None:
    nodes = [hostile.a_node(text) for text in COMMANDS]
    for number, (node, text) in enumerate(zip(nodes, COMMANDS, strict=True)):
        node["metadata"]["name"] = f"{text} {number}"
        node["spec"]["taints"] = [{"key": text, "value": text, "effect": "NoSchedule"}]
    with served(tmp_path, nodes):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), "--read-only", GITHUB_ACTIONS="true", COLUMNS="100")
    assert done.report is not None, done.output
    assert "add-mask" in done.output
    found = list(carried_out(done.output))
    assert {one.name for one in found} == {"group", "endgroup", "error", "warning"}
    own = {result.id for result in done.report.results} | {"Not"}  # "Not judged": a shortfall of the run itself
    assert [one for one in found if one.name in ("error", "warning") and one.title.split(" ")[0] not in own] == []
