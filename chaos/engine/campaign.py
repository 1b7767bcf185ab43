"""A campaign: a run's experiments on one cluster, one at a time, under one Lease, with nothing left at the end."""

import itertools
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from chaos.cluster import namespaces
from chaos.cluster.requests import PAUSE, until_gone
from chaos.engine.processes import Access, ConformanceCheck, Stop
from chaos.engine.runner import Runner, RunnerSetup
from chaos.engine.turns import Turn
from chaos.ledger import authentic, config_maps
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.ledger.replay import entry_words
from chaos.model.experiment import Experiment
from chaos.model.plan import CANARIES, Plan
from chaos.model.records import Entry, LeaseRefused, LedgerError, digest
from chaos.observe.signals import SIGNALS
from chaos.plan.planning import make_plan
from chaos.plan.selectors import NotApplicable, PlanRefused, TargetUnclear
from chaos.safety.admission import gate_results
from chaos.safety.gates import Settings
from chaos.safety.lease import MachineLock
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.verdict.artefacts import LEDGER, VERDICT
from chaos.verdict.judge import judge, result_of, result_of_error, result_without_run
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import discover
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import Proof, ProofRefused
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import find_leftovers, read_proofs
from fixtures.ownership.read_proofs import remove as remove_leftovers
from fixtures.policy.allowlist import cluster_uid
from fixtures.policy.model import Policy
from fixtures.snapshot.collect import read_nodes
from fixtures.snapshot.simulated_nodes import describe
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import Target, TargetKind, Verdict

END_SECONDS = {TargetKind.LIVE: 300.0, TargetKind.LOCAL: 60.0, TargetKind.SIMULATED: 60.0}
"""For how long a cluster that gives no answer is asked at the end of a run."""

WITHDRAW_SECONDS = 10.0
"""For how long a run that may not begin tries to take back what it has begun with."""


class Refused(Exception):
    """Nothing may be done on this cluster; one line that says what was expected. Nothing was touched."""


class CampaignSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a campaign, and what its owner and its user want. ``ours``: this run started the cluster.

    ``mark`` is in the name of the run's namespace, so that nobody can take it before the run does.
    """

    cluster: Cluster
    access: Access
    target: Target
    policy: Policy
    settings: Settings
    run_id: str
    folder: Path
    ours: bool
    node: str = ""
    mark: str = msgspec.field(default_factory=namespaces.new_mark)


class Campaign:
    """A context manager: takes flock and Lease, carries experiments out one by one, cleans up and lets go."""

    def __init__(self, setup: CampaignSetup) -> None:
        self.stop = Stop()
        self.residue: list[str] = []
        self._setup = setup
        self._lease = LeaseKeeper(setup.cluster, setup.run_id, self.stop.request, administrators=setup.settings.policy.namespace_uid)
        self._lock = MachineLock(f"{setup.cluster.shown_server} {setup.target.cluster_uid}")  # simulated clusters are born with equal UIDs
        self._held = False
        self._proof: Proof | None = None
        self._latest: Path | None = None  # the folder of the experiment under way
        self._opened: list[Entry] | None = None  # what the last look at the cluster's copy showed to be open
        self._conforming = ConformanceCheck(setup.access, setup.policy, self.stop)

    def __enter__(self) -> "Campaign":
        """Raises :class:`Refused`."""
        setup = self._setup
        try:
            self._take_machine()
            self._proof = Proof.open(setup.cluster, setup.run_id, prefix=CHAOS_PREFIX)
            self._lease.acquire()
        except (LeaseRefused, LedgerError) as error:
            raise self._refused(str(error)) from None
        except ApiTrouble as trouble:
            raise self._refused(f"the Lease of {setup.cluster.shown_server} could not be taken: {trouble.message}", trouble) from None
        self._held = True
        return self

    def _take_machine(self) -> None:
        """Raises :class:`Refused` where the lock's file cannot be had: its folder is everybody's, so another user may have made it."""
        try:
            self._lock.take()
        except OSError as error:
            raise self._refused(f"the lock of this machine, {self._lock.path}: {error.strerror or error}") from None

    def _refused(self, why: str, trouble: ApiTrouble | None = None) -> Refused:
        """The refusal, with what may be left of the attempt."""
        begun = self._proof is not None or (trouble is not None and not isinstance(trouble, ProofRefused))
        perhaps = f"perhaps PriorityClass {CHAOS_PREFIX}-{self._setup.run_id}, and Lease and namespace {namespaces.SHARED}"
        left = until_gone(self._withdraw, WITHDRAW_SECONDS, perhaps) if begun else []
        if (stays := self._let_go()) and stays not in left:
            left.append(stays)
        return Refused(f"{why}; left behind: {'; '.join(left)}; `gpu-conformance chaos recover` removes it" if left else why)

    def _withdraw(self) -> list[str]:
        """Take the attempt back; what is left of it. Raises ApiTrouble, LedgerError."""
        setup = self._setup
        if self._proof is not None:
            return self._lease.withdraw() or self._proof_left()
        views = read_proofs(setup.cluster, setup.run_id)  # its creation may have taken place
        found = find_leftovers(setup.cluster, views, setup.run_id, keys=(PRIORITY_CLASSES,))
        return remove_leftovers(setup.cluster, found, views)

    @property
    def forged(self) -> tuple[str, ...]:
        """What looks like an earlier run's ledger without a proof: reported to people, and no obstacle."""
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
        """What is left in the cluster at the end. It is asked for until it is gone, or for a while; then it is told, with a way out."""
        setup = self._setup
        lines = until_gone(self._leave, END_SECONDS[setup.target.kind.treated_as], f"cannot tell what is left of run {setup.run_id}")
        lines += self._known_open() if self._opened is None else [f"open: {entry_words(entry)}" for entry in self._opened]
        return [*lines, self._way_out] if lines else []

    def _leave(self) -> list[str]:
        """Bring the cluster's copy of the ledgers up to date, remove what the run created, let the Lease go; what is left then.

        What counts is what the cluster shows, not what this process remembers. Raises ApiTrouble, LedgerError.
        """
        setup = self._setup
        self._opened = None
        opened = self._agree()
        left = [str(item) for item in namespaces.remove_run(setup.cluster, setup.run_id)]
        left += self._lease.release()
        self._opened = opened
        if opened:
            return left
        left += config_maps.find_run(setup.cluster, setup.run_id)
        return left or self._proof_left()

    def _agree(self) -> list[Entry]:
        """Close in the cluster's copy what is closed in the run's files; the entries that stay open. Raises ApiTrouble, LedgerError.

        What vouches for an entry goes last: an entry that is still in the copy, and nothing vouches for, would look like an attack.
        """
        setup = self._setup
        books = [Ledger.open(path) for path in self._files()]
        written = frozenset(digest(entry) for book in books for entry in book.entries())
        shut: dict[str, frozenset[int]] = {}  # of an experiment that was carried out several times, numbers go on
        for book in books:
            if book.origin is not None:
                shut[book.origin.experiment] = shut.get(book.origin.experiment, frozenset()) | book.closed
        found = authentic.read_ledgers(setup.cluster, written={setup.run_id: written})
        opened: dict[str, Entry] = {}
        for run in (run for run in found.runs if run.run_id == setup.run_id):
            for known in run.experiments:
                closed = shut.get(known.experiment, frozenset())
                if {entry.seq for entry in known.open_entries} & closed:
                    Mirror.open(setup.cluster, setup.run_id, known.experiment, seconds=PAUSE).agree(closed)
                opened |= {digest(entry): entry for entry in known.open_entries if entry.seq not in closed}
        opened |= {digest(entry): entry for book in books for entry in book.open_entries()}
        if self._proof is not None:
            self._proof.only(opened.keys())
        return list(opened.values())

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"*/{LEDGER}"))

    def _known_open(self) -> list[str]:
        """Entries that the run's files do not know to be closed, where the cluster cannot be asked."""
        lines = []
        for path in self._files():
            try:
                lines += [f"open: {entry_words(entry)}" for entry in Ledger.open(path).open_entries()]
            except LedgerError as error:
                lines.append(str(error))
        return lines

    @property
    def _way_out(self) -> str:
        return f"put back what is left with `gpu-conformance chaos recover --folder {self._setup.folder}`"

    def _let_go(self) -> str:
        """Let go of machine and proof; why the proof is still there, if it is. Safe to repeat."""
        self._lock.let_go()
        left = self._proof_left()
        self._proof = None
        return "; ".join(left)

    def _proof_left(self) -> list[str]:
        """Remove the run's proof, unless it proves something; why it is still there, if it is."""
        if self._proof is None:
            return []
        left = self._proof.leave()
        if not left:
            self._proof = None
        return left

    @property
    def most_failed_nodes(self) -> int:
        """How many nodes of a pool may end other than passed before no further one is touched."""
        return self._setup.policy.chaos.max_failed_nodes

    @property
    def folder(self) -> Path:
        """Where each experiment has a folder of its own."""
        return self._setup.folder / "chaos"

    def carry_out(self, experiment: Experiment, node: str = "") -> ChaosResult:
        """Plan, run and judge one experiment, on a node that is its turn. Raises only what interrupted it from outside, after undoing."""
        turn = Turn(experiment=experiment, node=node)
        self._latest = None  # whoever interrupts the planning finds no verdict of an earlier one
        result = self._carry_out(turn)
        result.id = turn.id
        return result

    def _carry_out(self, turn: Turn) -> ChaosResult:
        experiment, kind = turn.experiment, self._setup.target.kind
        if self.stop.reason:
            return result_of_error(experiment, kind, Verdict.ERROR, "Interrupted", f"not begun: {self.stop.reason}")
        if self.residue:
            return result_of_error(
                experiment, kind, Verdict.ERROR, "Residue", "not begun, because an earlier experiment could not be undone"
            )
        try:
            plan = plan_now(self._setup, experiment, turn.node)
        except NotApplicable as error:
            return result_without_run(experiment, kind, Verdict.NOT_APPLICABLE, [error.code], error.message)
        except PlanRefused as error:
            unclear = isinstance(error, TargetUnclear) or bool(turn.node)  # of a pool, some nodes may be out of service
            return result_of_error(experiment, kind, Verdict.INCONCLUSIVE if unclear else Verdict.ERROR, error.code, error.message)
        except ApiTrouble as trouble:
            return result_of_error(experiment, kind, Verdict.ERROR, trouble.code, trouble.message)
        runner = Runner(experiment, plan, self._new_folder(turn), self._runner_setup(), turn.id)
        with self._interruptible():
            try:
                verdict = runner.run()
            finally:
                self.residue += runner.residue
        if runner.stopped:
            self.stop.request(f"{turn.id} was stopped: {runner.stopped}")
        return result_of(runner.folder, verdict, experiment, kind)

    def _new_folder(self, turn: Turn) -> Path:
        """Where its artefacts go: ``A1``, and ``A1.2`` for the second time in a run."""
        names = itertools.chain([turn.id], (f"{turn.id}.{number}" for number in itertools.count(2)))
        self._latest = next(path for name in names if not (path := self.folder / name).exists())
        return self._latest

    def cut_short(self, experiment: Experiment, error: BaseException, node: str = "") -> ChaosResult:
        """The entry of an experiment that :meth:`carry_out` was interrupted in, from what it left."""
        kind, folder, turn = self._setup.target.kind, self._latest, Turn(experiment=experiment, node=node)
        if folder is None or not (folder / VERDICT).is_file():
            result = result_of_error(experiment, kind, Verdict.ERROR, "EngineFailed", f"{type(error).__name__}: {error}")
        else:
            result = result_of(folder, judge(folder), experiment, kind)
        result.id = turn.id
        return result

    def _runner_setup(self) -> RunnerSetup:
        setup = self._setup
        if self._proof is None:
            raise RuntimeError("a campaign carries experiments out between its begin and its end")
        return RunnerSetup(
            cluster=setup.cluster,
            access=setup.access,
            signals=SIGNALS,
            conforming=self._conforming,
            stop=self.stop,
            proof=self._proof,
            policy=setup.policy,
            target_kind=setup.target.kind,
            gates=lambda experiment, plan, unsteady: gate_results(
                setup.cluster, setup.policy, setup.settings, experiment, plan, ours=setup.ours, steady=unsteady
            ),
            stop_if=setup.settings.stop_if,
            steady_if=setup.settings.steady_if,
            detect_if=setup.settings.detect_if,
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


def plan_now(setup: CampaignSetup, experiment: Experiment, node: str = "") -> Plan:
    """The plan of an experiment now, on ``node`` if its turn names one; reads only. Each has a namespace of its own for its workload.

    Raises NotApplicable, PlanRefused, ApiTrouble.
    """
    return make_plan(
        setup.cluster,
        experiment,
        run_id=setup.run_id,
        cluster_uid=setup.target.cluster_uid,
        target_kind=setup.target.kind.treated_as,
        namespace=namespaces.of_run(setup.run_id, setup.mark),
        workload=namespaces.of_run(setup.run_id, namespaces.new_mark()) + CANARIES,
        policy=setup.policy,
        node=node or setup.node,
    )


def learn_cluster(cluster: Cluster, target: Target) -> Access:
    """Fill in which cluster it is and what its nodes are, and learn its versions. Returns what a child needs beside the kubeconfig.

    Raises ApiTrouble.
    """
    served = discover(cluster)
    versions = {key: next((one for one in KINDS[key].versions if one in served[key]), served[key][0]) for key in KINDS if served.get(key)}
    cluster.learn_versions(versions)
    target.cluster_uid = cluster_uid(cluster)
    describe(target, read_nodes(cluster))
    return Access(versions=versions)
