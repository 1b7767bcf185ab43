"""The context in which every fault is made: its undo is written first, it is still allowed, and it is confirmed afterwards.

An experiment's child process opens one :class:`ActivityContext`; its activities find it with :func:`current`, and are wrapped, so that
an exception never skips the rollbacks and no activity follows a failed one. chaostoolkit lets any ``BaseException`` out of the run
without rolling back, runs the remaining actions after a failed one, and takes an exit code of 30 for "no rollbacks". Here the first
failure sets the abort flag; later activities of the method refuse.

Facts: docs/facts/chaostoolkit.md#signals-and-rollbacks.
"""

import importlib
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec
from chaoslib.exceptions import ActivityFailed

from chaos.cluster.requests import Reviewer
from chaos.ledger.bounds import REGISTRY, Terms
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Residue, replay
from chaos.ledger.undos import Undo
from chaos.ledger.undos.host import HostAction
from chaos.model.plan import Plan
from chaos.model.records import Aborted, State
from chaos.safety.lease import AbortFlag
from fixtures.cluster.access import Right
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.policy.allowlist import another_cluster
from fixtures.verdict.record import TargetKind

_current: "ContextVar[ActivityContext]" = ContextVar("acting")


class Fault:
    """One fault in the making. ``seq`` is its entry in the ledger."""

    def __init__(self, ledger: Ledger, seq: int) -> None:
        self.seq = seq
        self.landed = False
        self._ledger = ledger

    def applied(self, detail: Mapping[str, Any] | None = None) -> None:
        """The API, or the host, has confirmed the act: what was touched, and what it answered. Never anything secret."""
        self._ledger.mark(self.seq, State.APPLIED, detail)
        self.landed = True


class ActivityContext:
    """What an experiment's activities act with. ``allowed`` raises :class:`Aborted` when the Lease is not held or halted.

    ``terms`` bound what may be written down: what could not be carried out later must not be needed. ``sampled`` returns when the
    sampler has read what was there after a moment, or is overdue.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        ledger: Ledger,
        abort: AbortFlag,
        *,
        allowed: Callable[[], None],
        terms: Terms,
        proof: Proof | None = None,
        sampled: Callable[[datetime], object] = lambda since: None,
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.ledger = ledger
        self.abort = abort
        self.sampled = sampled
        self.slowest_start = 0.0  # seconds, of the experiment's own pods before the fault
        self._allowed = allowed
        self._terms = terms
        self._proof = proof
        self._reviewer = Reviewer(cluster)

    @property
    def proof(self) -> Proof:
        """The proof of what the run creates. Raises :class:`fixtures.ownership.proof.ProofRefused`."""
        if self._proof is None:
            self._proof = Proof.open(self.cluster, self.plan.run_id, prefix=CHAOS_PREFIX, renewing=False)
        return self._proof

    @property
    def reboot_command(self) -> tuple[str, ...]:
        """The policy's command that boots a machine anew. Empty where machines are simulated: a real one may have the same name."""
        return self._terms.reboot_command if self.plan.target_kind is TargetKind.LIVE else ()

    def check(self) -> None:
        """Whether anything may be done now. Raises ActivityFailed with the reason: the experiment then plays its rollbacks."""
        try:
            self.abort.check()
            if self.plan.expired():
                raise Aborted(f"the plan expired at {self.plan.expires_at}: what it armed on its targets may have undone itself")
            self._allowed()
        except Aborted as reason:
            self.abort.set(str(reason))
            raise ActivityFailed(str(reason)) from reason

    @contextmanager
    def fault(self, undo: str, args: msgspec.Struct) -> Iterator[Fault]:
        """Arm the undo, then act in the body, then say ``fault.applied(detail)``.

        Raises ActivityFailed when nothing may be done, when the ledger or its mirror cannot hold the undo (the body does not run),
        and when the body ends without :meth:`Fault.applied`: a fault that did not land is no experiment.
        """
        self.check()
        self._must_be_the_planned_cluster()
        known = REGISTRY.get(undo)
        if known is None or not isinstance(args, known.Args):
            raise ActivityFailed(f"no undo is called {undo!r} with arguments of {type(args).__name__}; nothing was done")
        if wrong := self._terms.outside(self.ledger.draft(undo, args)):
            raise ActivityFailed(f"not done, because it would not be undone: {wrong}")
        self._must_be_undoable(known, args)
        try:
            seq = self.ledger.arm(undo, args)
        except Exception as error:
            raise ActivityFailed(f"not done, because its undo could not be written down: {error}") from error
        fault = Fault(self.ledger, seq)
        yield fault
        if not fault.landed:
            raise ActivityFailed(f"{undo}: the fault was not confirmed, so it counts as not landed")

    def _must_be_the_planned_cluster(self) -> None:
        """Raises ActivityFailed when another cluster answers, which ends the experiment, or when it is not known which one does."""
        try:
            another = another_cluster(self.cluster, self.plan.cluster_uid)
        except ApiTrouble as trouble:
            raise ActivityFailed(f"not done, because it is not known which cluster answers: {trouble.message}") from trouble
        if another:
            self.abort.set(another)
            raise ActivityFailed(f"not done: {another}")

    def _must_be_undoable(self, undo: Undo, args: msgspec.Struct) -> None:
        """Whether the API server grants every right that undoing these very arguments takes. Raises ActivityFailed."""
        on_host = isinstance(undo, HostAction)
        namespace = self.plan.namespace if on_host else str(getattr(args, "namespace", ""))
        wanted = [Right.parse(text).inside(namespace) for text in undo.rights(args)]
        try:
            denied = self._reviewer.denied(wanted)
        except ApiTrouble as trouble:
            raise ActivityFailed(f"not done, because it is not known whether it may be undone: {trouble.message}") from trouble
        if denied:
            raise ActivityFailed(f"not done, because it could not be undone; missing rights: {'; '.join(map(str, denied))}")

    def restore(self, seconds: float, *, seqs: Collection[int] | None = None) -> list[Residue]:
        """Undo what is open (or the entries of ``seqs``) now: the experiment's own way of ending its faults. Returns what remains."""
        entries = None if seqs is None else [entry for entry in self.ledger.open_entries() if entry.seq in seqs]
        return replay(self.ledger, self.cluster, time.monotonic() + seconds, terms=self._terms, entries=entries)

    @contextmanager
    def as_current(self) -> "Iterator[ActivityContext]":
        """Make this the one that :func:`current` gives."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)


def current() -> ActivityContext:
    """The acting of this process. Raises ActivityFailed outside an experiment of ours: activities are no library."""
    try:
        return _current.get()
    except LookupError:
        raise ActivityFailed("this activity runs inside `gpu-conformance chaos run` or `pytest chaos --chaos` only") from None


METHOD = "method"
ROLLBACKS = "rollbacks"
GRACEFUL = 20
"""chaostoolkit's exit code for "stop the method, play the rollbacks"."""

MAX_OUTPUT = 64 << 10
"""Bytes of JSON that one activity may put into the journal."""


def perform(module: str, func: str, arguments: dict[str, Any], phase: str) -> Any:
    """Run one activity. Raises ActivityFailed for whatever it raised, SystemExit and KeyboardInterrupt in the form that rolls back."""
    acting = current()
    if phase == METHOD and acting.abort.reason:
        raise ActivityFailed(f"not done, because the experiment was aborted: {acting.abort.reason}")
    if phase == ROLLBACKS:
        _ask_once()
    try:
        return bounded_output(getattr(importlib.import_module(module), func)(**arguments))
    except (SystemExit, KeyboardInterrupt) as error:
        _ask_once()
        # chaostoolkit ends the method and plays the rollbacks for this code, however the activity tried to leave
        acting.abort.set(f"{func}: {type(error).__name__}")
        raise SystemExit(GRACEFUL) from error
    except BaseException as error:
        acting.abort.set(f"{func}: {type(error).__name__}: {error}")
        raise ActivityFailed(f"{type(error).__name__}: {error}") from error
    finally:
        signal.alarm(0)  # an alarm that an activity set must not go off in the rollbacks


def _ask_once() -> None:
    """Let nobody ask again to stop: a second signal would end the rollbacks.

    A parent with several threads asks more than once when it dies: at each thread that its child is handed on to (prctl(2),
    PR_SET_PDEATHSIG). Whoever cannot wait for the rollbacks has SIGKILL.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def wrap(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every activity called through :func:`perform`."""
    wrapped = dict(document)
    for phase in (METHOD, ROLLBACKS):
        if phase in document:
            wrapped[phase] = [_wrapped(activity, phase) for activity in document[phase]]
    if hypothesis := document.get("steady-state-hypothesis"):
        probes = [_wrapped(probe, METHOD) for probe in hypothesis.get("probes", ())]
        wrapped["steady-state-hypothesis"] = {**hypothesis, "probes": probes}
    return wrapped


def _wrapped(activity: dict[str, Any], phase: str) -> dict[str, Any]:
    provider = activity["provider"]
    arguments = {
        "module": provider["module"],
        "func": provider["func"],
        "arguments": provider.get("arguments") or {},
        "phase": phase,
    }
    return {**activity, "provider": {"type": "python", "module": __name__, "func": perform.__name__, "arguments": arguments}}


def bounded_output(output: Any) -> Any:
    """An output as JSON that does not swell the journal; what is no JSON, or too long, becomes a short text."""
    try:
        text = msgspec.json.encode(output)
    except (TypeError, ValueError, RecursionError):
        return f"(no JSON: {type(output).__name__})"
    return msgspec.json.decode(text) if len(text) <= MAX_OUTPUT else f"(left out: {len(text)} bytes of JSON)"
