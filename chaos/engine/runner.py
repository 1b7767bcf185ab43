"""Runs one planned experiment from its folder to its verdict. What was begun is ended and undone on every way out."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from chaos.engine import processes
from chaos.engine.guard import HARM, Guard
from chaos.engine.processes import ROOT, Access, ConformanceCheck, Handover, Stop, end_process, supervise
from chaos.engine.turns import expectations
from chaos.ledger.bounds import Terms
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.ledger.replay import replay
from chaos.model.conditions import JsonValue, holds, parse_condition
from chaos.model.experiment import START, Experiment, stretched, with_companions, with_steady
from chaos.model.plan import Plan, PlanFacts, canary_namespace
from chaos.model.records import DETECT, STEADY, STOP, Ending, EngineRecord, GateResult, LedgerError, Line, landed_faults
from chaos.observe.sampler import MEMORY, NodeHistory, Sampler, steady_since
from chaos.observe.signals import metrics
from chaos.observe.signals.nodes import LEAVING
from chaos.observe.user_conditions import (
    PERIOD,
    PERIOD_SIMULATED,
    SECONDS,
    Asking,
    UserCondition,
    signals_of_conditions,
)
from chaos.observe.view import Reading, Sample, Signal, View
from chaos.plan.planning import EXPIRY_MARGIN
from chaos.safety.lease import AbortFlag
from chaos.verdict import artefacts
from chaos.verdict.allocation_snapshots import SIGNAL, LedgerTimes, allocation_snapshots
from chaos.verdict.expectations import shown_value
from chaos.verdict.judge import ChaosVerdict, judge
from chaos.verdict.timeline import baseline_of, held_faults, undo_began
from fixtures.cluster.client import Cluster
from fixtures.model.standing import Standing, differences, read_standing
from fixtures.ownership.proof import Proof
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind

BASELINE_SAMPLES = 3
"""Steady samples in a row that must be seen before anything is touched."""

BASELINE_SECONDS = 20.0
UNDO_SECONDS = {TargetKind.LIVE: 300.0, TargetKind.LOCAL: 60.0, TargetKind.SIMULATED: 60.0}


class RunnerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What experiments of a run share."""

    cluster: Cluster
    access: Access
    signals: Mapping[str, Signal]
    conforming: ConformanceCheck
    stop: Stop
    proof: Proof
    policy: Policy
    target_kind: TargetKind
    """What is measured. The plan's kind, which rules over safety and bounds, is the one that it is treated as."""

    gates: Callable[[Experiment, Plan, str], list[GateResult]]
    """Judges the gates; its last argument is what is wrong with the steady state, empty when nothing is."""

    stop_if: tuple[UserCondition, ...] = ()
    steady_if: tuple[UserCondition, ...] = ()
    detect_if: tuple[UserCondition, ...] = ()


class Runner:
    """One experiment. ``residue`` holds what could not be restored."""

    def __init__(self, experiment: Experiment, plan: Plan, folder: Path, setup: RunnerSetup, turn: str = "") -> None:
        steady_if = {f"{STEADY}{number}": str(one) for number, one in enumerate(setup.steady_if, 1)}
        stop_if = {f"{STOP}{number}": str(one) for number, one in enumerate(setup.stop_if, 1)}
        detect_if = {f"{DETECT}{number}": str(one) for number, one in enumerate(setup.detect_if, 1)}
        expected = expectations(experiment, setup.policy, setup.stop_if, setup.steady_if, setup.detect_if)
        experiment = with_steady(experiment, list(steady_if))
        self.experiment = experiment
        self.plan = plan
        self.folder = folder
        self.residue: list[str] = []
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._record = EngineRecord(
            experiment=experiment.id,
            run_id=plan.run_id,
            plan_digest=plan.digest,
            target_kind=setup.target_kind,
            fidelity=experiment.extension.fidelity_on(setup.target_kind),
            level=experiment.extension.level,
            started=time.time(),
            stop_conditions={**HARM, **stop_if},
            steady_conditions=steady_if,
            detect_conditions=detect_if,
            expectations=sorted(expected),
            turn=turn or experiment.id,
        )
        self._steady = parse_condition(experiment.extension.steady)
        self._baseline: dict[str, JsonValue] = {}
        self._samples: list[Sample] = []
        self._leaving: set[str] = set()  # nodes that an autoscaler takes away meanwhile

    def run(self) -> ChaosVerdict:
        """Carry it out and judge it. Raises what interrupted it, after everything was put back and judged."""
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o700)
        stored = artefacts.Stored(path=Path(self.experiment.path).name, document=self.experiment.document)
        artefacts.write(self.folder / artefacts.EXPERIMENT, stored)
        artefacts.write(self.folder / artefacts.PLAN, self.plan)
        try:
            self._keep_conformance(artefacts.BEFORE)
            if not self._setup.stop.reason:
                with self._sampler() as sampler:
                    if self._may_begin(sampler):
                        self._watched_act(sampler, self._read_standing())
                if self._begun and not self._setup.stop.reason:
                    self._keep_conformance(artefacts.AFTER)
        except BaseException as error:
            self._record.error = f"{type(error).__name__}: {error}"[:1000]
            raise
        finally:
            verdict = self._conclude()
        return verdict

    @property
    def stopped(self) -> str:
        """Which condition ended the experiment in its middle; empty when none did."""
        cause = self._record.stopped
        return f"{self._record.stop_conditions[cause.signal]}: {cause.value}" if cause is not None else ""

    def _conclude(self) -> ChaosVerdict:
        self._record.finished = time.time()
        self._record.interrupted = self._setup.stop.reason
        self._keep_allocations()
        artefacts.write(self.folder / artefacts.ENGINE, self._record)
        verdict = judge(self.folder)
        artefacts.write(self.folder / artefacts.VERDICT, verdict)
        return verdict

    def _watched_act(self, sampler: Sampler, standing: Standing) -> None:
        since = self._now
        try:
            self._act(sampler)
        finally:
            self._undo()
        latest = self._settle(sampler)
        if not self._setup.stop.reason:
            self._compare(sampler, standing, since, latest)
        self._record.sampler_failure = sampler.failure

    @property
    def _terms(self) -> Terms:
        return Terms.of([self.experiment], self._setup.policy).of_plan(self.plan)

    @property
    def _begun(self) -> bool:
        return self._record.child_started is not None

    # -- before ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _sampler(self) -> Iterator[Sampler]:
        memory: dict[str, Any] = {LEAVING: self._leaving}
        cluster = self._setup.access.open()  # a session of its own: a slow answer to one does not hold up the other
        named = with_companions([*self.experiment.extension.signals, *HARM])
        signals = {name: self._setup.signals[name] for name in named if name in self._setup.signals}
        asked = [*self._setup.stop_if, *self._setup.steady_if, *self._setup.detect_if]
        asking = Asking(asked, PERIOD if self.plan.target_kind is TargetKind.LIVE else PERIOD_SIMULATED)
        record = self._record
        stop_if = {name: words for name, words in record.stop_conditions.items() if name.startswith(STOP)}
        signals |= signals_of_conditions(asking, stop_if, {**record.steady_conditions, **record.detect_conditions})
        sampler = Sampler(
            lambda: Reading(cluster, self.plan, memory), signals, self.folder / artefacts.SAMPLES, self.plan.seconds["sample"]
        )
        self._samples = sampler.samples
        with asking, NodeHistory(cluster) as memory[MEMORY], sampler:
            self._record.sampler_began = sampler.wall
            yield sampler

    def _may_begin(self, sampler: Sampler) -> bool:
        """Steady state, then every gate: whether anything may be touched. What one gate refuses does not hide what others do."""
        unsteady = self._wait_steady(sampler)
        self._record.gates = self._setup.gates(self.experiment, self.plan, unsteady)
        against = self._harm_before(sampler) if not self._setup.stop.reason else ""
        self._record.gates.append(GateResult(name="stop conditions", ok=not against, message=against))
        return all(gate.ok for gate in self._record.gates) and not unsteady and not self._setup.stop.reason

    def _wait_steady(self, sampler: Sampler) -> str:
        """Wait for the steady state in fresh samples in a row, against the first of them: the baseline. What is wrong, or nothing."""
        start = sampler.now

        def steady(samples: list[Sample]) -> bool:
            fresh = [sample for sample in samples if sample.t >= start]
            for index in range(len(fresh) - BASELINE_SAMPLES + 1):
                row = fresh[index : index + BASELINE_SAMPLES]
                if all(holds(self._steady, sample.values, row[0].values) for sample in row) and not row[0].errors:
                    self._baseline, self._record.baseline_t = row[0].values, row[0].t
                    return True
            return self._setup.stop.reason != ""

        most = max(BASELINE_SECONDS, self.plan.seconds["settle"])
        with self._setup.cluster.waits.of("a steady state before the fault", time.monotonic() + most):
            sampler.wait(steady, start + most)
        if self._record.baseline_t is not None or self._setup.stop.reason:
            return ""
        last = next(iter(sampler.samples[-1:]), None)
        given = {**self._record.stop_conditions, **self._record.steady_conditions, **self._record.detect_conditions}
        errors = "; ".join(f"{given.get(name, name)}: {text}" for name, text in last.errors.items()) if last else sampler.failure
        unmet = [words for name, words in self._record.steady_conditions.items() if last and last.values.get(name) is False]
        errors = errors or "; ".join(f"--steady-if {words} does not hold" for words in unmet)
        values = msgspec.json.encode(last.values).decode()[:400] if last else "no sample"
        return errors or f"it did not hold in {BASELINE_SAMPLES} samples in a row: {values}"

    def _harm_before(self, sampler: Sampler) -> str:
        """What would stop the experiment at once, or could not: a condition that holds, or that nobody can read."""
        conditions = self._record.stop_conditions
        known = self._record.stop_conditions.keys()
        sampler.wait(lambda samples: bool(samples) and known <= samples[-1].values.keys(), sampler.now + 2 * SECONDS)
        last = next(iter(sampler.samples[-1:]), None)
        for name, words in conditions.items():
            if last is None or name not in last.values:
                why = last.errors.get(name, "") if last else sampler.failure or "no sample"
                return f"whether it has to stop is not known: {words}: {why}"
            if value := last.values[name]:
                return f"it would have to stop at once: {words}: {shown_value(value)}"
        return ""

    def _keep_conformance(self, name: str) -> None:
        own = (self.plan.namespace, canary_namespace(self.plan))
        artefacts.write(self.folder / name, self._setup.conforming.judge(self.experiment.extension.area, own))

    # -- the act ---------------------------------------------------------------------------------------

    def _act(self, sampler: Sampler) -> None:
        seconds = self.plan.seconds
        expires = datetime.now(UTC) + timedelta(seconds=seconds["deadline"] + seconds["grace"] + EXPIRY_MARGIN)
        self.plan = msgspec.structs.replace(self.plan, expires_at=expires.isoformat(timespec="seconds"))
        self._record.plan_digest = self.plan.digest
        artefacts.write(self.folder / artefacts.PLAN, self.plan)
        processes.write_handover(self.folder, Handover(access=self._setup.access, parent=os.getpid(), terms=self._terms))
        self._setup.conforming.forget()
        with (self.folder / "child.log").open("wb") as log:
            self._record.child_started = time.time()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.engine.child", str(self.folder)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        unread = self._setup.policy.chaos.stop_unread_seconds
        guard = Guard(sampler, self._record.stop_conditions, unread, AbortFlag(self.folder))
        until = time.monotonic() + seconds["deadline"] + seconds["grace"]
        with self._setup.cluster.waits.of("its faults, and what undoes them", until), guard:
            stops = (self._setup.stop, guard.stop)
            self._record.ending = supervise(self._process, *stops, seconds=seconds["deadline"], grace=seconds["grace"])
        self._record.stopped = guard.cause

    # -- after -----------------------------------------------------------------------------------------

    def _undo(self) -> None:
        """End the child if it is still there, then put back what it has not. Whatever happens here ends up in the record."""
        if self._process is None:
            processes.withdraw_handover(self.folder)
            return
        if self._record.ending is None:
            self._record.ending = Ending()
            end_process(self._process, self._record.ending)
        processes.withdraw_handover(self.folder)
        self._record.child_ended = time.time()
        self._record.abort = AbortFlag(self.folder).reason
        path = self.folder / artefacts.LEDGER
        if not path.exists():
            return
        try:
            proof = self._setup.proof
            ledger = Ledger.open(path, vouching=proof)
            if ledger.open_entries():
                self._record.replayed = True
                with contextlib.suppress(LedgerError):  # the file is enough to undo from, when the cluster will not hold a copy
                    mirror = Mirror.open(self._setup.cluster, self.plan.run_id, self.plan.experiment, seconds=10)
                    ledger = Ledger.open(path, mirror, proof)
                deadline = time.monotonic() + UNDO_SECONDS[self.plan.target_kind]
                self.residue = [str(left) for left in replay(ledger, self._setup.cluster, deadline, terms=self._terms)]
        except Exception as error:
            self.residue = [f"experiment {self.experiment.id}: the ledger {path} could not be replayed: {type(error).__name__}: {error}"]
        self._record.residue = self.residue

    def _settle(self, sampler: Sampler) -> float:
        """Watch until the steady state held long enough and every expectation was met or is overdue; not when interrupted.

        The latest moment, in the sampler's seconds, by which everything has to be as before.
        """
        inject, origin = self._moments(sampler)
        seconds = stretched(self.plan.seconds, self.experiment.extension.starting, self._baseline.get(START))
        windows = [seconds[one.within] for one in self.experiment.extension.expect if one.within]
        undone = sampler.now  # what came of the last undo must be seen too
        latest = max(origin + seconds["recovery"], inject + max(windows, default=0.0), undone) + seconds["settle"] + 4 * sampler.pace

        def settled(samples: list[Sample]) -> bool:
            if self._setup.stop.reason:
                return True
            since = steady_since(samples, self._steady, self._baseline)
            if since is None or samples[-1].t < undone or samples[-1].t - max(since, origin) < seconds["settle"]:
                return False
            met = all(self._met(one.eventually, samples, inject) for one in self.experiment.extension.expect if one.eventually)
            return met or self._record.stopped is not None or samples[-1].t > inject + max(windows, default=0.0)

        with self._setup.cluster.waits.of("the cluster to recover", time.monotonic() + max(latest - sampler.now, 0)):
            sampler.wait(settled, latest)
        return latest

    @property
    def _now(self) -> float:
        """Unix seconds by the cluster's clock, by this machine's where no answer told it."""
        return self._setup.cluster.server_clock.now() or time.time()

    def _read_standing(self) -> Standing:
        spaces = {one.namespace for found in PlanFacts.of(self.plan).components.values() for one in found.workloads}
        view = View.of(self._setup.cluster)
        found = read_standing(view, spaces)
        found.objects |= metrics.pages(view, self.plan)
        return found

    def _compare(self, sampler: Sampler, before: Standing, since: float, latest: float) -> None:
        """Keep what is not as before. What comes back by itself has as long as the recovery may take."""
        while True:
            after = self._read_standing()
            left = tuple(end for name in self._leaving for end in (f"nodes {name}", f" on {name}"))  # another one may have its name by now
            changed = differences(before, after, since, self.plan.nodes, self._replaced)
            found = [one for one in changed if not one.subject.endswith(left)]
            if all(one.by for one in found) or not sampler.wait(_longer_than(len(sampler.samples) + 1), latest):
                break
        unread = {key: why for key, why in after.unread.items() if key not in before.unread}
        kept = artefacts.StandingRecord(objects=len(before.objects), unread=unread, differences=tuple(found))
        artefacts.write(self.folder / artefacts.STANDING, kept)

    @property
    def _replaced(self) -> set[str] | None:
        """DaemonSets whose pods on the targets may be others in the end: those that a fault of pods is about, else all of the node."""
        if any(target.kind == "nodes" for target in self.plan.targets):
            return None
        needed = [found for name, found in PlanFacts.of(self.plan).components.items() if name in self.experiment.extension.needs]
        return {f"{one.namespace}/{one.name}" for found in needed for one in found.workloads}

    def _met(self, document: Mapping[str, Any], samples: list[Sample], inject: float) -> bool:
        condition = parse_condition(document)
        return any(holds(condition, sample.values, self._baseline) for sample in samples if sample.t >= inject)

    def _moments(self, sampler: Sampler) -> tuple[float, float]:
        """The injection, and from when the recovery counts, in the sampler's seconds. Takes the baseline that the verdict takes."""
        start = (self._record.child_started or 0.0) - sampler.wall
        with contextlib.suppress(artefacts.ArtefactError):
            lines = artefacts.Artefacts(self.folder).ledger()
            baseline = baseline_of(list(sampler.samples), self._record, lines)
            if baseline is not None:
                self._baseline = baseline.values
            inject = min((sampler.at(line.at) for line in landed_faults(lines)), default=start)
            undoing = undo_began(lines, self._record)
            return inject, undoing if held_faults(lines) and undoing is not None else inject
        return start, start

    def _keep_allocations(self) -> None:
        """The allocations as they changed: before the fault, during, and after its undo."""
        if SIGNAL not in self.experiment.extension.signals:
            return
        lines: list[Line] = []
        with contextlib.suppress(artefacts.ArtefactError):  # without a ledger nothing is known to be before or after
            lines = artefacts.Artefacts(self.folder).ledger()
        found = allocation_snapshots(self._samples, LedgerTimes.of(lines, self._record.sampler_began or 0.0), self.plan.seconds["gap"])
        (self.folder / artefacts.ALLOCATIONS).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in found))


def _longer_than(count: int) -> Callable[[list[Sample]], bool]:
    """Whether there are more samples than that."""
    return lambda samples: len(samples) > count
