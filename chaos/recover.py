"""Putting back what runs have left, from any machine: by the cluster's copy of the ledgers, by files, or by both.

``halt`` and ``status`` are here too: what a person reaches for when something has gone wrong.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from chaos import namespaces
from chaos.holding import ChaosLease
from chaos.lease import LeaseView, halt, read_lease
from chaos.ledger import view
from chaos.ledger.file import ExperimentView, Ledger
from chaos.ledger.mirror import Mirror
from chaos.ledger.record import Entry, State
from chaos.ledger.replay import replay
from chaos.residue import Residue, residue_of
from chaos.trouble import LedgerError
from conformance.allowlist import cluster_uid
from fixtures import ownership
from fixtures.cluster import Cluster

LEDGER_NAME = "ledger.jsonl"
RECOVER_SECONDS = 600.0

__all__ = ["Recovery", "Status", "accepted_entry", "halt", "recover", "status"]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What recovering did. ``restored``: entries closed now; ``torn``: files whose last line was cut off by a crash;

    ``elsewhere``: ledgers of other clusters, left alone; ``unreadable``: what is wrong with ledgers that cannot be read, of which
    nothing is guessed; ``leftovers``: objects of the runs that are still there.
    """

    runs: tuple[str, ...] = ()
    restored: int = 0
    residue: tuple[Residue, ...] = ()
    torn: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything is known to be as it was."""
        return not self.residue and not self.unreadable and not self.leftovers


def accepted_entry(text: str) -> tuple[str, str, int]:
    """Read ``RUN/EXPERIMENT/NUMBER``. Raises ValueError for anything else."""
    run_id, _, rest = text.partition("/")
    experiment, _, number = rest.partition("/")
    if not ownership.is_run_id(run_id) or not experiment or not number.isdecimal():
        raise ValueError(f"{text!r}: expected RUN/EXPERIMENT/NUMBER, as `chaos status` names an open entry")
    return run_id, experiment, int(number)


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of one run: what a file says, and what the cluster knows."""

    run_id: str
    experiment: str
    path: Path | None = None
    known: ExperimentView | None = None


def recover(
    cluster: Cluster,
    folder: Path | None = None,
    *,
    run_id: str = "",
    seconds: float = RECOVER_SECONDS,
    accept: Collection[tuple[str, str, int]] = (),
) -> Recovery:
    """Undo and verify every open entry of the cluster's ledgers and of those under ``folder`` (or of one run), then tidy up.

    Takes the Lease first, so that no run acts meanwhile; a halt does not keep it from working, and stays. ``accept`` names entries
    (run, experiment, number) that somebody has looked at and wants as they are: they are closed without undoing. Safe to repeat.
    One ledger that cannot be read does not keep the others from being undone. Raises :class:`chaos.trouble.LeaseRefused` while a run
    is alive, :class:`LedgerError` when two files claim to be the same ledger, ApiTrouble.
    """
    deadline = time.monotonic() + seconds
    here = cluster_uid(cluster)
    files, found = _files(folder, here)
    lease = ChaosLease(cluster, f"recover-{run_id or ownership.new_run_id()}", lambda reason: None)
    lease.acquire(recovering=True)
    try:
        known, unreadable = view.readable(cluster)
        foreign = [run for run in known if any(entry.cluster_uid != here for entry in run.open_entries)]
        known = [run for run in known if run not in foreign]  # restored from another cluster's backup: its objects are not these
        found.unreadable += [f"ConfigMap {view.name_of(run.run_id)} is of another cluster; delete it by hand" for run in foreign]
        cases = [case for case in _cases(files, known) if run_id in ("", case.run_id)]
        restored, left = 0, []
        for case in cases:
            try:
                done, remaining = _recover_one(cluster, case, deadline, accept)
            except LedgerError as error:
                unreadable.append(str(error))
                continue
            restored += done
            left += remaining
        seen = [*(case.run_id for case in cases), *(run.run_id for run in known), run_id]
        runs = tuple(dict.fromkeys(run for run in seen if run and run_id in ("", run)))
        leftovers = [str(item) for run in runs if not any(r.run_id == run for r in left) for item in namespaces.remove_run(cluster, run)]
    except BaseException:
        lease.abandon()
        raise
    lease.release()
    return Recovery(
        runs=runs,
        restored=restored,
        residue=tuple(left),
        torn=tuple(found.torn),
        elsewhere=tuple(found.elsewhere),
        unreadable=(*found.unreadable, *unreadable),
        leftovers=tuple(leftovers),
    )


class _Found(msgspec.Struct):
    """What is to be said of files."""

    torn: list[str] = []
    elsewhere: list[str] = []
    unreadable: list[str] = []


def _files(folder: Path | None, here: str) -> tuple[dict[tuple[str, str], Path], _Found]:
    """Ledgers under a folder by run and experiment. Those of other clusters are left alone; empty ones say nothing."""
    files: dict[tuple[str, str], Path] = {}
    found = _Found()
    for path in sorted(folder.rglob(LEDGER_NAME)) if folder else ():
        try:
            ledger = Ledger.open(path)
        except LedgerError as error:
            found.unreadable.append(str(error))
            continue
        if ledger.torn:
            found.torn.append(str(path))
        if ledger.origin is None:
            continue
        if ledger.origin.cluster_uid != here:
            found.elsewhere.append(str(path))
            continue
        key = (ledger.origin.run_id, ledger.origin.experiment)
        if key in files:
            raise LedgerError(f"{path} and {files[key]} are both of experiment {key[1]} of run {key[0]}; expected one of them")
        files[key] = path
    return files, found


def _cases(files: dict[tuple[str, str], Path], runs: Iterable[view.RunView]) -> list[_Case]:
    """Each experiment once, newest run first."""
    known = {(run.run_id, item.experiment): item for run in runs for item in run.experiments}
    keys = sorted({*files, *known}, reverse=True)
    return [_Case(run_id=key[0], experiment=key[1], path=files.get(key), known=known.get(key)) for key in keys]


def _recover_one(cluster: Cluster, case: _Case, deadline: float, accept: Collection[tuple[str, str, int]]) -> tuple[int, list[Residue]]:
    """How many entries were closed, and what remains, of one experiment."""
    ledger = Ledger.open(case.path) if case.path else None
    if (ledger is None or not ledger.open_entries()) and not (case.known and case.known.open_entries):
        return 0, []
    try:
        mirror = Mirror.open(cluster, case.run_id, case.experiment)
    except LedgerError:
        if case.path is None:
            raise
        mirror = None  # the file is enough to undo by; that it is done is told to the file alone
    if case.path is not None:
        ledger = Ledger.open(case.path, mirror)
        if case.known is not None:
            ledger.absorb(case.known)
    else:
        if mirror is None or case.known is None:
            raise LedgerError(f"ledger of {case.experiment} of run {case.run_id}: neither a file nor a copy in the cluster")
        ledger = Ledger.in_cluster(case.known, mirror)
    return _replay(cluster, ledger, case, deadline, accept)


def _replay(
    cluster: Cluster, ledger: Ledger, case: _Case, deadline: float, accept: Collection[tuple[str, str, int]]
) -> tuple[int, list[Residue]]:
    opened = ledger.open_entries()
    for entry in opened:
        if (case.run_id, case.experiment, entry.seq) in accept:
            ledger.mark(entry.seq, State.VERIFIED, {"accepted": "as it is"})
    remaining = replay(ledger, cluster, deadline)
    return len(opened) - len(remaining), remaining


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on in a cluster: who holds the Lease since when, whether it is halted, and what is open."""

    holder: str = ""
    age_seconds: float | None = None
    expired: bool = False
    halted: str = ""
    open_entries: tuple[Entry, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """For people."""
        holder = f"held by {self.holder}" if self.holder else "nobody holds the Lease"
        if self.holder and self.age_seconds is not None:
            holder += f", renewed {self.age_seconds:.0f} s ago" + (" (expired)" if self.expired else "")
        halted = [f"halted by {self.halted}"] if self.halted else []
        return [holder, *halted, f"{len(self.open_entries)} open entries", *(f"  {residue_of(entry)}" for entry in self.open_entries)]


def status(cluster: Cluster, *, moment: datetime | None = None) -> Status:
    """Look, and touch nothing. Raises ApiTrouble, LedgerError."""
    lease: LeaseView | None = read_lease(cluster)
    runs = view.runs(cluster)
    age = lease.age(moment) if lease else None
    return Status(
        holder=lease.identity if lease else "",
        age_seconds=age.total_seconds() if age else None,
        expired=bool(lease and age and age.total_seconds() > lease.seconds),
        halted=lease.halted if lease else "",
        open_entries=tuple(entry for run in runs for entry in run.open_entries),
        runs=tuple(run.run_id for run in runs),
    )
