"""``chaos recover``: undoes what runs have left, from any machine, by the cluster's copy of the ledgers, by files, or by both.

``halt`` and ``status`` are here too: what a person reaches for when something has gone wrong.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from chaos.cluster import namespaces
from chaos.cluster.requests import until_gone
from chaos.ledger import authentic, config_maps
from chaos.ledger.authentic import Fate, Place, with_files
from chaos.ledger.bounds import Terms
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import ExperimentView, Ledger
from chaos.ledger.replay import FLUSH_SECONDS, Reason, Residue, entry_words, replay, residue_of
from chaos.model.plan import Plan
from chaos.model.records import Entry, LedgerError, Origin, State, digest
from chaos.observe.view import View
from chaos.safety.lease import LeaseView, halt, read_lease
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.verdict.artefacts import LEDGER, PLAN
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.platform.installed import standing_of
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, SURELY, ProofView
from fixtures.ownership.read_proofs import find_leftovers, living, read_folder, read_proofs
from fixtures.policy.allowlist import cluster_uid
from fixtures.system import private_files
from fixtures.system.file_search import find_files
from fixtures.text import typed
from fixtures.text.sentences import plain

_CLUSTER_POLICY = KINDS["nvidia.com/clusterpolicies"].kind


def shown_by(cluster: Cluster, terms: Terms, *, vouched: frozenset[str], unproven: Collection[str]) -> Terms:
    """The terms with what the cluster shows. ``vouched``: digests that proofs list; ``unproven``: runs that the cluster holds no proof of.

    Without any of those the cluster is not read. What cannot be read shows nothing.
    """
    reach = msgspec.structs.replace(terms.reach, vouched=vouched)
    if unproven:
        standing = standing_of(View.of(cluster), reach.tenants, whole=False)
        reach = msgspec.structs.replace(reach, standing=standing, operators=standing.homes_of(_CLUSTER_POLICY))
    return msgspec.structs.replace(terms, reach=reach)


LEAVE_SECONDS = 60.0
"""For how long recovering tries to leave nothing of itself."""


RECOVER_SECONDS = 600.0
MAX_PLAN = 8 << 20
_UNPROVEN = (
    f"its run's proof does not list it: the proof has lost it, or it is a {authentic.ATTACK}; look at it, then close it with --accept"
)

__all__ = ["RECOVER_SECONDS", "RecoveryResult", "Status", "accepted_entry", "end_halt", "halt", "recover", "status"]


class RecoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What recovering did.

    ``restored``: entries closed now; ``torn``: files whose last line was cut off by a crash; ``unmade``: changes that a run announced, and
    ended before it made them;
    ``elsewhere``: ledgers of other clusters, left alone; ``unreadable``: what is wrong with ledgers that cannot be read, of which
    nothing is guessed; ``leftovers``: objects of the runs that are still there; ``forged``: what looks like a ledger and nothing
    vouches for, which was not carried out.
    """

    runs: tuple[str, ...] = ()
    restored: int = 0
    residue: tuple[Residue, ...] = ()
    torn: tuple[str, ...] = ()
    unmade: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything is known to be as it was."""
        return not self.residue and not self.unreadable and not self.leftovers


def accepted_entry(text: str) -> tuple[str, str, int]:
    """Read ``RUN/EXPERIMENT/NUMBER``. Raises ValueError for anything else."""
    run_id, _, rest = text.partition("/")
    experiment, _, number = rest.partition("/")
    if not namespaces.is_run(run_id) or not experiment or not number.isdecimal():
        raise ValueError(f"{text!r}: expected RUN/EXPERIMENT/NUMBER, as `chaos status` names an open entry")
    return run_id, experiment, int(number)


class _LedgerCopies(msgspec.Struct, frozen=True, kw_only=True):
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
    terms: Terms,
    seconds: float = RECOVER_SECONDS,
    accept: Collection[tuple[str, str, int]] = (),
) -> RecoveryResult:
    """Undo and verify every open entry of the cluster's ledgers and of those under ``folder`` (or of one run), then tidy up.

    Takes the Lease first, so that no run acts meanwhile; a halt does not keep it from working, and stays. ``accept`` names entries
    (run, experiment, number) that somebody has looked at and wants as they are: they are closed without undoing. Safe to repeat.
    An entry that is not within ``terms`` is not carried out. One ledger that cannot be read does not keep the others from being undone.

    Raises :class:`chaos.model.records.LeaseRefused` while a run is alive, :class:`LedgerError` when two files claim to be the same ledger,
    ApiTrouble.
    """
    deadline = time.monotonic() + seconds
    files = _Files.under(folder, cluster_uid(cluster))
    lease = LeaseKeeper(cluster, f"recover-{run_id or owned.new_run_id()}", lambda reason: None, administrators=terms.administrators)
    perhaps = f"perhaps Lease and namespace {namespaces.SHARED}"
    try:
        lease.acquire(recovering=True)
    except ApiTrouble as trouble:
        behind = until_gone(lease.withdraw, LEAVE_SECONDS, perhaps)
        raise ApiTrouble(trouble.code, "; left behind: ".join((trouble.message, *behind))) from trouble
    try:
        look = _Look(cluster, files, run_id, terms, accept)
        unreadable = [
            *files.unreadable,
            *(f"ConfigMap {config_maps.config_map_name(run)} is of another cluster; delete it by hand" for run in look.foreign),
            *look.ledgers.unreadable,
        ]
        books = look.books
        restored, left, broken = 0, [], set()
        replayed: list[Ledger] = []
        for copies in look.copies:
            try:
                ledger, done, remaining = _recover_one(cluster, copies, deadline, accept, books, look.terms)
            except LedgerError as error:
                unreadable.append(str(error))
                broken.add(copies.run_id)
                continue
            replayed += [ledger] if ledger is not None else []
            restored += done
            left += remaining
        unreadable += _close_accepted(cluster, [entry for entry in look.unproven if _place(entry) in accept])
        left += look.unproven_residue
        lost = [one for one in look.missing if one.is_open]
        unreadable += map(str, lost)
        ended = [run for run in books.ended(run_id) if run not in {one.run_id for one in lost}]
        ended += [one.run_id for one in look.missing if one not in lost]
        seen = [*(copies.run_id for copies in look.copies), *(run.run_id for run in look.known), *ended, *books.named(run_id)]
        runs = tuple(dict.fromkeys(run for run in seen if run_id in ("", run)))
        clean = [run for run in runs if run not in broken and not any(one.run_id == run for one in left)]
        leftovers = [str(item) for run in filter(books.know, clean) for item in namespaces.remove_run(cluster, run)]
    except BaseException:
        lease.abandon()
        raise

    def leave() -> list[str]:
        """Close ledgers and proofs and let go, whatever an earlier call was told; what the cluster still shows of them."""
        for ledger in replayed:  # all that they told to undo has been tried by now
            ledger.flush(time.monotonic() + FLUSH_SECONDS)
        unwritten = {run: {one.digest for one in look.missing if one.run_id == run and one not in lost} for run in clean}
        classes = [line for run in clean for line in books.close(run, unwritten[run]) if run not in {one.run_id for one in lost}]
        put_back = {copies.run_id for copies in look.copies}.intersection(clean)
        return [*classes, *lease.release(), *_still_open(cluster, put_back)]

    leftovers += until_gone(leave, LEAVE_SECONDS, perhaps)
    found = look.result(residue=left, unreadable=unreadable)
    return msgspec.structs.replace(found, runs=runs, restored=restored, leftovers=tuple(leftovers))


def _place(entry: Entry) -> Place:
    return (entry.run_id, entry.experiment, entry.seq)


def _close_accepted(cluster: Cluster, entries: Iterable[Entry]) -> list[str]:
    """Close entries in the cluster's copy that nothing vouches for, and that somebody has looked at; what could not be closed."""
    left = []
    for entry in entries:
        try:
            Mirror.open(cluster, entry.run_id, entry.experiment).agree({entry.seq})
        except LedgerError as error:
            left.append(f"entry {entry.run_id}/{entry.experiment}/{entry.seq} was not closed: {error}")
    return left


def preview(
    cluster: Cluster,
    folder: Path | None = None,
    *,
    run_id: str = "",
    terms: Terms,
    accept: Collection[tuple[str, str, int]] = (),
) -> tuple[list[str], RecoveryResult]:
    """What :func:`recover` would do, a line each, and what there is to say where that is nothing. Touches nothing. Raises as it does."""
    files = _Files.under(folder, cluster_uid(cluster))
    look = _Look(cluster, files, run_id, terms, accept)
    lines, books = [], look.books
    for copies in look.copies:
        opened = {entry.seq: entry for entry in (copies.known.open_entries if copies.known else ())}
        if copies.path is not None:
            book = Ledger.open(copies.path)
            lines += [f"close in the cluster's copy: {entry_words(opened.pop(seq))}" for seq in sorted(opened.keys() & book.closed)]
            opened |= {entry.seq: entry for entry in book.open_entries()}
        lines += [_would(entry, accept, _planned(look.terms, copies), books) for _, entry in sorted(opened.items(), reverse=True)]
    runs = dict.fromkeys([*(copies.run_id for copies in look.copies), *books.ended(run_id), *books.named(run_id)])
    for run in filter(books.know, filter(lambda run: run_id in ("", run), runs)):
        left = find_leftovers(cluster, look.ledgers.proofs, run)
        lines += [f"delete {item}" for item in (*left.objects, *left.classes)]
    lines += _shared_lines(cluster)
    lines += [f"close as it is: {entry_words(entry)}" for entry in look.unproven if _place(entry) in accept]
    lines += [f"close as it is: entry {one.run_id}/{plain(one.change)}" for one in look.missing if one.place in accept]
    unreadable = [*files.unreadable, *look.ledgers.unreadable, *(str(one) for one in look.missing if one.is_open)]
    return lines, look.result(residue=look.unproven_residue, unreadable=unreadable)


def end_halt(cluster: Cluster) -> list[str]:
    """Lift a halt, and remove what it alone kept: Lease and namespace that nobody needs. What is left of those. Raises ApiTrouble."""
    halt(cluster, on=False)
    lease = LeaseKeeper(cluster, f"halt-{owned.new_run_id()}", lambda reason: None)
    return until_gone(lease.release, LEAVE_SECONDS, f"perhaps Lease and namespace {namespaces.SHARED}")


def _shared_lines(cluster: Cluster) -> list[str]:
    """A line about what runs share, where nobody holds it and nobody wants it to stay. Raises ApiTrouble."""
    if not namespaces.has_anchor(cluster):
        return []
    lease = read_lease(cluster)
    if lease is not None and (lease.halted or lease.held()):
        return []
    return ["delete Lease and namespace that runs share, and their proof, unless a ledger in them has open entries"]


def _would(entry: Entry, accept: Collection[tuple[str, str, int]], terms: Terms, books: "_Proofs") -> str:
    if (entry.run_id, entry.experiment, entry.seq) in accept:
        return f"close as it is: {entry_words(entry)}"
    if wrong := books.unlisted(entry) or terms.outside(entry):
        return plain(f"leave, and tell: entry {entry.run_id}/{entry.experiment}/{entry.seq} ({entry.undo}): {wrong}")
    return f"put back: {entry_words(entry)}"


class _Proofs:
    """Proofs of the runs that are recovered, in their place."""

    def __init__(self, cluster: Cluster, views: Mapping[str, ProofView], listed: Mapping[str, frozenset[str]]) -> None:
        self._cluster = cluster
        self._views = views
        self._listed = listed
        self._proofs: dict[str, Proof] = {}

    def ended(self, run_id: str) -> list[str]:
        """Runs of chaos, or this one, that are known to have ended. Others are watched, where only that tells. Raises ApiTrouble."""
        known = [view for one, view in self._views.items() if self.named(one) and one != namespaces.SHARING and run_id in ("", one)]
        alive = living(self._cluster, known)
        return [view.run_id for view in known if view.run_id not in alive]

    def named(self, run_id: str) -> list[str]:
        """The run, if the cluster knows it as one of chaos. One that judges is for ``cleanup``: no Lease says whether it lives."""
        view = self._views.get(run_id)
        return [run_id] if view is not None and view.has_class(CHAOS_PREFIX) else []

    def know(self, run_id: str) -> bool:
        """Whether the cluster knows the run as one of chaos by now. A file may name any run, one that judges and is alive among them."""
        self._views = {**self._views, **read_proofs(self._cluster, run_id)}
        return bool(self.named(run_id))

    def of(self, run_id: str) -> Proof | None:
        """The proof of a run; None when the cluster holds none. Raises ApiTrouble."""
        view = self._views.get(run_id)
        if run_id not in self._proofs and view is not None and view.has_class(CHAOS_PREFIX):
            self._proofs[run_id] = Proof.open(self._cluster, run_id, prefix=CHAOS_PREFIX, renewing=False)
        return self._proofs.get(run_id)

    def unlisted(self, entry: Entry) -> str:
        """Why an entry is not carried out although a file holds it: whoever unpacks a report owns it, and anybody may have written it."""
        if name := authentic.unreadable_class(self._views.get(entry.run_id)):
            return f"PriorityClass {name} of its run cannot be read, and may list it or not"
        listed = self._listed.get(entry.run_id)
        if listed is None or digest(entry) in listed:
            return ""
        name = f"{CHAOS_PREFIX}-{entry.run_id}"
        return f"PriorityClass {name} of its run does not list it: it is closed, or a {authentic.ATTACK}"

    def keep(self, run_id: str, opened: Iterable[Entry]) -> None:
        """Vouch for what stays open where the run's proof was gone, and was made anew for an undo: without a proof, files count."""
        if run_id not in self._listed and (proof := self._again(run_id)) is not None:
            for entry in opened:
                proof.vouch(digest(entry))

    def _again(self, run_id: str) -> Proof | None:
        """As :meth:`of`, with what the cluster shows by now: a proof may have been made for an undo."""
        return self.of(run_id) if self.know(run_id) else None

    def close(self, run_id: str, unwritten: Collection[str]) -> list[str]:
        """Forget entries that are closed, or never allowed an act, and remove the proof when it is empty; what is left of it, or may be."""
        try:
            if (proof := self._again(run_id)) is None:
                return []
            proof.forget(unwritten)
            return proof.leave()
        except ApiTrouble as trouble:
            return [f"perhaps PriorityClass {CHAOS_PREFIX}-{run_id}: {trouble.message}"]


class _Files(msgspec.Struct, kw_only=True):
    """Ledgers under a folder by run and experiment, proofs that lie there, and what is to be said of files.

    ``earlier``: those of turns before the last one, of an experiment that its run carried out several times. All of it is closed.
    """

    ledgers: dict[tuple[str, str], Path] = {}
    earlier: dict[tuple[str, str], list[Path]] = {}
    proofs: Mapping[str, ProofView] = {}
    torn: list[str] = []
    elsewhere: list[str] = []
    unreadable: list[str] = []

    @classmethod
    def under(cls, folder: Path | None, here: str) -> "_Files":
        """Those of other clusters than ``here`` are left alone; empty ones say nothing. Raises LedgerError for two of one experiment."""
        if folder is None:
            return cls()
        paths, unread = find_files(folder, LEDGER)
        proofs, wrong = read_folder(folder)
        found = cls(proofs=proofs, unreadable=unread)
        for path in paths:
            try:
                ledger = Ledger.open(path)
            except LedgerError as error:
                found.unreadable.append(str(error))
                continue
            if ledger.torn:
                found.torn.append(str(path))
            if ledger.origin is not None:
                found._take(path, ledger.origin, here)
        found.unreadable += [line for line in wrong if line not in found.unreadable]
        return found

    def _take(self, path: Path, origin: Origin, here: str) -> None:
        key = (origin.run_id, origin.experiment)
        if not namespaces.is_run(origin.run_id):
            self.unreadable.append(f"{path}: {plain(origin.run_id)[:100]!r} is not the id of a run")
        elif origin.cluster_uid != here:
            self.elsewhere.append(str(path))
        elif key in self.ledgers and (last := self._last_turn(path, self.ledgers[key])) is not None:
            self.earlier.setdefault(key, []).append(path if last == self.ledgers[key] else self.ledgers[key])
            self.ledgers[key] = last
        elif key in self.ledgers:
            raise LedgerError(f"{path} and {self.ledgers[key]} are both of experiment {key[1]} of run {key[0]}; expected one of them")
        else:
            self.ledgers[key] = path

    @staticmethod
    def _last_turn(one: Path, other: Path) -> Path | None:
        """The later of two ledgers whose numbers follow each other, where the earlier one is closed; None for two of one turn."""
        numbers = {path: [entry.seq for entry in Ledger.open(path).entries()] for path in (one, other)}
        early, late = sorted(numbers, key=lambda path: numbers[path])
        return late if numbers[early][-1] < numbers[late][0] and not Ledger.open(early).open_entries() else None


class _Look:
    """What the cluster and the files hold of runs, or of one: read once, nothing is touched. Raises ApiTrouble, LedgerError."""

    def __init__(self, cluster: Cluster, files: _Files, run_id: str, terms: Terms, accept: Collection[Place]) -> None:
        entries = {
            place: [entry for one in (*files.earlier.get(place, ()), path) for entry in Ledger.open(one).entries()]
            for place, path in files.ledgers.items()
        }
        written = {place: {digest(entry): entry.seq for entry in those} for place, those in entries.items()}
        by_run: dict[str, frozenset[str]] = {}
        for (run, _), digests in written.items():
            by_run[run] = by_run.get(run, frozenset()) | frozenset(digests)
        self.ledgers = authentic.read_ledgers(cluster, files.proofs, written=by_run)
        here = cluster_uid(cluster)
        self.known = [run for run in self.ledgers.runs if all(entry.cluster_uid == here for entry in run.open_entries)]
        self.foreign = [run.run_id for run in self.ledgers.runs if run not in self.known]  # of another cluster's backup: not these objects
        known = {(run.run_id, item.experiment): item for run in self.known for item in run.experiments}
        self.copies = [  # each experiment once, newest run first
            _LedgerCopies(run_id=key[0], experiment=key[1], path=files.ledgers.get(key), known=known.get(key))
            for key in sorted({*files.ledgers, *known}, reverse=True)
            if run_id in ("", key[0])
        ]
        self.books = _Proofs(cluster, self.ledgers.proofs, self.ledgers.listed)
        vouched = frozenset(one for listed in self.ledgers.listed.values() for one in listed)
        unproven_runs = {copies.run_id for copies in self.copies} - self.ledgers.listed.keys()
        self.terms = shown_by(cluster, terms, vouched=vouched, unproven=unproven_runs)
        unproven = [one for one in self.ledgers.unproven if run_id in ("", one.run_id)]
        self.unproven = [one for one in unproven if (one.run_id, one.experiment) not in files.ledgers]  # else their file decides
        self.unproven_residue = [residue_of(one, Reason.UNPROVEN, _UNPROVEN) for one in self.unproven if _place(one) not in accept]
        self.missing = with_files((one for one in self.ledgers.missing if run_id in ("", one.run_id)), written, accept)
        self._files = files

    def result(self, *, residue: Iterable[Residue], unreadable: Iterable[str]) -> RecoveryResult:
        """What there is to say before anything is put back."""
        return RecoveryResult(
            residue=tuple(residue),
            torn=tuple(self._files.torn),
            unmade=tuple(str(one) for one in self.missing if one.fate is Fate.UNMADE),
            elsewhere=tuple(self._files.elsewhere),
            unreadable=tuple(unreadable),
            forged=self.ledgers.forged,
        )


def _recover_one(
    cluster: Cluster, copies: _LedgerCopies, deadline: float, accept: Collection[tuple[str, str, int]], proofs: _Proofs, terms: Terms
) -> tuple[Ledger | None, int, list[Residue]]:
    """The ledger of one experiment if it had open entries, how many of them were closed, and what remains."""
    ledger = Ledger.open(copies.path) if copies.path else None
    if (ledger is None or not ledger.open_entries()) and not (copies.known and copies.known.open_entries):
        return None, 0, []
    try:
        mirror = Mirror.open(cluster, copies.run_id, copies.experiment)
    except LedgerError:
        mirror = None  # file and proof are enough to undo by, and to tell that it is done
    if copies.path is not None:
        ledger = Ledger.open(copies.path, mirror, proofs.of(copies.run_id))
        if copies.known is not None:
            ledger.absorb(copies.known)
            if {entry.seq for entry in copies.known.open_entries} & ledger.closed and mirror is not None:
                mirror.agree(ledger.closed)
    else:
        if mirror is None or copies.known is None:
            raise LedgerError(f"ledger of {copies.experiment} of run {copies.run_id}: neither a file nor a copy in the cluster")
        ledger = Ledger.in_cluster(copies.known, mirror, proofs.of(copies.run_id))
    opened = ledger.open_entries()
    for entry in opened:
        if (copies.run_id, copies.experiment, entry.seq) in accept:
            ledger.mark(entry.seq, State.VERIFIED, {"accepted": "as it is"})
    unlisted = {entry.seq: entry for entry in ledger.open_entries() if proofs.unlisted(entry)}
    listed = [entry for entry in opened if entry.seq not in unlisted]
    terms = _planned(terms, copies)
    remaining = replay(ledger, cluster, deadline, terms=terms, entries=listed)
    proofs.keep(copies.run_id, (entry for entry in ledger.open_entries() if not terms.outside(entry)))
    remaining += [residue_of(entry, Reason.UNPROVEN, proofs.unlisted(entry)) for entry in unlisted.values()]
    return ledger, len(opened) - len(remaining), remaining


def _still_open(cluster: Cluster, runs: Collection[str]) -> list[str]:
    """Ledgers in the cluster that show open entries, of runs whose changes were all put back. Raises ApiTrouble."""
    space = namespaces.find_shared(cluster)
    found = config_maps.readable_runs(cluster, space)[0] if space else []
    return [
        f"configmaps {space}/{config_maps.config_map_name(run.run_id)}: {len(run.open_entries)} entries stand open in it, "
        "although they are closed: it could not be written"
        for run in found
        if run.run_id in runs and run.open_entries
    ]


def _planned(terms: Terms, copies: _LedgerCopies) -> Terms:
    """The terms, with the nodes of the plan where the run's folder has it."""
    if copies.path is None:
        return terms
    try:
        plan = typed.decode(private_files.read_own(copies.path.with_name(PLAN), MAX_PLAN), Plan)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return terms
    return terms.planned(copies.experiment, plan.nodes) if (plan.run_id, plan.experiment) == (copies.run_id, copies.experiment) else terms


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on in a cluster: who holds the Lease since when, whether it is halted, and what is open.

    ``expired``: it was not renewed in time, or by a clock that is so far ahead that nothing tells when.

    ``lost``: lines about open entries whose words cannot be read. ``forged``: lines about entries without a proof; ``unproven``: those of
    them that may be true. Only they are an obstacle.
    """

    holder: str = ""
    age_seconds: float | None = None
    expired: bool = False
    halted: str = ""
    open_entries: tuple[Entry, ...] = ()
    lost: tuple[str, ...] = ()
    unproven: tuple[Entry, ...] = ()
    forged: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """For people."""
        holder = f"held by {self.holder}" if self.holder else "nobody holds the Lease"
        if self.holder and self.age_seconds is not None:
            ahead = self.age_seconds < 0
            holder += f", renewed {f'by a clock that is {-self.age_seconds:.0f} s ahead' if ahead else f'{self.age_seconds:.0f} s ago'}"
        if self.holder and self.expired:
            holder += " (expired)"
        halted = [f"halted by {self.halted}"] if self.halted else []
        opened = [f"{len(self.open_entries)} open entries", *(f"  {entry_words(entry)}" for entry in self.open_entries)]
        return [holder, *halted, *opened, *self.lost, *self.forged]


def status(cluster: Cluster) -> Status:
    """Look, and touch nothing. Raises ApiTrouble."""
    lease: LeaseView | None = read_lease(cluster)
    ledgers = authentic.read_ledgers(cluster)
    age = lease.age() if lease else None
    seconds = age.total_seconds() if age is not None else None
    return Status(
        holder=lease.identity if lease else "",
        age_seconds=seconds,
        expired=lease is not None and (seconds is None or not -SURELY * lease.seconds <= seconds <= lease.seconds),
        halted=lease.halted if lease else "",
        open_entries=tuple(ledgers.open_entries),
        lost=(*(str(one) for one in ledgers.missing if one.fate is not Fate.CLOSED), *ledgers.unreadable),
        unproven=ledgers.unproven,
        forged=ledgers.forged,
        runs=tuple(run.run_id for run in ledgers.runs),
    )
