"""Whether the experiment was done and undone as written: journal, ledger and the parent's own account. Pure.

chaostoolkit's own status is not believed: a failed action, a failed rollback and an activity that never ran all end as
``completed``. Every activity must have a record that succeeded, every fault must have landed, every undo must be verified.

Facts: docs/facts/chaostoolkit.md#status-of-a-run.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chaos.model.experiment import Experiment
from chaos.model.records import EngineRecord, Line, State, landed_faults
from chaos.verdict.artefacts import ActivityRecord, Journal
from chaos.verdict.expectations import finding
from fixtures.text import typed
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict


def _error(name: str, code: str, message: str) -> ChaosFinding:
    return finding(Verdict.ERROR, name, code, message)


def engine_errors(engine: EngineRecord) -> Iterator[ChaosFinding]:
    """What the parent says went wrong."""
    if engine.interrupted:
        yield _error("run", "Interrupted", f"the run was interrupted: {engine.interrupted}")
    if engine.error:
        yield _error("run", "EngineFailed", engine.error)
    for gate in engine.gates:
        if not gate.ok:
            yield _error(f"gate {gate.name}", "GateFailed", gate.message)
    if engine.child_started is not None and not engine.gates:
        yield _error("gates", "GateFailed", "the experiment was begun, and no gate is on record")
    if engine.abort:
        yield _error("run", "Aborted", f"the experiment was aborted: {engine.abort}")
    if engine.residue:
        yield _error("undo", "Residue", f"not restored: {'; '.join(engine.residue)}")
    if engine.finished is None:
        yield _error("run", "Unfinished", "the runner did not come to the end of this experiment")
    ending = engine.ending
    if ending is None:
        if not engine.error and all(gate.ok for gate in engine.gates):
            yield _error("child", "NotStarted", "the experiment's process was not started")
    elif ending.deadline_passed:
        sent = " and ".join(one.signal for one in ending.sent)
        yield _error("child", "DeadlinePassed", f"the experiment did not end by its deadline and was ended by {sent}")
    elif not ending.undisturbed:
        yield _error(
            "child", "ChildFailed", f"the experiment's process ended with {ending.code}" + f" ({ending.stopped})" * bool(ending.stopped)
        )


def journal_errors(journal: Journal, experiment: Experiment) -> Iterator[ChaosFinding]:
    """What the journal shows, read without chaostoolkit's status where that hides something."""
    if journal.status != "completed":
        why = f": {journal.error}" if journal.error else ""
        yield _error("journal", "NotCompleted", f"chaostoolkit ended with status {journal.status!r}{why}")
    for phase, kept, found in (("method", "run", journal.run), ("rollbacks", "rollbacks", journal.rollbacks)):
        wanted = [str(activity.get("name")) for activity in experiment.document.get(phase) or ()]
        try:
            records = typed.convert(found, list[ActivityRecord])
        except msgspec.ValidationError:
            yield _error("journal", "ArtefactGarbled", f"journal.json: {kept} is no list of records")
            continue
        names = [str((record.activity or {}).get("name")) for record in records]
        for name in wanted:
            if name not in names:
                yield _error(name, "NotDone", f"the journal has no record of {phase} activity {name!r}")
        yield from _records(records, names, phase)
    yield from _hypothesis(journal, experiment)


def _records(records: list[ActivityRecord], names: list[str], phase: str) -> Iterator[ChaosFinding]:
    code = "RollbackFailed" if phase == "rollbacks" else "ActivityFailed"
    for record, name in zip(records, names, strict=True):
        if record.status != "succeeded":
            lines = [str(line) for line in record.exception or () if str(line).strip()]
            ended = "it was interrupted: its record has no status" if record.status is None else f"status {record.status!r}"
            yield _error(name, code, lines[-1].strip() if lines else ended)


def _hypothesis(journal: Journal, experiment: Experiment) -> Iterator[ChaosFinding]:
    """chaostoolkit forgets a hypothesis that broke in between and held again at the end."""
    if not (experiment.document.get("steady-state-hypothesis") or {}).get("probes"):
        return
    states = journal.steady_states or {}
    during = states.get("during") or []
    for when, state in (("before", states.get("before")), *(("during", one) for one in during), ("after", states.get("after"))):
        if not isinstance(state, dict) or "steady_state_met" not in state:
            yield _error("hypothesis", "NotDone", f"the steady state was not probed {when} the method")
        elif state["steady_state_met"] is not True:
            yield finding(Verdict.FAILED, "hypothesis", "HypothesisBroken", f"chaostoolkit's steady state was not met {when} the method")


def refusals(lines: list[Line]) -> Iterator[ChaosFinding]:
    """Acts that had to be refused, by what their activity wrote down: one that was carried out is the cluster's failure."""
    for line in landed_faults(lines):
        refused = (line.detail or {}).get("refused")
        said = str((line.detail or {}).get("said") or "")
        if refused is not None and (line.detail or {}).get("attempted") is False:
            text = "it was not asked for, so nothing was refused: no process was on the device, which the driver would have reset"
            yield finding(Verdict.INCONCLUSIVE, f"refusal {line.seq}", "EffectNotSeen", text)
        elif refused is True:
            yield finding(Verdict.PASSED, f"refusal {line.seq}", "", f"it was asked for and refused{f': {said}' if said else ''}")
        elif refused is not None:
            said = said or "nothing stood against it"
            yield finding(Verdict.FAILED, f"refusal {line.seq}", "ExpectationViolated", f"what was asked for was not refused: {said}")


def interruptions(lines: list[Line]) -> Iterator[ChaosFinding]:
    """Acts that had to come in the middle of somebody's work, by what their activity saw before and after."""
    for line in landed_faults(lines):
        interrupted = (line.detail or {}).get("interrupted")
        if interrupted is True:
            yield finding(Verdict.PASSED, f"interruption {line.seq}", "", "the work was under way before the act and not done after it")
        elif interrupted is not None:
            words = {True: "under way", False: "not under way"}
            before, after = (words.get((line.detail or {}).get(when), "not known") for when in ("before", "after"))  # type: ignore[arg-type]
            text = f"the fault did not hit the work while it was going on: it was {before} just before, and {after} once it was through"
            yield finding(Verdict.INCONCLUSIVE, f"interruption {line.seq}", "FaultNotLanded", text)


def ledger_errors(lines: list[Line], experiment: Experiment) -> Iterator[ChaosFinding]:
    """Whether faults landed, as declared, and whether each of them was put back and read back."""
    declared = experiment.extension.undo
    entries = {line.seq: line.entry for line in lines if line.entry is not None}
    landed = {line.seq for line in landed_faults(lines)}
    prepared = {line.seq for line in lines if line.state is State.APPLIED} - landed
    if declared and not landed:
        yield _error("fault", "NoFaultLanded", "no fault landed: the ledger shows no confirmed fault")
    carried_out = {entry.undo for seq, entry in entries.items() if seq in landed | prepared}
    if landed and (missing := [name for name in declared if name not in carried_out]):
        yield _error("fault", "FaultNotLanded", f"declared and never carried out: {', '.join(missing)}")
    for seq, entry in entries.items():
        if entry.undo not in declared and seq not in prepared:
            known = ", ".join(declared) or "none: it is a control run"
            yield _error(f"fault {seq}", "UndeclaredFault", f"{entry.undo} is not among the experiment's undo names ({known})")
        if seq not in landed | prepared:
            yield _error(f"fault {seq}", "FaultNotLanded", f"{entry.undo} was armed and its fault never confirmed")
        last = [line for line in lines if line.seq == seq][-1]
        if last.state is not State.VERIFIED:
            why = (last.detail or {}).get("message") or f"its last state is {last.state}"
            yield _error(f"undo {seq}", "NotRestored", f"{entry.undo} was not verified: {why}")
