"""What others do meanwhile, where nothing tells who caused it: never passed, never failed, and no excuse for anything else."""

from pathlib import Path
from typing import Any

import pytest

from chaos.verdict.interference import WORDS
from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import EXTENSION
from tests.chaos.verdict.folder import Folder, samples

OTHERS, ENDED = "pods.others", "pods.others.ended"
STEADY = EXTENSION["steady"]


def judged(tmp_path: Path, value: Any, signal: str = OTHERS, **block: Any) -> Any:
    """The verdict where ``value(t)`` gives what differs from samples that show nobody to have ended."""
    block = {"collateral": ["nodes.others", signal], **block}
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], signal], **block)
    folder.samples = samples(lambda t: {OTHERS: [], ENDED: [], **value(t)})
    return judge(folder.write())


def ended(since: float, *names: str) -> Any:
    return lambda t: {ENDED: list(names) if t >= since else []}


def test_who_ended_since_the_fault_is_named_and_undecided(tmp_path: Path) -> None:
    found = judged(tmp_path, ended(3.0, "team/x main: Error, exit code 1"))
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["OthersAtWork"])
    assert "team/x main: Error, exit code 1" in found.message
    assert "+0.98 s" in found.message


@pytest.mark.parametrize("since", [0.0, 1.0, 1.75], ids=["before the baseline", "since the baseline", "just before the fault"])
def test_who_ended_before_the_fault_is_not_its_doing(tmp_path: Path, since: float) -> None:
    assert judged(tmp_path, ended(since, "team/x main: Error, exit code 1")).verdict is Verdict.PASSED


def test_one_that_ended_before_hides_none_that_ended_since(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda t: {ENDED: ["team/x a: Error"] if t < 3 else ["team/x a: Error", "team/y a: Error"]})
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "team/y" in found.message
    assert "team/x" not in found.message


def test_what_the_cluster_ended_still_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda t: {OTHERS: ["team/y Evicted"] if t >= 3 else [], **ended(2.5, "team/x a: Error")(t)})
    assert (found.verdict, found.reason_codes) == (Verdict.FAILED, ["CollateralDamage"])
    assert "team/y Evicted" in found.message


def test_ends_that_could_not_be_read_are_no_data(tmp_path: Path) -> None:
    for gone in (lambda t: t > 2, lambda t: t < 2, lambda t: True):
        found = judged(tmp_path, lambda t, gone=gone: {ENDED: None if gone(t) else []})
        assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["NoData"])


def test_a_folder_of_an_older_version_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], OTHERS], collateral=[OTHERS])
    folder.samples = samples(lambda t: {OTHERS: []})
    assert judge(folder.write()).verdict is Verdict.PASSED
    folder.samples = samples(lambda t: {OTHERS: ["team/x"] if t > 3 else []})
    assert judge(folder.write()).reason_codes == ["CollateralDamage"]


def test_a_steady_state_over_pods_of_others_is_as_undecided(tmp_path: Path) -> None:
    steady = {"all": [STEADY, {"signal": OTHERS, "equals": "baseline"}]}
    found = judged(tmp_path, ended(3.0, "team/x a: Error"), steady=steady, collateral=["nodes.others"])
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["OthersAtWork"])


def control_run(tmp_path: Path, value: Any) -> Any:
    """No fault, and the baseline is the first sample that there is."""
    steady = {"all": [STEADY, {"signal": OTHERS, "equals": "baseline"}]}
    block: dict[str, Any] = {"undo": [], "detect": None, "contained": None, "expect": [], "collateral": []}
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], OTHERS], steady=steady, **block)
    folder.ledger = []
    folder.engine.baseline_t = 0.0
    folder.samples = samples(lambda t: {"node.labels": "a", OTHERS: [], ENDED: [], **value(t)})
    return judge(folder.write())


def test_a_control_run_is_judged_from_its_first_sample_on(tmp_path: Path) -> None:
    assert control_run(tmp_path, lambda t: {}).verdict is Verdict.PASSED
    found = control_run(tmp_path, ended(1.0, "team/x a: Error"))
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["OthersAtWork"])


UNTOUCHED = [{"name": "pods of the node", "always": {"signal": "pods.uids", "contains": "baseline"}, "until": "undo"}]


def on_the_target(tmp_path: Path, value: Any) -> Any:
    def change(t: float) -> dict[str, Any]:
        return {"pods.uids": {"team/x": "uid 0 Running"}, "pods.ended": {"team/x": "", **value(t)}}

    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], "pods.uids"], expect=UNTOUCHED)
    folder.samples = samples(change)
    return judge(folder.write())


def test_a_stranger_on_the_target_that_ended_is_undecided_while_the_expectation_lasts(tmp_path: Path) -> None:
    found = on_the_target(tmp_path, lambda t: {"team/x": "main: Error, exit code 1" if t >= 3 else ""})
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["OthersAtWork"])
    assert "team/x main: Error, exit code 1" in found.message
    assert on_the_target(tmp_path, lambda t: {"team/x": "gone" if t >= 5 else ""}).verdict is Verdict.PASSED
    assert on_the_target(tmp_path, lambda t: {}).verdict is Verdict.PASSED


def test_a_stranger_that_came_after_the_baseline_is_none_that_was_expected(tmp_path: Path) -> None:
    assert on_the_target(tmp_path, lambda t: {"team/y": "gone" if t >= 3 else ""} if t >= 1 else {}).verdict is Verdict.PASSED


def interfered(tmp_path: Path, signal: str, begins: float | None, **more: Any) -> Any:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], signal])

    def change(t: float) -> dict[str, Any]:
        theirs = begins is not None and begins <= t < begins + 1
        return {signal: ["n1: kubectl-cordon"] if theirs else [], **(more if theirs else {})}

    folder.samples = samples(change)
    return judge(folder.write())


@pytest.mark.parametrize("signal", sorted(WORDS))
def test_nobody_else_at_work_passes(tmp_path: Path, signal: str) -> None:
    assert interfered(tmp_path, signal, None).verdict is Verdict.PASSED


@pytest.mark.parametrize("signal", sorted(WORDS))
@pytest.mark.parametrize("begins", [1.0, 2.5, 5.5], ids=["before the fault", "during", "after the undo"])
def test_somebody_else_at_work_is_never_passed(tmp_path: Path, signal: str, begins: float) -> None:
    found = interfered(tmp_path, signal, begins)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason_codes == ["OthersAtWork"]
    assert WORDS[signal] in found.message
    assert "kubectl-cordon" in found.message


def test_nor_is_it_the_clusters_failure(tmp_path: Path) -> None:
    found = interfered(tmp_path, "node.cordoned.by.others", 2.5, **{"node.ready": False})
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any(one.verdict is Verdict.FAILED for one in found.findings)


def test_it_does_not_excuse_what_happened_elsewhere(tmp_path: Path) -> None:
    found = interfered(tmp_path, "node.cordoned.by.others", 2.5, **{"nodes.others": ["n7"]})
    assert found.verdict is Verdict.FAILED
    assert found.reason_codes == ["CollateralDamage"]
