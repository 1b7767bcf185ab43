"""One experiment from plan to verdict, on the embedded cluster."""

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.engine.campaign import Campaign, Refused
from chaos.engine.recover import preview
from chaos.ledger.bounds import Terms
from fixtures.cluster.watch import Observation
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import LABEL, activity, document
from tests.chaos.engine.stage import Stage, load

pytestmark = pytest.mark.test_all


class _Alarm(BaseException):
    pass


def test_a_lock_that_another_user_has_prepared_is_reported(on: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of temporary files is everybody's."""
    monkeypatch.setattr("chaos.safety.lease.tempfile.gettempdir", lambda: str(tmp_path))
    campaign = on.campaign(tmp_path / "one")
    campaign._lock.path.symlink_to("elsewhere")
    with pytest.raises(Refused, match=r"the lock of this machine, .*symbolic link"):
        campaign.__enter__()


def test_an_alarm_in_the_parent_undoes_and_counts(on: Stage, tmp_path: Path) -> None:
    """T6, as pytest-timeout does it: an exception out of nowhere on the parent's main thread."""

    def ring(_number: int, _frame: object) -> None:
        raise _Alarm

    def ring_when_labelled() -> None:
        _await_label(on)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, ring)
    experiment = load(document(activity("label"), activity("hold", seconds=25.0)))
    try:
        with on.campaign(tmp_path) as campaign:
            threading.Thread(target=ring_when_labelled).start()
            with pytest.raises(_Alarm) as rung:
                campaign.carry_out(experiment)
            result = campaign.cut_short(experiment, rung.value)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert on.labelled() == []
    assert result.verdict is Verdict.ERROR
    assert "EngineFailed" in result.reason_codes


def _await_label(on: Stage) -> None:
    with Observation(on.cluster, "nodes", labels=LABEL) as observation:
        for found in observation.until(time.monotonic() + 60):
            if found:
                break


# -- many experiments in one run; from here on the run holds the cluster -----------------------------------


@pytest.fixture(scope="module")
def shared(on: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """One run for many experiments: conformance is judged once between two of them."""
    with on.campaign(tmp_path_factory.mktemp("run")) as campaign:
        yield campaign
    assert not campaign.residue


_numbers = itertools.count(10)


def _carry_out(on: Stage, shared: Campaign, *method: dict[str, Any], **change: Any) -> tuple[ChaosResult, Path]:
    id_ = f"X{next(_numbers)}"
    result = shared.carry_out(load(document(*method, id=id_, **change)))
    assert on.labelled() == [], "the fault is still there"
    assert not shared.residue
    return result, shared.folder / id_


@pytest.mark.parametrize("how", ["pytest.fail", "keyboard", "sys.exit(30)", "SIGTERM", "SIGUSR2", "alarm"])
def test_whatever_an_activity_does_the_fault_is_undone_and_nothing_follows(on: Stage, shared: Campaign, how: str) -> None:
    """T6. chaostoolkit alone leaves the fault for most of these, or goes on with the next action."""
    result, folder = _carry_out(on, shared, activity("label"), activity("misbehave", how=how), activity("hold", seconds=0.0))
    assert result.verdict is Verdict.ERROR
    assert {"Aborted", "ActivityFailed"} & set(result.reason_codes)
    journal = json.loads((folder / "journal.json").read_text())
    last = [record for record in journal["run"] if record["activity"]["name"] == "hold 0.0"]
    assert all(record["status"] == "failed" for record in last)


def test_who_interrupts_the_planning_is_not_given_the_verdict_of_an_earlier_experiment(
    on: Stage, shared: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = _carry_out(on, shared, activity("label"), activity("hold", seconds=0.0))
    assert before.verdict is Verdict.PASSED

    def ring(*_: object) -> None:
        raise _Alarm

    monkeypatch.setattr("chaos.engine.campaign.plan_now", ring)
    experiment = load(document(activity("label"), id=f"X{next(_numbers)}"))
    with pytest.raises(_Alarm) as rung:
        shared.carry_out(experiment)
    assert shared.cut_short(experiment, rung.value).reason_codes == ["EngineFailed"]


def test_a_child_that_is_killed_is_undone_by_its_parent(on: Stage, shared: Campaign) -> None:
    """T1."""
    result, folder = _carry_out(on, shared, activity("label"), activity("misbehave", how="SIGKILL"))
    assert result.verdict is Verdict.ERROR
    assert {"ChildFailed", "ArtefactMissing"} <= set(result.reason_codes)
    assert json.loads((folder / "engine.json").read_text())["replayed"] is True


def test_an_activity_that_swallows_everything_is_killed_at_the_deadline(on: Stage, shared: Campaign) -> None:
    # a busy machine may take a while to start the child, and one that has not begun ends at the first signal
    seconds = {"deadline": {"live": 60, "simulated": 20}, "grace": {"live": 20, "simulated": 0.5}}
    result, folder = _carry_out(on, shared, activity("label"), activity("misbehave", how="hang"), seconds=seconds)
    assert result.verdict is Verdict.ERROR
    assert "DeadlinePassed" in result.reason_codes
    sent = json.loads((folder / "engine.json").read_text())["ending"]["sent"]
    assert [one["signal"] for one in sent] == ["SIGUSR1", "SIGKILL"]


@pytest.mark.parametrize(("func", "code"), [("forget_to_label", "FaultNotLanded"), ("nothing", "NoFaultLanded")])
def test_a_fault_that_does_not_land_never_passes(on: Stage, shared: Campaign, func: str, code: str) -> None:
    """T4."""
    result, _ = _carry_out(on, shared, activity(func))
    assert result.verdict is Verdict.ERROR
    assert code in result.reason_codes


def test_what_the_method_brings_about_last_is_sampled_before_it_is_undone(on: Stage, shared: Campaign) -> None:
    expect = [{"name": "told", "eventually": {"signal": "node.labels", "differs": "baseline"}, "within": "recovery"}]
    result, _ = _carry_out(on, shared, activity("label"), expect=expect, seconds={"sample": {"live": 1, "simulated": 0.9}})
    assert result.verdict is Verdict.PASSED, result.message
    assert "detect" in [mark.name for mark in result.marks]


def test_a_closed_gate_is_an_error_and_nothing_is_touched(on: Stage, shared: Campaign) -> None:
    result, folder = _carry_out(on, shared, level=3)
    assert result.verdict is Verdict.ERROR
    assert result.reason_codes == ["GateFailed"]
    assert not (folder / "ledger.jsonl").exists()


def test_an_experiment_is_carried_out_again_in_the_same_run(on: Stage, shared: Campaign) -> None:
    """Its numbers in the ledger go on, its folders lie apart, and whoever recovers from the folder takes both for one run's."""
    found = [shared.carry_out(load(document())) for _ in range(2)]
    first, second = (
        [json.loads(line)["seq"] for line in (shared.folder / name / "ledger.jsonl").read_text().splitlines()] for name in ("X1", "X1.2")
    )
    assert max(first) < min(second)
    assert preview(on.cluster, shared.folder.parent, terms=Terms.of([], on.policy))[1].clean
    assert [(one.id, one.verdict, one.artefacts) for one in found] == [
        ("X1", Verdict.PASSED, "chaos/X1"),
        ("X1", Verdict.PASSED, "chaos/X1.2"),
    ]


def test_an_unsteady_cluster_is_left_alone(on: Stage, shared: Campaign) -> None:
    steady = {"signal": "node.ready", "is": False}
    result, _ = _carry_out(on, shared, steady=steady, seconds={"settle": {"live": 1, "simulated": 0.2}})
    assert result.reason_codes == ["GateFailed"]
    assert "steady state" in result.message
