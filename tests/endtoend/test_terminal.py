"""What a run prints: each failure once, as wide as it may be, plain in pipes, and no command for a CI system but its own."""

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


def test_eighty_columns_wrap_titles_and_sum_up_what_has_nothing_to_judge(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--simulate", "healthy", "--read-only", "--only", "FENCE", "--columns", "80")
    assert done.code == 0, done.output
    rows = [line for line in done.output.splitlines() if re.match(r" +\d+/\d+ FENCE-", line)]
    assert rows
    assert all(" n.a. " not in line for line in rows)
    wide = [line for line in done.output.splitlines() if len(line) > 80]
    assert all(str(tmp_path) in line and " " not in line.strip() for line in wide), "only a path may be wider, so that it can be copied"
    assert done.output.splitlines()[-1].endswith("report/report.html")
    assert "*** SIMULATED CLUSTER" in done.output
    reasons = dict(re.findall(r"Not applicable, because ([^:]*): ([-, \nA-Z0-9]*)\n", done.output))
    assert {"FENCE-05", "FENCE-06"} <= {id_ for ids in reasons.values() for id_ in re.findall(r"[A-Z]+-\d+", ids)}


@pytest.mark.test_all
@pytest.mark.parametrize("silence", [("--no-summary",), ("-q", "-q"), ("-q", "-q", "--no-summary")], ids=" ".join)
def test_the_last_line_is_the_verdict_whatever_a_user_silences(tmp_path: Path, silence: tuple[str, ...]) -> None:
    done = run_suite(tmp_path, *FAILING, *silence)
    assert done.code == 1, done.output
    assert done.output.splitlines()[-1].startswith("NOT CONFORMANT")
    assert "report/report.html" in done.output.splitlines()[-1]
    assert done.output.count("NOT CONFORMANT") == 1
    assert (TOLD in done.output) == ("--no-summary" not in silence)


@pytest.mark.test_all
def test_a_step_of_github_actions_gets_a_group_and_annotations(tmp_path: Path) -> None:
    done = run_suite(tmp_path, *FAILING, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert "SIMULATED CLUSTER" in (tmp_path / "summary.md").read_text()
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
    assert "add-mask" in done.output
    found = list(carried_out(done.output))
    assert {one.name for one in found} == {"group", "endgroup", "error", "warning"}
    own = {result.id for result in done.record.results} | {"Not"}  # "Not judged": a shortfall of the run itself
    assert [one for one in found if one.name in ("error", "warning") and one.title.split(" ")[0] not in own] == []
