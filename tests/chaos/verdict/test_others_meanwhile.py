"""What others do meanwhile, where nothing tells who caused it: never passed, never failed, and no excuse for anything else."""

from pathlib import Path
from typing import Any

import pytest

from chaos.verdict.judge import MEANWHILE, judge
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import EXTENSION
from tests.chaos.verdict.folder import Folder, samples

OTHERS, ENDED = "pods.others", "pods.others.ended"
STEADY = EXTENSION["steady"]
UNDECIDED = Verdict.INCONCLUSIVE


def judged(tmp_path: Path, value: Any, signal: str = OTHERS, **block: Any) -> Any:
    """The verdict where ``value(t)`` gives what differs from samples that show nobody to have ended."""
    block = {"collateral": ["nodes.others", signal], **block}
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], signal], **block)
    folder.samples = samples(lambda t: {OTHERS: [], ENDED: [], **value(t)})
    return judge(folder.write())


def ended(since: float, *names: str) -> Any:
    return lambda t: {ENDED: list(names) if t >= since else []}


CRASHED = "team/x main: Error, exit code 1"
OVER_PODS: dict[str, Any] = {"steady": {"all": [STEADY, {"signal": OTHERS, "equals": "baseline"}]}}
OTHERS_ENDED: dict[str, tuple[Any, Verdict, list[str], str]] = {
    "since the fault: named and undecided": (ended(3.0, CRASHED), UNDECIDED, ["OthersAtWork"], f'ended at +0.98 s: ["{CRASHED}"]'),
    "before the baseline": (ended(0.0, CRASHED), Verdict.PASSED, [], ""),
    "since the baseline": (ended(1.0, CRASHED), Verdict.PASSED, [], ""),
    "just before the fault": (ended(1.75, CRASHED), Verdict.PASSED, [], ""),
    "one before hides none that ended since": (
        lambda t: {ENDED: ["team/x a: Error"] if t < 3 else ["team/x a: Error", "team/y a: Error"]},
        *(UNDECIDED, ["OthersAtWork"], "team/y"),
    ),
    "by the cluster: still a failure": (
        lambda t: {OTHERS: ["team/y Evicted"] if t >= 3 else [], **ended(2.5, "team/x a: Error")(t)},
        *(Verdict.FAILED, ["CollateralDamage"], "team/y Evicted"),
    ),
    "not read since": (lambda t: {ENDED: None if t > 2 else []}, UNDECIDED, ["NoData"], ""),
    "not read before": (lambda t: {ENDED: None if t < 2 else []}, UNDECIDED, ["NoData"], ""),
    "never read": (lambda t: {ENDED: None}, UNDECIDED, ["NoData"], ""),
}


@pytest.mark.parametrize("name", OTHERS_ENDED)
def test_pods_elsewhere_that_ended(tmp_path: Path, name: str) -> None:
    value, verdict, codes, says = OTHERS_ENDED[name]
    found = judged(tmp_path, value)
    assert (found.verdict, found.reason_codes) == (verdict, codes)
    assert says in found.message
    assert not (says == "team/y" and "team/x" in found.message)


def test_a_folder_of_an_older_version_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], OTHERS], collateral=[OTHERS])
    folder.samples = samples(lambda t: {OTHERS: []})
    assert judge(folder.write()).verdict is Verdict.PASSED
    folder.samples = samples(lambda t: {OTHERS: ["team/x"] if t > 3 else []})
    assert judge(folder.write()).reason_codes == ["CollateralDamage"]


def test_a_steady_state_over_pods_of_others_is_as_undecided(tmp_path: Path) -> None:
    found = judged(tmp_path, ended(3.0, CRASHED), **OVER_PODS, collateral=["nodes.others"])
    assert (found.verdict, found.reason_codes) == (UNDECIDED, ["OthersAtWork"])


@pytest.mark.parametrize(("since", "verdict", "codes"), [(9.0, Verdict.PASSED, []), (1.0, UNDECIDED, ["OthersAtWork"])])
def test_a_control_run_is_judged_from_its_first_sample_on(tmp_path: Path, since: float, verdict: Verdict, codes: list[str]) -> None:
    """No fault, and the baseline is the first sample that there is."""
    block: dict[str, Any] = {"undo": [], "detect": None, "contained": None, "expect": [], "collateral": []}
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], OTHERS], **OVER_PODS, **block)
    folder.ledger = []
    folder.engine.baseline_t = 0.0
    folder.samples = samples(lambda t: {"node.labels": "a", OTHERS: [], **ended(since, CRASHED)(t)})
    found = judge(folder.write())
    assert (found.verdict, found.reason_codes) == (verdict, codes)


UNTOUCHED = [{"name": "pods of the node", "always": {"signal": "pods.uids", "contains": "baseline"}, "until": "undo"}]


@pytest.mark.parametrize(
    ("ended", "verdict", "says"),
    [
        (lambda t: {"team/x": "main: Error, exit code 1" if t >= 3 else ""}, UNDECIDED, CRASHED),
        (lambda t: {"team/x": "gone" if t >= 5 else ""}, Verdict.PASSED, ""),
        (lambda t: {}, Verdict.PASSED, ""),
        (lambda t: {"team/y": "gone" if t >= 3 else ""} if t >= 1 else {}, Verdict.PASSED, ""),
    ],
    ids=["while the expectation lasts", "after it", "nobody ended", "one that came after the baseline"],
)
def test_a_stranger_on_the_target_that_ended_is_undecided(tmp_path: Path, ended: Any, verdict: Verdict, says: str) -> None:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], "pods.uids"], expect=UNTOUCHED)
    folder.samples = samples(lambda t: {"pods.uids": {"team/x": "uid 0 Running"}, "pods.ended": {"team/x": "", **ended(t)}})
    found = judge(folder.write())
    assert (found.verdict, found.reason_codes) == (verdict, ["OthersAtWork"] if says else [])
    assert says in found.message


def interfered(tmp_path: Path, signal: str, begins: float | None, **more: Any) -> Any:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], signal])

    def change(t: float) -> dict[str, Any]:
        theirs = begins is not None and begins <= t < begins + 1
        return {signal: ["n1: kubectl-cordon"] if theirs else [], **(more if theirs else {})}

    folder.samples = samples(change)
    return judge(folder.write())


@pytest.mark.parametrize("signal", sorted(MEANWHILE))
def test_nobody_else_at_work_passes(tmp_path: Path, signal: str) -> None:
    assert interfered(tmp_path, signal, None).verdict is Verdict.PASSED


@pytest.mark.parametrize("signal", sorted(MEANWHILE))
@pytest.mark.parametrize("begins", [1.0, 2.5, 5.5], ids=["before the fault", "during", "after the undo"])
def test_somebody_else_at_work_is_never_passed(tmp_path: Path, signal: str, begins: float) -> None:
    found = interfered(tmp_path, signal, begins)
    assert (found.verdict, found.reason_codes) == (UNDECIDED, ["OthersAtWork"])
    assert MEANWHILE[signal] in found.message
    assert "kubectl-cordon" in found.message


@pytest.mark.parametrize(
    ("elsewhere", "verdict", "codes"),
    [({"node.ready": False}, UNDECIDED, ["OthersAtWork"]), ({"nodes.others": ["n7"]}, Verdict.FAILED, ["CollateralDamage"])],
    ids=["no failure of the cluster", "no excuse for what happened elsewhere"],
)
def test_somebody_else_at_work_and_a_failure(tmp_path: Path, elsewhere: dict[str, Any], verdict: Verdict, codes: list[str]) -> None:
    found = interfered(tmp_path, "node.cordoned.by.others", 2.5, **elsewhere)
    assert (found.verdict, found.reason_codes) == (verdict, codes)
    assert any(one.verdict is Verdict.FAILED for one in found.findings)
