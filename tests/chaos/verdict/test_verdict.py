"""The verdict from artefacts alone: each way in which a run may look good and not be, spoilt one at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.records import Ending, GateResult, Sent, StopCause
from chaos.observe.view import Sample
from chaos.verdict import artefacts
from chaos.verdict.artefacts import Conformance
from chaos.verdict.judge import ChaosVerdict, judge
from chaos.verdict.timeline import ConditionSample, EventTime, first_held, longest_gap, longest_unknown, never_lost, not_held, recovered
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import EXTENSION, put_at
from tests.chaos.verdict.folder import Folder, at, ledger, record, replaced, samples
from tests.tables import each_row

Spoil = Callable[[Folder], object]
PASSED, FAILED, ERROR, UNDECIDED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE


def judged(tmp_path: Path, *spoils: Spoil, **extension: Any) -> ChaosVerdict:
    folder = Folder(tmp_path / "X1", **extension)
    for spoil in spoils:
        spoil(folder)
    return judge(folder.write())


def put(path: str, value: object) -> Spoil:
    """Set one value of the folder: ``engine.error``, ``ledger.1.detail``."""

    return lambda folder: put_at(folder, path, value)


def seen(change: Callable[[float], dict[str, Any]], end: float = 7.0) -> Spoil:
    """Samples with other values, by the time of the sample."""
    return lambda folder: setattr(folder, "samples", samples(change, end=end))


def planned(**changes: Any) -> Spoil:
    """Another plan, from which the engine started."""

    def spoil(folder: Folder) -> None:
        folder.plan = msgspec.structs.replace(folder.plan, **changes)
        folder.engine.plan_digest = folder.plan.digest

    return spoil


def within(**seconds: float) -> Spoil:
    return lambda folder: planned(seconds={**folder.plan.seconds, **seconds})(folder)


def verdict_of(found: ChaosVerdict, name: str) -> Verdict:
    return next(one.verdict for one in found.findings if one.name == name)


def message_of(found: ChaosVerdict, name: str) -> str:
    return next(one.message for one in found.findings if one.name == name)


# -- when it recovered -----------------------------------------------------------------------------------

HEALED = seen(lambda t: {"node.labels": "b" if 2.0 <= t < 3.1 else "a"})


def flapping(*lost: float) -> Spoil:
    """A node that is ready but for a sample at each of these times. The undo begins at 4 s."""
    return seen(lambda t: {"node.ready": not any(at <= t < at + 0.2 for at in lost)})


READY = {"steady": {"all": [{"signal": "node.labels", "equals": "baseline"}, {"signal": "node.ready", "is": True}]}, "expect": []}


@each_row
def test_a_recovery_is_the_last_one_and_there_is_one(tmp_path: Path, lost: list[float], verdict: Verdict) -> None:
    found = judged(tmp_path, flapping(*lost), **READY)
    assert found.verdict is verdict, found.message
    assert ("Flapping" in found.reason_codes) is (verdict is FAILED)


@pytest.mark.parametrize(("after", "verdict"), [(["b 0"], PASSED), (["b 0", "c 0"], FAILED), (["b 0", "b 1"], FAILED)])
def test_an_agent_is_replaced_once_for_one_fault(tmp_path: Path, after: list[str], verdict: Verdict) -> None:
    """However short it was away: no sample need show that it was not ready."""
    uids = seen(lambda t: {"uids.gfd": ["a 0"] if t < 2.0 else [after[min(int(t - 2.0), len(after) - 1)]]})
    signals = ["node.labels", "node.ready", "nodes.others", "uids.gfd"]
    assert judged(tmp_path, uids, signals=signals, **READY).verdict is verdict


def test_what_came_true_stays_so_until_the_undo_where_that_is_promised(tmp_path: Path) -> None:
    gone = {"name": "it is gone", "eventually": {"signal": "node.ready", "is": False}, "within": "recovery", "until": "undo"}
    away = seen(lambda t: {"node.ready": not 2.5 <= t < 4.1})
    back = seen(lambda t: {"node.ready": not (2.5 <= t < 3.0 or 3.5 <= t < 4.1)})
    assert verdict_of(judged(tmp_path, away, expect=[gone]), "expect: it is gone") is PASSED
    assert verdict_of(judged(tmp_path / "2", back, expect=[gone]), "expect: it is gone") is FAILED
    undone = seen(lambda t: {"node.ready": t < 4.6})  # the undo begins at 4 s
    assert verdict_of(judged(tmp_path / "3", undone, expect=[gone]), "expect: it is gone") is FAILED


def test_what_went_well_passes_with_four_marks_and_their_uncertainty(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert found.verdict is PASSED, found.message
    assert list(found.marks) == ["inject", "detect", "contained", "recovered"]
    inject, recovered = found.marks["inject"], found.marks["recovered"]
    assert [inject.t, inject.uncertainty, recovered.t, recovered.uncertainty] == pytest.approx([2.02, 0.02, 4.26, 0.26])
    assert found.recovery is not None
    assert found.recovery.since == "undo"
    assert [found.recovery.seconds, found.recovery.uncertainty] == pytest.approx(
        [0.26, 0.26]
    )  # the sample before the recovery began before the undo did
    assert message_of(found, "recovery") == "recovered 0.26 s (± 0.26 s) after the undo began, bound 20 s"


def test_what_came_back_before_the_undo_counts_from_the_fault(tmp_path: Path) -> None:
    found = judged(tmp_path / "a", HEALED)
    assert (found.verdict, found.recovery and found.recovery.since) == (PASSED, "fault")
    # the sample of 3.25, read by 3.26, the fault of 2.02; lost in the sample of 3.0, and the fault may be as old as 2.0
    assert message_of(found, "recovery") == "recovered 1.24 s (± 0.28 s) after the fault, bound 20 s"
    assert judged(tmp_path / "b", HEALED, within(recovery=0.9)).reason_codes == ["RecoveryTooSlow"]


def test_a_fault_that_heals_by_itself_counts_from_itself_whatever_the_undo_did(tmp_path: Path) -> None:
    found = judged(tmp_path, put("ledger", ledger(undo="pods.replaced")), undo=["pods.replaced"])
    assert found.recovery is not None
    assert found.recovery.since == "fault"
    assert found.recovery.seconds == pytest.approx(2.24)


def test_a_steady_state_that_was_never_lost_has_no_time_to_recovery(tmp_path: Path) -> None:
    found = judged(tmp_path, seen(lambda t: {"node.labels": "a"}), detect=None, contained=None)
    assert message_of(found, "recovery") == "never lost: no sample shows the steady state lost (they are up to 0.25 s apart)"
    assert (found.verdict, found.never_lost, found.recovery) == (PASSED, True, None)
    assert "recovered" not in found.marks


# -- each way alone --------------------------------------------------------------------------------------

FAILED_ACTION = {**record("label", "failed"), "exception": ["ActivityFailed: 403 Forbidden\n"]}
RAISED = {"status": "failed", "error": "Failed: inside an activity", "run": [], "rollbacks": []}
LATE = Ending(code=0, sent=[Sent(signal="SIGUSR1", at=1.0, why="30 s")], deadline_passed=True, stopped="deadline of 30 s")
MET, BROKEN = {"steady_state_met": True}, {"steady_state_met": False}
HYPOTHESIS = {"deviated": False, "steady_states": {"before": MET, "after": MET, "during": [MET, BROKEN, MET]}}

NOT_DONE: dict[str, tuple[Spoil, str]] = {
    "an action failed": (put("journal.run.0", FAILED_ACTION), "ActivityFailed"),
    "a rollback failed": (put("journal.rollbacks.0", {**FAILED_ACTION, **record("undo", "failed")}), "RollbackFailed"),
    "an action without a status": (put("journal.run.1", record("hold 1.0", None)), "ActivityFailed"),
    "no rollbacks": (put("journal.rollbacks", []), "NotDone"),
    "an action left out": (put("journal.run", [record("label")]), "NotDone"),
    "interrupted": (put("journal.status", "interrupted"), "NotCompleted"),
    "odd records": (put("journal.run", [{"activity": ["label"], "status": "succeeded"}]), "ArtefactGarbled"),
    "raised": (put("journal", RAISED), "NotCompleted"),
    "no fault": (put("ledger", []), "NoFaultLanded"),
    "never applied": (put("ledger", [line for line in ledger() if line["state"] != "applied"]), "FaultNotLanded"),
    "prepared only": (put("ledger.1.detail", {"preparation": True}), "NoFaultLanded"),
    "not verified": (lambda folder: folder.ledger.pop(), "NotRestored"),
    "a fault that was not declared": (lambda folder: folder.ledger.extend(ledger(2, "node.taints")), "UndeclaredFault"),
    "residue": (put("engine.residue", ["nodes n1: not undone"]), "Residue"),
    "killed": (put("engine.ending", Ending(code=-9)), "ChildFailed"),
    "late": (put("engine.ending", LATE), "DeadlinePassed"),
    "a closed gate": (put("engine.gates", [GateResult(name="halt", ok=False, message="halted by somebody")]), "GateFailed"),
    "no gates": (put("engine.gates", []), "GateFailed"),
    "aborted": (put("engine.abort", "label: Aborted"), "Aborted"),
    "stopped": (put("engine.interrupted", "SIGINT"), "Interrupted"),
    "the engine failed": (put("engine.error", "OSError: no space"), "EngineFailed"),
    "not finished": (put("engine.finished", None), "Unfinished"),
    "another plan": (lambda folder: setattr(folder, "plan", msgspec.structs.replace(folder.plan, untouched="n3")), "ArtefactGarbled"),
    "another run": (put("ledger.0.entry.run_id", "another"), "ArtefactGarbled"),
    "another experiment": (put("ledger.0.entry.experiment", "X2"), "ArtefactGarbled"),
    "no target": (planned(targets=()), "NoTarget"),
}


@pytest.mark.parametrize("name", NOT_DONE)
def test_what_was_not_done_or_undone_as_written_is_an_error(tmp_path: Path, name: str) -> None:
    spoil, code = NOT_DONE[name]
    found = judged(tmp_path, spoil)
    assert found.verdict is ERROR
    assert code in found.reason_codes


def test_a_fault_that_landed_by_half_and_a_control_run_with_a_fault_are_errors(tmp_path: Path) -> None:
    assert judged(tmp_path / "half", undo=["node.labels", "agent.restarted"]).reason_codes == ["FaultNotLanded"]
    assert "UndeclaredFault" in judged(tmp_path / "control", undo=[], expect=[]).reason_codes


def test_an_error_outranks_a_failure(tmp_path: Path) -> None:
    assert judged(tmp_path, put("after", replaced(FAILED)), NOT_DONE["residue"][0]).verdict is ERROR


SEEN: dict[str, tuple[list[Spoil], Verdict, list[str]]] = {
    "undone late": ([HEALED, put("ledger.4.at", at(6.9))], UNDECIDED, ["NotSettled"]),
    "ended early": ([HEALED, lambda folder: setattr(folder, "samples", folder.samples[:17])], UNDECIDED, ["NotSettled"]),
    "samples out of order": ([lambda folder: folder.samples.reverse()], ERROR, ["ArtefactGarbled"]),
    "a gap": (
        [lambda folder: setattr(folder, "samples", [s for s in folder.samples if not 2.6 < s["t"] < 3.9])],
        UNDECIDED,
        ["SamplerGap", "NoData"],
    ),
    "a sampler that died": ([put("engine.sampler_failure", "OSError: disk")], UNDECIDED, ["SamplerFailed"]),
    "no data": ([seen(lambda t: {"node.ready": None} if 2.2 < t < 5 else {})], UNDECIDED, ["NoData"]),
    "no baseline": ([seen(lambda t: {"nodes.others": None} if t < 1 else {})], UNDECIDED, ["NoData"]),
    "one sample without data": ([seen(lambda t: {"node.ready": None} if t == 2.5 else {})], PASSED, []),
    "an effect that nobody sees": ([seen(lambda t: {"node.labels": "a"})], UNDECIDED, ["EffectNotSeen"]),
    "on either side of the bound": ([within(recovery=0.1)], UNDECIDED, ["RecoveryUndecided"]),
    "back within the bound, and not known later": (  # back by 4.26, the undo began at 4, and not known at 5.5
        [seen(lambda t: {"node.labels": None} if t == 5.5 else {}), within(recovery=1.0)],
        UNDECIDED,
        ["RecoveryUndecided"],
    ),
    "conformance undecided": ([put("after", replaced(UNDECIDED))], UNDECIDED, ["ConformanceUndecided"]),
    "conformance in trouble": ([put("after", Conformance(at="x", trouble="exit code 3"))], UNDECIDED, ["ConformanceUndecided"]),
    "conformance of nothing": ([put("after", Conformance(at="x"))], UNDECIDED, ["ConformanceUndecided"]),
    "a breach that healed": ([seen(lambda t: {"node.ready": False} if t == 3.0 else {})], FAILED, ["ExpectationViolated"]),
    "not back": ([seen(lambda t: {"node.labels": "b"} if t > 2 else {})], FAILED, ["SteadyStateLost"]),
    "too slow": ([seen(lambda t: {"node.labels": "b"} if 2 < t < 30 else {}, end=40)], FAILED, ["RecoveryTooSlow"]),
    "collateral damage": ([seen(lambda t: {"nodes.others": ["n3"]} if t == 3.0 else {})], FAILED, ["CollateralDamage"]),
    "conformance lost": ([put("after", replaced(FAILED))], FAILED, ["ConformanceLost"]),
    "no conformance before": ([put("before", replaced(FAILED)), put("after", replaced(FAILED))], PASSED, []),
    "a broken baseline": ([seen(lambda t: {"node.ready": t != 0.5})], UNDECIDED, ["BaselineUnsteady"]),
    "damage beside a broken baseline": (
        [seen(lambda t: {"node.ready": t != 0.5, "nodes.others": ["n3"] if t == 3.0 else []})],
        UNDECIDED,
        ["BaselineUnsteady"],
    ),
    "a hypothesis that broke in between, and the toolkit forgot": (
        [
            put("document.steady-state-hypothesis", {"title": "t", "probes": [{"name": "p"}]}),
            lambda folder: folder.journal.update(HYPOTHESIS),
        ],
        FAILED,
        ["HypothesisBroken"],
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_run_is_judged_by_what_was_seen(tmp_path: Path, name: str) -> None:
    spoils, verdict, codes = SEEN[name]
    found = judged(tmp_path, *spoils)
    assert (found.verdict, found.reason_codes) == (verdict, codes), found.message


ARTEFACTS = ["experiment.json", "plan.json", "engine.json", "ledger.jsonl", "samples.jsonl", "journal.json", "before.json", "after.json"]


@pytest.mark.parametrize("name", ARTEFACTS)
@pytest.mark.parametrize("content", [None, b"", b"{", b'{"a": 1}', b"\xff\xfe\n", b"[]\n", b"null\n"])
def test_an_artefact_that_is_missing_or_garbled_never_passes(tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = Folder(tmp_path / "X1").write()
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    found = judge(folder)
    assert found.verdict in (ERROR, UNDECIDED), found
    if content is None:
        assert found.reason_codes == ["ArtefactMissing"]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "X1").write()
    with (folder / artefacts.SAMPLES).open("ab") as file:
        file.write(b'{"t": 7.0, "at": ')
    assert judge(folder).verdict is PASSED


# -- expectations ----------------------------------------------------------------------------------------


def expecting(signal: str, **condition: Any) -> dict[str, Any]:
    """An extension whose one expectation is about a signal."""
    signals = ["node.labels", "node.ready", "nodes.others", signal]
    return {
        "expect": [{"name": "it", **condition}],
        "signals": list(dict.fromkeys(signals)),
        "seconds": {"telling": {"live": 2, "simulated": 2}},
    }


TOLD = expecting("told", eventually={"signal": "told", "is": True}, within="telling")
STAY = expecting("pods", always={"signal": "pods", "contains": "baseline"})
OUTAGE = expecting("node.ready", never={"signal": "node.ready", "is": False})
BEATS = expecting("canaries.stalled", always={"signal": "canaries.stalled", "at_most": 1.0}, until="undo")
UNTIL = expecting("told", always={"signal": "told", "is": True}, until="undo")


def stated(value: Callable[[float], bool | None], telling: float = 2.0) -> list[Spoil]:
    return [seen(lambda t: {"told": value(t)}), within(telling=telling)]


def across_the_injection(folder: Folder) -> None:
    folder.samples[7]["took"] = 0.3  # from 1.75 on, and the fault was armed at 2


EXPECTED: dict[str, tuple[dict[str, Any], list[Spoil], Verdict, str]] = {
    "never, and it was not": (OUTAGE, [seen(lambda t: {"node.ready": True})], PASSED, ""),
    "never, and it was": (OUTAGE, [seen(lambda t: {"node.ready": t != 3.0})], FAILED, "ExpectationViolated"),
    "in time": (TOLD, stated(lambda t: t >= 2.5, 1.0), PASSED, ""),
    "too late": (TOLD, stated(lambda t: t >= 3.5, 1.0), FAILED, "ExpectationViolated"),
    "not at all": (TOLD, stated(lambda t: False, 1.0), FAILED, "ExpectationViolated"),
    "held all along: nothing was shown": (TOLD, stated(lambda t: True), UNDECIDED, "HeldBefore"),
    "lost only after the bound": (TOLD, stated(lambda t: t < 5), UNDECIDED, "HeldBefore"),
    "unknown before": (TOLD, stated(lambda t: None if t < 2 else True), UNDECIDED, "HeldBefore"),
    "lost, and came back": (TOLD, stated(lambda t: not 2.5 <= t < 3), PASSED, ""),
    "lost, and stayed away": (TOLD, stated(lambda t: t < 2.5), FAILED, "ExpectationViolated"),
    "unknown in between": (TOLD, stated(lambda t: False if t < 2.5 or t > 4.5 else None), UNDECIDED, "NoData"),
    "an empty baseline holds nothing": (STAY, [seen(lambda t: {"pods": {}})], Verdict.NOT_APPLICABLE, ""),
    "a baseline that stays": (STAY, [seen(lambda t: {"pods": {"a/p": "1 0 Running"}})], PASSED, ""),
    "a worker beats on": (BEATS, [seen(lambda t: {"canaries.stalled": 0.2})], PASSED, ""),
    "a worker beats once after the fault, and then no more": (
        BEATS,
        [seen(lambda t: {"canaries.stalled": max(t - 2.5, 0.2)})],
        FAILED,
        "ExpectationViolated",
    ),
    "a worker pauses": (BEATS, [seen(lambda t: {"canaries.stalled": t - 2.2 if 2.2 < t < 3.6 else 0.2})], FAILED, "ExpectationViolated"),
    "nobody knows whether a worker beats": (BEATS, [seen(lambda t: {"canaries.stalled": None if t > 2.4 else 0.2})], UNDECIDED, "NoData"),
    "read across the injection only": (
        UNTIL,
        [seen(lambda t: {"told": True if t < 2.0 else None}), across_the_injection, within(gap=9.0)],
        UNDECIDED,
        "NoData",
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_expectation_is_judged_by_what_was_seen(tmp_path: Path, name: str) -> None:
    extension, spoils, verdict, code = EXPECTED[name]
    found = next(one for one in judged(tmp_path, *spoils, **extension).findings if one.name == "expect: it")
    assert (found.verdict, found.reason_code) == (verdict, code), found.message


def test_a_finding_says_on_how_many_it_was_judged(tmp_path: Path) -> None:
    expect = [
        {"name": "pods stay", "always": {"signal": "pods", "contains": "baseline"}},
        {"name": "one goes", "eventually": {"signal": "ids", "equals": []}, "within": "recovery"},
        {"name": "ready", "eventually": {"signal": "node.labels", "equals": "b"}, "within": "recovery"},
    ]
    shown = seen(lambda t: {"pods": {"a/p": "1", "a/q": "2"}, "ids": [] if t > 2.5 else ["GPU-1"]})
    found = judged(tmp_path, shown, expect=expect, signals=["node.labels", "node.ready", "nodes.others", "pods", "ids"])
    assert found.verdict is PASSED, found.message
    assert message_of(found, "expect: pods stay").endswith("samples that tell, for 2 in pods")
    assert message_of(found, "expect: one goes").endswith("bound 20 s, for 1 in ids")
    assert message_of(found, "expect: ready").endswith("bound 20 s")


OWN = expecting("canaries.uids", always={"signal": "canaries.uids", "contains": "baseline"})


@pytest.mark.parametrize(("until", "verdict"), [(9.0, PASSED), (3.6, FAILED), (0.0, UNDECIDED)], ids=["stay", "lost", "never seen"])
def test_a_control_run_is_compared_with_what_it_had_set_up(tmp_path: Path, until: float, verdict: Verdict) -> None:
    shown = seen(lambda t: {"node.labels": "a", "canaries.uids": {"w": "1 0 Running"} if 1.5 < t < until else {}})
    extension = {**OWN, "expect": [{**OWN["expect"][0], "until": "undo"}]}
    found = judged(tmp_path, put("ledger.1.detail", {"preparation": True}), shown, undo=[], **extension)
    assert found.verdict is verdict, found.message


@pytest.mark.parametrize(("ready", "verdict"), [(True, PASSED), (False, FAILED)])
def test_a_control_run_needs_no_fault_and_steadiness_all_along(tmp_path: Path, ready: bool, verdict: Verdict) -> None:
    shown = seen(lambda t: {"node.labels": "a", "node.ready": ready or t != 3.0})
    assert judged(tmp_path, put("ledger", []), shown, undo=[], expect=[]).verdict is verdict


@pytest.mark.parametrize(
    ("attempted", "refused", "verdict"), [(True, True, PASSED), (True, False, FAILED), (False, True, UNDECIDED), (False, False, UNDECIDED)]
)
def test_what_had_to_be_refused_and_was_carried_out_fails(tmp_path: Path, attempted: bool, refused: bool, verdict: Verdict) -> None:
    found = judged(tmp_path, put("ledger.1.detail", {"attempted": attempted, "refused": refused, "said": "All done."}))
    assert (found.verdict, verdict_of(found, "refusal 1")) == (verdict, verdict)


# -- allocations -----------------------------------------------------------------------------------------


def holding(*pods: str) -> dict[str, Any]:
    """Pods that hold one and the same device of node n1."""
    held = {"namespace": "a", "node": "n1", "requested": {"nvidia.com/gpu": 1}, "ids": {"nvidia.com/gpu": ["GPU-1"]}}
    return {"pods": {name: {**held, "name": name} for name in pods}, "inventory": {"n1": {"nvidia.com/gpu": ["GPU-1"]}}}


def reading(t: float, phase: str, *pods: str) -> dict[str, Any]:
    return {"t": t, "phase": phase, "allocations": holding(*pods)}


@each_row
def test_allocations_are_compared_before_during_and_after(tmp_path: Path, lines: list[Any], verdict: Verdict, code: str) -> None:
    signals = ["node.labels", "node.ready", "nodes.others", "allocations"]
    found = judged(tmp_path, put("allocations", lines), seen(lambda t: {"allocations": {}}), signals=signals)
    assert (found.verdict, found.reason_codes) == (verdict, [code])


# -- which verdict counts --------------------------------------------------------------------------------


def test_a_failure_that_was_seen_outranks_what_is_not_known_elsewhere(tmp_path: Path) -> None:
    shown = seen(lambda t: {"told": None, "nodes.others": ["n3"] if t == 3.0 else []})
    found = judged(tmp_path, shown, within(telling=2.0), **TOLD)
    assert (found.verdict, found.reason_codes) == (FAILED, ["CollateralDamage"])
    assert UNDECIDED in {one.verdict for one in found.findings}


def test_a_containment_that_nobody_could_see_is_undecided(tmp_path: Path) -> None:
    shown = stated(lambda t: None if t > 2 else False)
    assert (
        verdict_of(judged(tmp_path, *shown, **{**TOLD, "expect": [], "contained": {"signal": "told", "is": True}}), "contained")
        is UNDECIDED
    )


BREACH = SEEN["a breach that healed"][0]


@pytest.mark.parametrize(
    ("spoils", "verdict", "codes"),
    [
        (BREACH, PASSED, ["ExpectedFailure"]),
        ([], FAILED, ["UnexpectedPass"]),
        ([*BREACH, put("engine.sampler_failure", "OSError: disk")], UNDECIDED, ["SamplerFailed"]),
        ([put("after", replaced(FAILED))], FAILED, ["ConformanceLost"]),
    ],
    ids=["as expected", "over", "unsure", "another failure"],
)
def test_a_known_failure_passes_and_its_end_is_noticed(tmp_path: Path, spoils: list[Spoil], verdict: Verdict, codes: list[str]) -> None:
    found = judged(tmp_path, *spoils, expected_failure="upstream #1")
    assert found.verdict is verdict
    assert set(codes) <= set(found.reason_codes)


@each_row
def test_a_fault_that_did_not_come_in_the_middle_of_work_never_passes(
    tmp_path: Path, detail: dict[str, Any], verdict: Verdict, says: str
) -> None:
    found = judged(tmp_path, put("ledger.1.detail", detail))
    assert (found.verdict, found.reason_codes) == (verdict, ["FaultNotLanded"] if says else [])
    assert says in found.message


def condition_in(text: str, step: float = 1.0) -> list[ConditionSample]:
    """``+`` holds, ``-`` does not, ``?`` unknown, one each ``step`` seconds, read in a tenth of a second."""
    known = {"+": True, "-": False, "?": None}
    return [ConditionSample(t=index * step, end=index * step + 0.1, holds=known[char]) for index, char in enumerate(text)]


def about(t: float, uncertainty: float) -> Any:
    """A mark but for the rounding of its uncertainty."""
    return EventTime(t=t, uncertainty=pytest.approx(uncertainty))  # type: ignore[arg-type]


def test_the_first_sample_that_holds_with_what_lies_before_it_as_uncertainty() -> None:
    assert first_held(condition_in("--++"), 0.5) == about(2.1, 1.1)
    assert first_held(condition_in("-?++"), 0.5) == about(2.1, 1.6)
    assert first_held(condition_in("+---"), 0.5) is None


@each_row
def test_recovery_is_the_start_of_the_last_unbroken_stretch(shown: str, stretch: float, found: Any) -> None:
    assert recovered(condition_in(shown), EventTime(t=1.5, uncertainty=0.1), stretch) == found


@pytest.mark.parametrize(
    ("shown", "lost"), [("+++++", False), ("--+++", False), ("++-++", True), ("++?++", True), ("++", True), ("", True)]
)
def test_never_lost_is_what_every_sample_since_the_fault_shows(shown: str, lost: bool) -> None:
    assert never_lost(condition_in(shown), EventTime(t=1.5, uncertainty=0.2)) is not lost


@each_row
def test_what_is_not_there_is_not_there_before_or_since(shown: str, at: float | None) -> None:
    found = not_held(condition_in(shown), 1.5, 3.5)
    assert (found.t if found else None) == at


def test_the_longest_silence_counts_up_to_the_borders() -> None:
    taken = [Sample(t=t, at="", took=0.0) for t in (0.0, 1.0, 4.0, 5.0)]
    assert longest_gap(taken, 0.0, 5.0) == 3.0
    assert longest_gap(taken, 0.0, 9.0) == 4.0
    assert longest_gap([], 0.0, 9.0) == 9.0


def test_samples_that_do_not_tell_are_silent() -> None:
    assert longest_unknown(condition_in("+???+"), 0.0, 4.1) == pytest.approx(4.0)
    assert longest_unknown(condition_in("?????"), 0.0, 4.1) == pytest.approx(4.1)


def test_a_reading_that_went_on_beyond_the_injection_may_have_seen_the_fault() -> None:
    slow = [ConditionSample(t=0.0, end=0.1, holds=True), ConditionSample(t=1.4, end=2.4, holds=False), *condition_in("+++++++")[3:]]
    assert recovered(slow, EventTime(t=1.5, uncertainty=0.0), 2.0) == about(3.1, 1.7)


def test_who_showed_the_fault_and_after_how_long_is_a_finding(tmp_path: Path) -> None:
    """What changes once everything is being undone was shown by the undo."""
    alert, late = "promql https://x ALERTS", "promql https://x LATE"
    conditions = put("engine.detect_conditions", {"if.detect.1": alert, "if.detect.2": late})
    found = judged(tmp_path, conditions, seen(lambda t: {"node.ready": True, "if.detect.1": t >= 3.0, "if.detect.2": t >= 5.0}))
    assert verdict_of(found, f"detected by {alert}") is PASSED
    assert message_of(found, f"detected by {alert}").startswith("0.99 s (± ")
    assert verdict_of(found, f"detected by {late}") is UNDECIDED
    assert not [one for one in found.findings if one.name == "detected by a condition of the node"]


def test_an_experiment_that_was_stopped_is_judged_by_what_was_hurt_and_has_to_be_undone(tmp_path: Path) -> None:
    def stop(at_seconds: float, *, unread: bool = False) -> Spoil:
        def spoil(folder: Folder) -> None:
            folder.engine.stop_conditions = {"harm.nodes": "another node left service"}
            folder.engine.stopped = StopCause(signal="harm.nodes", value="b: gone", at=folder.engine.started + at_seconds, unread=unread)
            folder.engine.abort, folder.engine.ending = "another node left service", Ending(code=1, stopped="harm")
            folder.journal = {"status": "aborted", "run": [], "rollbacks": []}

        return spoil

    unmet = [{"name": "told", "eventually": {"signal": "node.ready", "is": False}, "within": "recovery"}]
    found = judged(tmp_path / "after", stop(3.0), expect=unmet)
    assert (found.verdict, found.reason_codes) == (FAILED, ["Stopped"])
    assert "another node left service: b: gone, +1.00 s from the fault" in found.message
    assert verdict_of(found, "expect: told") is Verdict.NOT_APPLICABLE
    assert verdict_of(found, "recovery") is PASSED
    before = judged(tmp_path / "before", stop(1.0))
    assert (before.verdict, before.reason_codes) == (UNDECIDED, ["Stopped"])
    unread = judged(tmp_path / "unread", stop(3.0, unread=True))
    assert (unread.verdict, unread.reason_codes) == (UNDECIDED, ["StopUnread"])
    left = judged(tmp_path / "left", stop(3.0), lambda folder: folder.ledger.pop())
    assert (left.verdict, left.reason_codes) == (ERROR, ["NotRestored"])


@pytest.mark.parametrize(("undo", "shown"), [("node.labels", True), ("node.unschedulable", False)])
def test_a_cordon_of_the_experiments_own_was_shown_by_nobody(tmp_path: Path, undo: str, shown: bool) -> None:
    cordoned = seen(lambda t: {"node.ready": True, "node.unschedulable": t >= 2.5})
    found = judged(tmp_path, cordoned, signals=[*EXTENSION["signals"], "node.unschedulable"], undo=[undo])
    assert any(one.name == "detected by remediation" for one in found.findings) is shown
