"""The verdict from artefacts alone: each way in which a run may look good and not be, spoilt one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.engine_record import Ending, GateResult, Sent
from chaos.verdict import artefacts
from chaos.verdict.artefacts import Conformance
from chaos.verdict.judge import ChaosVerdict, judge
from chaos.verdict.sample_findings import findings_of_samples
from chaos.verdict.timeline import build_timeline
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.folder import Folder, at, ledger, record, replaced, samples


def judged(tmp_path: Path, spoil: Callable[[Folder], None], **extension: Any) -> ChaosVerdict:
    folder = Folder(tmp_path / "X1", **extension)
    spoil(folder)
    return judge(folder.write())


def test_what_went_well_passes_with_four_marks_and_their_uncertainty(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: None)
    assert found.verdict is Verdict.PASSED, found.message
    assert list(found.marks) == ["inject", "detect", "contained", "recovered"]
    assert found.marks["inject"].t == pytest.approx(2.02)
    assert found.marks["inject"].uncertainty == pytest.approx(0.02)
    assert found.marks["recovered"].t == pytest.approx(4.26)
    assert found.marks["recovered"].uncertainty == pytest.approx(0.26)
    assert found.recovery is not None
    assert found.recovery.since == "undo"
    assert found.recovery.seconds == pytest.approx(0.26)


def _message(found: ChaosVerdict, name: str) -> str:
    return next(one.message for one in found.findings if one.name == name)


def test_the_record_and_the_finding_say_the_same_of_what_is_not_known(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: None)  # the sample before the recovery began before the undo did
    assert found.recovery is not None
    assert found.recovery.uncertainty == pytest.approx(0.26)
    assert _message(found, "recovery") == "recovered 0.26 s (± 0.26 s) after the undo began, bound 20 s"


def _healed(folder: Folder) -> None:
    folder.samples = samples(lambda t: {"node.labels": "b"} if 2.0 <= t < 3.1 else {"node.labels": "a"})


def test_what_came_back_before_the_undo_counts_from_the_fault(tmp_path: Path) -> None:
    found = judged(tmp_path, _healed)
    assert found.verdict is Verdict.PASSED, found.message
    assert found.recovery is not None
    assert found.recovery.since == "fault"
    assert found.recovery.seconds == pytest.approx(1.24)  # the sample of 3.25, read by 3.26, the fault of 2.02
    assert found.recovery.uncertainty == pytest.approx(0.28)  # lost in the sample of 3.0, and the fault may be as old as 2.0
    assert _message(found, "recovery") == "recovered 1.24 s (± 0.28 s) after the fault, bound 20 s"


def test_what_came_back_before_the_undo_is_held_to_the_bound_from_the_fault_on(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        _healed(folder)
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "recovery": 0.9})
        folder.engine.plan_digest = folder.plan.digest

    assert judged(tmp_path, spoil).reason_codes == ["RecoveryTooSlow"]


def test_a_fault_that_heals_by_itself_counts_from_itself_whatever_the_undo_did(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.ledger = ledger(undo="pods.replaced")

    found = judged(tmp_path, spoil, undo=["pods.replaced"])
    assert found.recovery is not None
    assert found.recovery.since == "fault"
    assert found.recovery.seconds == pytest.approx(2.24)


def test_a_steady_state_that_was_never_lost_has_no_time_to_recovery(tmp_path: Path) -> None:
    change = {"detect": None, "contained": None}
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.labels": "a"})), **change)
    assert _message(found, "recovery") == "never lost: no sample shows the steady state lost (they are up to 0.25 s apart)"
    assert (found.verdict, found.never_lost, found.recovery) == (Verdict.PASSED, True, None)
    assert "recovered" not in found.marks


def _undone_late(folder: Folder) -> None:
    _healed(folder)
    folder.ledger[-1]["at"] = at(6.9)


def _ended_early(folder: Folder) -> None:
    _healed(folder)
    folder.samples = folder.samples[:17]


@pytest.mark.parametrize("spoil", [_undone_late, _ended_early])
def test_a_steady_state_that_was_not_watched_after_everything_was_undone_is_undecided(
    tmp_path: Path, spoil: Callable[[Folder], None]
) -> None:
    found = judged(tmp_path, spoil)
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["NotSettled"])


def test_judging_again_says_the_same(tmp_path: Path) -> None:
    path = Folder(tmp_path / "X1").write()
    assert msgspec.json.encode(judge(path)) == msgspec.json.encode(judge(path))


# -- error: it was not done or not undone as written ----------------------------------------------------


def _action_failed(folder: Folder) -> None:
    folder.journal["run"][0] = {**record("label", "failed"), "exception": ["ActivityFailed: 403 Forbidden\n"]}


def _rollback_failed(folder: Folder) -> None:
    folder.journal["rollbacks"][0] = {**record("undo", "failed"), "exception": ["ActivityFailed: 500\n"]}


def _no_status(folder: Folder) -> None:
    folder.journal["run"][1] = record("hold 1.0", None)


def _rollbacks_skipped(folder: Folder) -> None:
    folder.journal["rollbacks"] = []


def _action_skipped(folder: Folder) -> None:
    del folder.journal["run"][1]


def _odd_records(folder: Folder) -> None:
    folder.journal["run"] = [{"activity": ["label"], "status": "succeeded"}]


def _interrupted(folder: Folder) -> None:
    folder.journal["status"] = "interrupted"


def _raised(folder: Folder) -> None:
    folder.journal = {"status": "failed", "error": "Failed: inside an activity", "run": [], "rollbacks": []}


def _no_fault(folder: Folder) -> None:
    folder.ledger = []


def _never_applied(folder: Folder) -> None:
    folder.ledger = [line for line in ledger() if line["state"] != "applied"]


def _only_prepared(folder: Folder) -> None:
    folder.ledger[1]["detail"] = {"preparation": True}


def _not_verified(folder: Folder) -> None:
    folder.ledger.pop()


def _undeclared(folder: Folder) -> None:
    folder.ledger += ledger(2, "node.taints")


def _residue(folder: Folder) -> None:
    folder.engine.residue = ["nodes n1: not undone"]


def _killed(folder: Folder) -> None:
    folder.engine.ending = Ending(code=-9)


def _late(folder: Folder) -> None:
    sent = [Sent(signal="SIGUSR1", at=1.0, why="deadline of 30 s")]
    folder.engine.ending = Ending(code=0, sent=sent, deadline_passed=True, stopped="deadline of 30 s")


def _gate(folder: Folder) -> None:
    folder.engine.gates = [GateResult(name="halt", ok=False, message="halted by somebody")]


def _aborted(folder: Folder) -> None:
    folder.engine.abort = "label: Aborted"


def _stopped(folder: Folder) -> None:
    folder.engine.interrupted = "SIGINT"


def _engine(folder: Folder) -> None:
    folder.engine.error = "OSError: no space"


def _unfinished(folder: Folder) -> None:
    folder.engine.finished = None


def _other_plan(folder: Folder) -> None:
    folder.plan = msgspec.structs.replace(folder.plan, untouched="n3")


def _other_run(folder: Folder) -> None:
    folder.ledger[0]["entry"]["run_id"] = "another"


def _no_target(folder: Folder) -> None:
    folder.plan = msgspec.structs.replace(folder.plan, targets=())
    folder.engine.plan_digest = folder.plan.digest


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_action_failed, "ActivityFailed"),
        (_rollback_failed, "RollbackFailed"),
        (_no_status, "ActivityFailed"),
        (_rollbacks_skipped, "NotDone"),
        (_action_skipped, "NotDone"),
        (_interrupted, "NotCompleted"),
        (_odd_records, "ArtefactGarbled"),
        (_raised, "NotCompleted"),
        (_no_fault, "NoFaultLanded"),
        (_never_applied, "FaultNotLanded"),
        (_only_prepared, "NoFaultLanded"),
        (_not_verified, "NotRestored"),
        (_undeclared, "UndeclaredFault"),
        (_residue, "Residue"),
        (_killed, "ChildFailed"),
        (_late, "DeadlinePassed"),
        (_gate, "GateFailed"),
        (_aborted, "Aborted"),
        (_stopped, "Interrupted"),
        (_engine, "EngineFailed"),
        (_unfinished, "Unfinished"),
        (_other_plan, "ArtefactGarbled"),
        (_other_run, "ArtefactGarbled"),
        (_no_target, "NoTarget"),
    ],
)
def test_what_was_not_done_or_undone_as_written_is_an_error(tmp_path: Path, spoil: Callable[[Folder], None], code: str) -> None:
    found = judged(tmp_path, spoil)
    assert found.verdict is Verdict.ERROR
    assert code in found.reason_codes


@pytest.mark.parametrize(
    "name",
    ["experiment.json", "plan.json", "engine.json", "ledger.jsonl", "samples.jsonl", "journal.json", "before.json", "after.json"],
)
@pytest.mark.parametrize("content", [None, b"", b"{", b'{"a": 1}', b"\xff\xfe\n", b"[]\n", b"null\n"])
def test_an_artefact_that_is_missing_or_garbled_never_passes(tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = Folder(tmp_path / "X1").write()
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    found = judge(folder)
    assert found.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE), found
    if content is None:
        assert found.reason_codes == ["ArtefactMissing"]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "X1").write()
    with (folder / artefacts.SAMPLES).open("ab") as file:
        file.write(b'{"t": 7.0, "at": ')
    assert judge(folder).verdict is Verdict.PASSED


def test_samples_out_of_order_are_garbled(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: folder.samples.reverse())
    assert found.reason_codes == ["ArtefactGarbled"]


# -- inconclusive: what was seen does not tell -----------------------------------------------------------


def test_a_gap_of_the_sampler_is_inconclusive(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.samples = [one for one in folder.samples if not 2.6 < one["t"] < 3.9]

    found = judged(tmp_path, spoil)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "SamplerGap" in found.reason_codes


def test_a_sampler_that_died_is_inconclusive(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.engine.sampler_failure = "OSError: disk"

    assert judged(tmp_path, spoil).reason_codes == ["SamplerFailed"]


def test_an_expectation_without_data_is_inconclusive(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.ready": None} if 2.2 < t < 5 else {})))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "NoData" in found.reason_codes


def test_a_signal_without_a_baseline_is_inconclusive(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"nodes.others": None} if t < 1 else {})))
    assert found.verdict is Verdict.INCONCLUSIVE


def test_one_sample_without_data_is_no_gap(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.ready": None} if t == 2.5 else {})))
    assert found.verdict is Verdict.PASSED, found.message


def test_a_confirmed_fault_whose_effect_nobody_sees_is_inconclusive(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.labels": "a"})))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "EffectNotSeen" in found.reason_codes


def test_a_recovery_that_may_be_on_either_side_of_the_bound_is_inconclusive(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "recovery": 0.1})
        folder.engine.plan_digest = folder.plan.digest

    assert judged(tmp_path, spoil).reason_codes == ["RecoveryUndecided"]


def test_conformance_that_could_not_be_judged_after_is_inconclusive(tmp_path: Path) -> None:
    for after in (replaced(Verdict.INCONCLUSIVE), Conformance(at="x", trouble="exit code 3"), Conformance(at="x")):
        found = judged(tmp_path, lambda folder, after=after: setattr(folder, "after", after))  # type: ignore[misc]
        assert found.reason_codes == ["ConformanceUndecided"]


def test_allocations_that_were_not_read_are_inconclusive(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "allocations", []), signals=[*_SIGNALS, "allocations"])
    assert found.verdict is Verdict.INCONCLUSIVE


# -- failed: the cluster did not stand it -----------------------------------------------------------------

_SIGNALS = ["node.labels", "node.ready", "nodes.others"]


def test_a_breach_that_healed_before_the_end_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.ready": False} if t == 3.0 else {})))
    assert found.verdict is Verdict.FAILED
    assert found.reason_codes == ["ExpectationViolated"]
    assert next(one.seconds for one in found.findings if one.verdict is Verdict.FAILED) == 3.0


def test_a_steady_state_that_does_not_come_back_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.labels": "b"} if t > 2 else {})))
    assert found.reason_codes == ["SteadyStateLost"]


def test_a_recovery_that_is_too_slow_fails(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"node.labels": "b"} if 2 < t < 30 else {}, end=40)

    assert "RecoveryTooSlow" in judged(tmp_path, spoil).reason_codes


def test_collateral_damage_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"nodes.others": ["n3"]} if t == 3.0 else {})))
    assert found.reason_codes == ["CollateralDamage"]


def test_conformance_that_was_lost_fails(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "after", replaced(Verdict.FAILED)))
    assert found.reason_codes == ["ConformanceLost"]


def test_conformance_that_there_was_none_of_before_is_not_the_faults(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.before = folder.after = replaced(Verdict.FAILED)

    found = judged(tmp_path, spoil)
    assert found.verdict is Verdict.PASSED
    assert next(one.verdict for one in found.findings if one.name == "conformance") is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(("pods", "last"), [(False, 6.0), (True, 1.0)])
def test_allocations_of_nobody_or_from_before_the_fault_only_are_undecided(tmp_path: Path, pods: bool, last: float) -> None:
    holding: dict[str, Any] = {
        "namespace": "a",
        "name": "p1",
        "node": "n1",
        "requested": {"nvidia.com/gpu": 1},
        "ids": {"nvidia.com/gpu": ["GPU-1"]},
    }
    now = {"pods": {"1": holding} if pods else {}}

    def spoil(folder: Folder) -> None:
        times = {"before": 0.5, "during": 3.0, "after": last}
        folder.allocations = [{"t": t, "phase": phase, "allocations": now} for phase, t in times.items()]
        folder.samples = samples(lambda t: {"allocations": {}})

    found = judged(tmp_path, spoil, signals=[*_SIGNALS, "allocations"])
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["NoData"])


@pytest.mark.parametrize(("baseline", "verdict"), [({}, Verdict.NOT_APPLICABLE), ({"a/p": "1 0 Running"}, Verdict.PASSED)])
def test_to_contain_an_empty_baseline_is_nothing_held(tmp_path: Path, baseline: dict[str, str], verdict: Verdict) -> None:
    expect = [{"name": "pods stay", "always": {"signal": "pods", "contains": "baseline"}}]
    spoil: Callable[[Folder], None] = lambda folder: setattr(folder, "samples", samples(lambda t: {"pods": baseline}))  # noqa: E731
    found = judged(tmp_path, spoil, expect=expect, signals=[*_SIGNALS, "pods"])
    assert next(one.verdict for one in found.findings if one.name == "expect: pods stay") is verdict


def test_a_finding_says_on_how_many_it_was_judged(tmp_path: Path) -> None:
    expect = [
        {"name": "pods stay", "always": {"signal": "pods", "contains": "baseline"}},
        {"name": "one goes", "eventually": {"signal": "ids", "equals": []}, "within": "recovery"},
        {"name": "ready", "eventually": {"signal": "node.labels", "equals": "b"}, "within": "recovery"},
    ]
    told = lambda t: {"pods": {"a/p": "1", "a/q": "2"}, "ids": [] if t > 2.5 else ["GPU-1"]}  # noqa: E731
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(told)), expect=expect, signals=[*_SIGNALS, "pods", "ids"])
    assert found.verdict is Verdict.PASSED, found.message
    assert _message(found, "expect: pods stay").endswith("samples that tell, for 2 in pods")
    assert _message(found, "expect: one goes").endswith("bound 20 s, for 1 in ids")
    assert _message(found, "expect: ready").endswith("bound 20 s")


@pytest.mark.parametrize(("stay", "verdict"), [(True, Verdict.PASSED), (False, Verdict.FAILED)])
def test_a_control_run_is_compared_with_what_it_had_set_up(tmp_path: Path, stay: bool, verdict: Verdict) -> None:
    expect = [{"name": "workers stay", "always": {"signal": "canaries.uids", "contains": "baseline"}, "until": "undo"}]

    def spoil(folder: Folder) -> None:
        folder.ledger[1]["detail"] = {"preparation": True}
        until = 9.0 if stay else 3.6
        folder.samples = samples(lambda t: {"node.labels": "a", "canaries.uids": {"w": "1 0 Running"} if 1.5 < t < until else {}})

    found = judged(tmp_path, spoil, undo=[], expect=expect, signals=[*_SIGNALS, "canaries.uids"])
    assert found.verdict is verdict, found.message


def test_own_pods_that_were_never_seen_are_undecided(tmp_path: Path) -> None:
    expect = [{"name": "workers stay", "always": {"signal": "canaries.uids", "contains": "baseline"}}]
    spoil: Callable[[Folder], None] = lambda folder: setattr(folder, "samples", samples(lambda t: {"canaries.uids": {}}))  # noqa: E731
    found = judged(tmp_path, spoil, expect=expect, signals=[*_SIGNALS, "canaries.uids"])
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["NoData"])


def test_what_was_read_only_across_the_injection_was_not_seen_to_hold(tmp_path: Path) -> None:
    expect = [{"name": "told", "always": {"signal": "told", "is": True}, "until": "undo"}]

    def spoil(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"told": True if t < 2.0 else None})
        folder.samples[7]["took"] = 0.3  # from 1.75 on, and the fault was armed at 2
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "gap": 9.0})
        folder.engine.plan_digest = folder.plan.digest

    found = judged(tmp_path, spoil, expect=expect, signals=[*_SIGNALS, "told"])
    assert next(one.verdict for one in found.findings if one.name == "expect: told") is Verdict.INCONCLUSIVE


def test_a_baseline_that_was_broken_is_undecided(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.ready": t != 0.5})))
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["BaselineUnsteady"])


def _no_gates(folder: Folder) -> None:
    folder.engine.gates = []


def _other_experiment(folder: Folder) -> None:
    folder.ledger[0]["entry"]["experiment"] = "X2"


@pytest.mark.parametrize(
    ("spoil", "code", "undo"),
    [
        (_no_gates, "GateFailed", ["node.labels"]),
        (_other_experiment, "ArtefactGarbled", ["node.labels"]),
        (lambda folder: None, "FaultNotLanded", ["node.labels", "agent.restarted"]),
    ],
)
def test_a_fault_without_gates_of_another_experiment_or_of_half_is_an_error(
    tmp_path: Path, spoil: Callable[[Folder], None], code: str, undo: list[str]
) -> None:
    found = judged(tmp_path, spoil, undo=undo)
    assert (found.verdict, found.reason_codes) == (Verdict.ERROR, [code])


@pytest.mark.parametrize(
    ("attempted", "refused", "verdict"),
    [(True, True, Verdict.PASSED), (True, False, Verdict.FAILED), (False, True, Verdict.PASSED), (False, False, Verdict.INCONCLUSIVE)],
)
def test_what_had_to_be_refused_and_was_carried_out_fails(tmp_path: Path, attempted: bool, refused: bool, verdict: Verdict) -> None:
    def spoil(folder: Folder) -> None:
        folder.ledger[1]["detail"] = {"attempted": attempted, "refused": refused, "said": "All done."}

    found = judged(tmp_path, spoil)
    assert found.verdict is verdict
    assert next(one.verdict for one in found.findings if one.name == "refusal 1") is verdict


def test_a_double_allocation_fails(tmp_path: Path) -> None:
    holding: dict[str, Any] = {"namespace": "a", "node": "n1", "requested": {"nvidia.com/gpu": 1}, "ids": {"nvidia.com/gpu": ["GPU-1"]}}
    before: dict[str, Any] = {"pods": {"1": {**holding, "name": "p1"}}, "inventory": {"n1": {"nvidia.com/gpu": ["GPU-1"]}}}
    during = {**before, "pods": {**before["pods"], "2": {**holding, "name": "p2"}}}
    lines = [{"t": 0.5, "phase": "before", "allocations": before}, {"t": 3.0, "phase": "during", "allocations": during}]
    lines.append({"t": 6.0, "phase": "after", "allocations": before})

    def spoil(folder: Folder) -> None:
        folder.allocations = lines
        folder.samples = samples(lambda t: {"allocations": {}})

    assert judged(tmp_path, spoil, signals=[*_SIGNALS, "allocations"]).reason_codes == ["AllocationBroken"]


@pytest.mark.parametrize(("ready", "verdict"), [(True, Verdict.PASSED), (False, Verdict.FAILED)])
def test_never_means_in_no_sample(tmp_path: Path, ready: bool, verdict: Verdict) -> None:
    expect = [{"name": "no outage", "never": {"signal": "node.ready", "is": False}}]
    found = judged(tmp_path, lambda folder: setattr(folder, "samples", samples(lambda t: {"node.ready": ready or t != 3.0})), expect=expect)
    assert found.verdict is verdict


@pytest.mark.parametrize(("seen", "verdict"), [(2.5, Verdict.PASSED), (3.5, Verdict.FAILED), (None, Verdict.FAILED)])
def test_eventually_means_within_its_bound(tmp_path: Path, seen: float | None, verdict: Verdict) -> None:
    expect = [{"name": "told", "eventually": {"signal": "told", "is": True}, "within": "telling"}]

    def spoil(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"told": seen is not None and t >= seen})
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "telling": 1.0})
        folder.engine.plan_digest = folder.plan.digest

    found = judged(tmp_path, spoil, expect=expect, signals=[*_SIGNALS, "told"], seconds={"telling": {"live": 1, "simulated": 1}})
    assert found.verdict is verdict, found.message


_TOLD: dict[str, Any] = {
    "expect": [{"name": "told", "eventually": {"signal": "told", "is": True}, "within": "telling"}],
    "signals": [*_SIGNALS, "told"],
    "seconds": {"telling": {"live": 2, "simulated": 2}},
}


def _telling(value: Callable[[float], bool | None]) -> Callable[[Folder], None]:
    def spoil(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"told": value(t)})
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "telling": 2.0})
        folder.engine.plan_digest = folder.plan.digest

    return spoil


@pytest.mark.parametrize(
    ("value", "verdict", "code"),
    [
        (lambda t: True, Verdict.INCONCLUSIVE, "HeldBefore"),  # held all along: nothing was shown
        (lambda t: t < 5, Verdict.INCONCLUSIVE, "HeldBefore"),  # lost only after the bound of 2 s from 2 s on
        (lambda t: None if t < 2 else True, Verdict.INCONCLUSIVE, "HeldBefore"),  # what it was before is not known
        (lambda t: not 2.5 <= t < 3, Verdict.PASSED, ""),  # lost, and came back
        (lambda t: t < 2.5, Verdict.FAILED, "ExpectationViolated"),  # lost, and did not
        (lambda t: False if t < 2.5 or t > 4.5 else None, Verdict.INCONCLUSIVE, "NoData"),  # it may have come in between
    ],
    ids=["held", "lost late", "unknown before", "came back", "stayed away", "unknown in between"],
)
def test_eventually_is_not_shown_by_what_held_all_along(
    tmp_path: Path, value: Callable[[float], bool | None], verdict: Verdict, code: str
) -> None:
    found = judged(tmp_path, _telling(value), **_TOLD)
    told = next(one for one in found.findings if one.name == "expect: told")
    assert (told.verdict, told.reason_code) == (verdict, code), told.message


def test_a_failure_that_was_seen_outranks_what_is_not_known_elsewhere(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        _telling(lambda t: None)(folder)
        folder.samples = [{**one, "values": {**one["values"], "nodes.others": ["n3"] if one["t"] == 3.0 else []}} for one in folder.samples]

    found = judged(tmp_path, spoil, **_TOLD)
    assert (found.verdict, found.reason_codes) == (Verdict.FAILED, ["CollateralDamage"])
    assert Verdict.INCONCLUSIVE in {one.verdict for one in found.findings}


def test_an_error_outranks_a_failure(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.after = replaced(Verdict.FAILED)
        folder.engine.residue = ["nodes n1: not undone"]

    assert judged(tmp_path, spoil).verdict is Verdict.ERROR


def test_what_differs_from_a_baseline_that_was_broken_is_undecided(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"node.ready": t != 0.5, "nodes.others": ["n3"] if t == 3.0 else []})

    found = judged(tmp_path, spoil)
    assert (found.verdict, found.reason_codes) == (Verdict.INCONCLUSIVE, ["BaselineUnsteady"])


def test_a_containment_that_nobody_could_see_is_undecided(tmp_path: Path) -> None:
    contained = {"signal": "told", "is": True}
    found = judged(tmp_path, _telling(lambda t: None if t > 2 else False), **{**_TOLD, "expect": [], "contained": contained})
    assert next(one.verdict for one in found.findings if one.name == "contained") is Verdict.INCONCLUSIVE


def test_a_recovery_that_nobody_could_see_is_not_too_slow(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:  # back by 4.26, within the bound from the undo at 4 on, and not known at 5.5
        folder.samples = samples(lambda t: {"node.labels": None} if t == 5.5 else {})
        folder.plan = msgspec.structs.replace(folder.plan, seconds={**folder.plan.seconds, "recovery": 1.0})
        folder.engine.plan_digest = folder.plan.digest

    assert judged(tmp_path, spoil).reason_codes == ["RecoveryUndecided"]


def test_a_hypothesis_that_broke_in_between_fails_although_the_toolkit_forgot_it(tmp_path: Path) -> None:
    def spoil(folder: Folder) -> None:
        folder.document["steady-state-hypothesis"] = {"title": "t", "probes": [{"name": "p"}]}
        good, bad = {"steady_state_met": True}, {"steady_state_met": False}
        folder.journal |= {"deviated": False, "steady_states": {"before": good, "after": good, "during": [good, bad, good]}}

    assert judged(tmp_path, spoil).reason_codes == ["HypothesisBroken"]


# -- what is known to fail, and runs without a fault --------------------------------------------------------


def test_a_known_failure_passes_and_its_end_is_noticed(tmp_path: Path) -> None:
    def fail(folder: Folder) -> None:
        folder.samples = samples(lambda t: {"node.ready": False} if t == 3.0 else {})

    known = judged(tmp_path / "known", fail, expected_failure="upstream #1")
    assert (known.verdict, known.reason_codes) == (Verdict.PASSED, ["ExpectedFailure"])
    gone = judged(tmp_path / "gone", lambda folder: None, expected_failure="upstream #1")
    assert (gone.verdict, gone.reason_codes) == (Verdict.FAILED, ["UnexpectedPass"])

    def unsure(folder: Folder) -> None:
        fail(folder)
        folder.engine.sampler_failure = "OSError: disk"

    unknown = judged(tmp_path / "unknown", unsure, expected_failure="upstream #1")
    assert (unknown.verdict, unknown.reason_codes) == (Verdict.INCONCLUSIVE, ["SamplerFailed"])
    other = judged(tmp_path / "other", lambda folder: setattr(folder, "after", replaced(Verdict.FAILED)), expected_failure="upstream #1")
    assert other.verdict is Verdict.FAILED


@pytest.mark.parametrize(("ready", "verdict"), [(True, Verdict.PASSED), (False, Verdict.FAILED)])
def test_a_control_run_needs_no_fault_and_steadiness_all_along(tmp_path: Path, ready: bool, verdict: Verdict) -> None:
    def spoil(folder: Folder) -> None:
        folder.ledger = []
        folder.samples = samples(lambda t: {"node.labels": "a", "node.ready": ready or t != 3.0})

    found = judged(tmp_path, spoil, undo=[], expect=[])
    assert found.verdict is verdict, found.message


def test_a_control_run_that_changes_something_is_an_error(tmp_path: Path) -> None:
    assert "UndeclaredFault" in judged(tmp_path, lambda folder: None, undo=[], expect=[]).reason_codes


def test_what_the_samples_show_is_a_function_of_the_timeline_alone(tmp_path: Path) -> None:
    read = artefacts.Artefacts(Folder(tmp_path / "X1").write())
    extension, seconds = read.experiment().extension, read.plan().seconds
    timeline = build_timeline(extension, read.engine(), read.samples(), read.ledger(), seconds)
    assert timeline is not None
    before = msgspec.json.encode(timeline)
    first = findings_of_samples(timeline)
    assert findings_of_samples(timeline) == first
    assert msgspec.json.encode(timeline) == before
    assert list(first.event_times) == ["inject", "detect", "contained", "recovered"]
