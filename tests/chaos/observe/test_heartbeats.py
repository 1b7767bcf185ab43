"""A running worker goes on: its heartbeat is followed for as long as the fault lasts, not for one beat."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.model.conditions import signals_of
from chaos.observe.signals.registry import SIGNALS
from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.observe.made_up_cluster import CANARIES, Read, World, canary, plan
from tests.chaos.shipped import EXPERIMENTS
from tests.chaos.verdict.folder import Folder, samples


def beating(count: int) -> World:
    return World({f"{CANARIES}/pods/one/log": f"beat {count}\n"}, pods=[canary("one", "a")])


def test_seconds_since_the_last_beat_are_counted_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 100.0
    monkeypatch.setattr("chaos.observe.signals.pods.time.monotonic", lambda: moment)
    read = Read(beating(1), plan())
    assert SIGNALS["canaries.stalled"](read) == 0.0  # type: ignore[arg-type]
    moment = 103.0
    read = read.again(beating(1))
    assert SIGNALS["canaries.stalled"](read) == 3.0  # type: ignore[arg-type]
    moment = 104.0
    read = read.again(beating(2))
    assert SIGNALS["canaries.stalled"](read) == 0.0  # type: ignore[arg-type]


def test_where_a_worker_has_to_go_on_it_may_not_pause_until_the_undo() -> None:
    found = 0
    for experiment in EXPERIMENTS.values():
        expected = experiment.extension.expect
        if not any(one.mode == "eventually" and "canaries.progress" in signals_of(one.condition) for one in expected):
            continue
        found += 1
        assert any(
            one.mode == "always" and one.until == "undo" and set(signals_of(one.condition)) == {"canaries.stalled"} for one in expected
        ), experiment.id
    assert found


@pytest.mark.parametrize(
    ("stalled", "verdict"),
    [
        pytest.param(lambda t: 0.2, Verdict.PASSED, id="beats on"),
        pytest.param(lambda t: max(t - 2.5, 0.2), Verdict.FAILED, id="one beat and no other"),
        pytest.param(lambda t: t - 2.2 if 2.2 < t < 3.6 else 0.2, Verdict.FAILED, id="a pause"),
        pytest.param(lambda t: None if t > 2.4 else 0.2, Verdict.INCONCLUSIVE, id="not known"),
    ],
)
def test_one_beat_after_the_fault_is_not_going_on(tmp_path: Path, stalled: Callable[[float], float | None], verdict: Verdict) -> None:
    expect: list[dict[str, Any]] = [
        {"name": "it goes on", "eventually": {"signal": "canaries.progress", "above": "baseline"}, "within": "recovery"},
        {"name": "it never stalls", "always": {"signal": "canaries.stalled", "at_most": 1.0}, "until": "undo"},
    ]
    read = ["node.labels", "node.ready", "nodes.others", "canaries.progress", "canaries.stalled"]
    folder = Folder(tmp_path / "X1", expect=expect, signals=read)
    folder.samples = samples(lambda t: {"canaries.progress": 5 if t < 2.4 else 6, "canaries.stalled": stalled(t)})
    found = judge(folder.write())
    assert next(one.verdict for one in found.findings if one.name == "expect: it goes on") is Verdict.PASSED
    assert found.verdict is verdict, found.message
