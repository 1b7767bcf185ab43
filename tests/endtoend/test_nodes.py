"""``--nodes``: a run about some nodes, before they take work again."""

from pathlib import Path

import pytest

from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Cause, Verdict
from tests.endtoend.runs import Finished, run_for_record
from tests.tables import each_row

CONSENT = "return: {tolerate: [node.kubernetes.io/unschedulable]}\n"
CORDONED = ("--simulate", "healthy,inv-cordoned-gpu-node")
HELD = "h100-2"


def policy(folder: Path, text: str) -> tuple[str, str]:
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return "--policy", str(path)


def test_a_run_about_a_node_judges_nothing_else(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,inv-missing-present-label", "--read-only", "--nodes", "h100-0")
    assert done.code == 0, done.output
    assert {one.name.partition(" ")[0] for result in done.record.results for one in result.subjects if one.kind == "Node"} == {"h100-0"}
    assert [row.node for row in done.record.inventory] == done.scope.nodes == ["h100-0"]
    assert done.record.requests.by_verb_and_resource["get pods/proxy"] <= 2, "no page of another node's exporter is read"
    causes = {one.id: one.cause for one in done.scope.not_judged}
    assert causes["FENCE-03"] is Cause.NODES
    about = done.scope.requirements - list(causes.values()).count(Cause.NODES)
    assert f"{done.scope.judged} of {about} requirements about h100-0 judged" in done.last_line


def test_what_is_wrong_with_the_node_keeps_it_out(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,inv-missing-present-label", "--read-only", "--nodes", "h100-2")
    assert (done.code, done.result("INV-01").verdict) == (1, Verdict.FAILED)


@each_row
def test_a_name_or_selector_that_matches_nothing_is_a_usage_error(tmp_path: Path, asked: str, words: str) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--nodes", asked)
    assert done.code == 4
    assert words in done.output


def test_a_node_that_nothing_calls_an_accelerator_node_fails(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy", "--read-only", "--nodes", "cpu-0")
    assert (done.code, done.result("INV-01").verdict) == (1, Verdict.FAILED)


@pytest.mark.test_all
def test_probes_go_through_a_cordon_only_by_consent(tmp_path: Path) -> None:
    refused = run_for_record(tmp_path, *CORDONED, "--nodes", HELD)
    assert refused.code == 1, refused.output
    assert refused.result("INV-02").verdict is Verdict.FAILED
    done = run_for_record(tmp_path, *CORDONED, "--nodes", HELD, *policy(tmp_path, CONSENT))
    assert done.code == 0, done.output
    assert any(f"{HELD} cannot be used yet" in note for note in done.scope.notes)
    for id_ in ("INV-02", "ISO-01", "FENCE-06", "FENCE-10"):
        assert [one.name for one in done.result(id_).subjects] == [HELD], id_
        assert done.result(id_).verdict is Verdict.PASSED


@pytest.mark.test_all
def test_a_node_is_compared_with_what_an_earlier_run_said_of_it(tmp_path: Path) -> None:
    def run(name: str, scenario: str, *more: str) -> Finished:
        (tmp_path / name).mkdir()
        return run_for_record(tmp_path / name, "--simulate", scenario, "--read-only", *more)

    earlier = run("before", "healthy,fence-prefer-no-schedule")
    assert earlier.code == 1
    since = ("--nodes", HELD, "--baseline", str(tmp_path / "before" / "report"), "--another-cluster")
    same = run("same", "healthy", *since)
    assert (same.code, same.result(COMPARISON).verdict) == (0, Verdict.PASSED), same.output
    worse = run("worse", "healthy,inv-missing-present-label", *since).result(COMPARISON)
    assert [one.name for one in worse.subjects if one.verdict is Verdict.FAILED] == ["INV-01"]
