"""A run of experiments on one cluster: who may act, one at a time, and nothing of it left at the end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from chaos import namespaces
from chaos.artefacts import LEDGER, VERDICT
from chaos.engine.admission import admitted
from chaos.engine.conforming import Conforming, with_platform
from chaos.engine.handover import Access
from chaos.engine.ladder import Stop
from chaos.engine.machine_lock import MachineLock
from chaos.engine.runner import Runner, Setting
from chaos.experiment import Experiment
from chaos.holding import ChaosLease
from chaos.ledger import authentic
from chaos.ledger.file import Ledger
from chaos.ledger.mirror import Mirror
from chaos.ledger.record import Entry, State, digest
from chaos.planning import NotApplicable, PlanRefused, make_plan
from chaos.residue import residue_of
from chaos.results import bare, of_error, result_of
from chaos.selectors import TargetUnclear
from chaos.settings import Settings
from chaos.target import Plan
from chaos.trouble import LeaseRefused, LedgerError
from chaos.verdict import judge
from conformance.allowlist import cluster_uid
from conformance.policy import Policy
from fixtures.chaos_record import ChaosResult
from fixtures.cluster import Cluster
from fixtures.discovery import discover
from fixtures.kinds import KINDS
from fixtures.proof import CHAOS_PREFIX, Proof
from fixtures.record import Target, TargetKind, Verdict
from fixtures.trouble import ApiTrouble

END_SECONDS = {TargetKind.LIVE: 300.0, TargetKind.LOCAL: 60.0, TargetKind.SIMULATED: 60.0}
"""For how long a cluster that gives no answer is asked at the end of a run."""

END_PAUSE = 2.0
WITHDRAW_SECONDS = 10.0
"""For how long a run that may not begin tries to take back what it has begun with."""


class Refused(Exception):
    """Nothing may be done on this cluster; one line that says what was expected. Nothing was touched."""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a campaign, and what its owner and its user want. ``ours``: this run started the cluster."""

    cluster: Cluster
    access: Access
    target: Target
    policy: Policy
    settings: Settings
    run_id: str
    folder: Path
    ours: bool
    node: str = ""


class Campaign:
    """A context manager: takes flock and Lease, carries experiments out one by one, cleans up and lets go."""

    def __init__(self, where: Where) -> None:
        self.stop = Stop()
        self.residue: list[str] = []
        self._where = where
        self._lease = ChaosLease(where.cluster, where.run_id, self.stop.request, administrators=where.settings.policy.namespace_uid)
        self._lock = MachineLock(f"{where.cluster.shown_server} {where.target.cluster_uid}")  # simulated clusters are born with equal UIDs
        self._held = False
        self._proof: Proof | None = None
        own = namespaces.of_run(where.run_id)
        self._conforming = Conforming(where.access, with_platform(where.policy, own, f"{own}-canaries"), self.stop)

    def __enter__(self) -> Campaign:
        """Raises :class:`Refused`."""
        where = self._where
        try:
            self._lock.take()
            self._proof = Proof.open(where.cluster, where.run_id, prefix=CHAOS_PREFIX)
            self._lease.acquire()
        except (LeaseRefused, LedgerError) as error:
            raise self._refused(str(error)) from None
        except ApiTrouble as trouble:
            raise self._refused(f"the Lease of {where.cluster.shown_server} could not be taken: {trouble.message}", trouble) from None
        self._held = True
        return self

    def _refused(self, why: str, trouble: ApiTrouble | None = None) -> Refused:
        """The refusal, with what may be left of the attempt."""
        left = []
        if self._proof is None and trouble is not None:
            left.append(f"perhaps PriorityClass {CHAOS_PREFIX}-{self._where.run_id}")
        elif self._proof is not None and (told := self._withdrawn()):
            left.append(told)
        left += filter(None, [self._let_go()])
        return Refused(f"{why}; left behind: {'; '.join(left)}; `gpu-conformance cleanup` shows and removes it" if left else why)

    def _withdrawn(self) -> str:
        """Take the attempt back; what may be left of it, or nothing."""
        deadline = time.monotonic() + WITHDRAW_SECONDS
        while True:
            try:
                self._lease.withdraw()
                return ""
            except (ApiTrouble, LedgerError) as error:
                if time.monotonic() + END_PAUSE > deadline:
                    return f"perhaps Lease and namespace {namespaces.SHARED} ({error})"
            threading.Event().wait(END_PAUSE)

    @property
    def forged(self) -> tuple[str, ...]:
        """What looks like an earlier run's ledger, and nothing vouches for: for people, and no obstacle."""
        return self._lease.forged

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what the run created and let go of the cluster. What stays is residue. Safe to repeat."""
        if self._held:
            self._held = False
            self.residue += [line for line in self._leave_in_time() if line not in self.residue]
        if (left := self._let_go()) and left not in self.residue:
            self.residue.append(left)

    def _leave_in_time(self) -> list[str]:
        """What is left in the cluster at the end. One that gives no answer is asked again for a while, and then nobody can tell."""
        deadline, trouble = time.monotonic() + END_SECONDS[self._where.target.kind], ""
        while True:
            try:
                return self._leave()
            except (ApiTrouble, LedgerError) as error:
                trouble = error.message if isinstance(error, ApiTrouble) else str(error)
            if time.monotonic() + END_PAUSE > deadline:
                break
            threading.Event().wait(END_PAUSE)
        return [f"cannot tell what is left of run {self._where.run_id}: {trouble}", *self._known_open(), self._way_out]

    def _leave(self) -> list[str]:
        """Bring the cluster's copy of the ledgers up to date, remove what the run created, let the Lease go; what is left then.

        What counts is what the cluster shows, not what this process remembers. Raises ApiTrouble, LedgerError.
        """
        where = self._where
        opened = self._agree()
        left = [str(item) for item in namespaces.remove_run(where.cluster, where.run_id)]
        self._lease.release()
        return left + ([f"open: {residue_of(entry)}" for entry in opened] + [self._way_out] if opened else [])

    def _agree(self) -> list[Entry]:
        """Close in the cluster's copy what is closed in the run's files; the entries that stay open."""
        where, opened = self._where, []
        run = next((run for run in authentic.look(where.cluster).runs if run.run_id == where.run_id), None)
        for known in run.experiments if run is not None else ():
            path = self.folder / known.experiment / LEDGER
            closed = {seq for seq, state in Ledger.open(path).states.items() if state is State.VERIFIED} if path.is_file() else set()
            if {entry.seq for entry in known.open_entries} & closed:
                Mirror.open(where.cluster, where.run_id, known.experiment, seconds=END_PAUSE).agree(closed)
            opened += [entry for entry in known.open_entries if entry.seq not in closed]
        if self._proof is not None:
            files = [entry for path in self._files() for entry in Ledger.open(path).open_entries()]
            self._proof.only({digest(entry) for entry in (*opened, *files)})
        return opened

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"*/{LEDGER}"))

    def _known_open(self) -> list[str]:
        """Entries that the run's files do not know to be closed, where the cluster cannot be asked."""
        lines = []
        for path in self._files():
            try:
                lines += [f"open: {residue_of(entry)}" for entry in Ledger.open(path).open_entries()]
            except LedgerError as error:
                lines.append(str(error))
        return lines

    @property
    def _way_out(self) -> str:
        return f"put back what is left with `gpu-conformance chaos recover --folder {self._where.folder}`"

    def _let_go(self) -> str:
        """Let go of machine and proof; why the proof is still there, if it is. Safe to repeat."""
        self._lock.let_go()
        proof, self._proof = self._proof, None
        return proof.close() if proof is not None else ""

    @property
    def folder(self) -> Path:
        """Where each experiment has a folder of its own."""
        return self._where.folder / "chaos"

    def plan(self, experiment: Experiment) -> Plan:
        """The plan of an experiment now. Raises NotApplicable, PlanRefused, ApiTrouble."""
        return plan_of(self._where, experiment)

    def carry_out(self, experiment: Experiment) -> ChaosResult:
        """Plan, run and judge one experiment. Raises only what interrupted it from outside, after undoing."""
        kind = self._where.target.kind
        if self.stop.reason:
            return of_error(experiment, kind, Verdict.ERROR, "Interrupted", f"not begun: {self.stop.reason}")
        if self.residue:
            return of_error(experiment, kind, Verdict.ERROR, "Residue", "not begun, because an earlier experiment could not be undone")
        try:
            plan = self.plan(experiment)
        except NotApplicable as error:
            return bare(experiment, kind, Verdict.NOT_APPLICABLE, [error.code], error.message)
        except PlanRefused as error:
            unclear = isinstance(error, TargetUnclear)
            return of_error(experiment, kind, Verdict.INCONCLUSIVE if unclear else Verdict.ERROR, error.code, error.message)
        except ApiTrouble as trouble:
            return of_error(experiment, kind, Verdict.ERROR, trouble.code, trouble.message)
        runner = Runner(experiment, plan, self.folder / experiment.id, self._setting())
        with self._interruptible():
            try:
                verdict = runner.run()
            finally:
                self.residue += runner.residue
        return result_of(runner.folder, verdict, experiment, kind)

    def cut_short(self, experiment: Experiment, error: BaseException) -> ChaosResult:
        """The entry of an experiment that :meth:`carry_out` was interrupted in, from what it left."""
        kind, folder = self._where.target.kind, self.folder / experiment.id
        if not (folder / VERDICT).is_file():
            return of_error(experiment, kind, Verdict.ERROR, "EngineFailed", f"{type(error).__name__}: {error}")
        return result_of(folder, judge(folder), experiment, kind)

    def _setting(self) -> Setting:
        from chaos.sampling.signals.registry import SIGNALS

        where = self._where
        if self._proof is None:
            raise RuntimeError("a campaign carries experiments out between its begin and its end")
        return Setting(
            cluster=where.cluster,
            access=where.access,
            signals=SIGNALS,
            conforming=self._conforming,
            stop=self.stop,
            proof=self._proof,
            policy=where.policy,
            gates=lambda experiment, plan, unsteady: admitted(
                where.cluster, where.policy, where.settings, experiment, plan, ours=where.ours, steady=unsteady
            ),
        )

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the experiment by the ladder, and nothing else is started; never in the middle of undoing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def asked(number: int, _frame: FrameType | None) -> None:
            self.stop.request(signal.Signals(number).name, interrupted=True)

        before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def plan_of(where: Where, experiment: Experiment) -> Plan:
    """The plan of an experiment now; reads only. Raises NotApplicable, PlanRefused, ApiTrouble."""
    return make_plan(
        where.cluster,
        experiment,
        run_id=where.run_id,
        cluster_uid=where.target.cluster_uid,
        target_kind=where.target.kind,
        namespace=namespaces.of_run(where.run_id),
        policy=where.policy,
        node=where.node,
    )


def identify(cluster: Cluster, target: Target) -> Access:
    """Fill in the cluster's UID and learn its versions; what a child needs beside the kubeconfig. Raises ApiTrouble."""
    served = discover(cluster)
    versions = {key: _choose(KINDS[key].versions, served[key]) for key in KINDS if served.get(key)}
    cluster.learn_versions(versions)
    target.cluster_uid = cluster_uid(cluster)
    return Access(versions=versions)


def _choose(ours: tuple[str, ...], served: tuple[str, ...]) -> str:
    return next((version for version in ours if version in served), served[0])
