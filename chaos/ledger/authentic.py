"""Which ledgers count: those whose every entry is proven by an object that no tenant can write.

A tenant may make a namespace and a ConfigMap with any name, label and content. What counts is the digest of an entry in the run's own
PriorityClass (:mod:`fixtures.ownership.proof`), or in the run's own folder. Whatever else looks like a ledger is told and never
carried out, and it holds nobody up: otherwise a tenant could keep everybody from working.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from chaos.cluster import namespaces
from chaos.ledger import config_maps
from chaos.ledger.config_maps import RunView
from chaos.model.records import Entry, digest, number_of_change
from fixtures.cluster.client import Cluster
from fixtures.ownership.proof_record import CHAOS_PREFIX, ProofView
from fixtures.ownership.read_proofs import read_proofs
from fixtures.text.sentences import plain

Place = tuple[str, str, int]
"""Run, experiment and number of an entry."""


class Fate(StrEnum):
    """What became of it."""

    CLOSED = "closed"
    """The ledger has closed its number, or holds a later entry of that number because this one was refused."""

    UNMADE = "not made"
    """It has the next number of its experiment, and no read has shown it: the run ended before the ledger held it."""

    LOST = "lost"
    """The ledger must have held it."""

    UNKNOWN = "not known"
    """The cluster does not hold the ledger, or something in it is not proven, or the proof does not say which entry it is."""


class MissingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. ``change`` is what the proof says of it (:func:`chaos.model.records.change_of`); it may be empty.

    ``shown``: the proof says that the ledger has held it.
    """

    run_id: str
    digest: str
    change: str
    fate: Fate
    shown: bool = False

    @property
    def place(self) -> Place:
        """Its name; the experiment is empty where the proof does not say."""
        return (self.run_id, *number_of_change(self.change))

    def __str__(self) -> str:
        if self.fate is Fate.UNMADE:
            return plain(
                f"run {self.run_id}: entry {self.run_id}/{self.change} was announced, and the ledger does not hold it yet: the run ended "
                "before the change, which it makes only after it has read the entry in the ledger"
            )
        name = f"entry {self.run_id}/{self.change}" if self.change else f"an entry (SHA-256 {self.digest})"
        closing = " Or look at it, and close it with --accept" if self.change else ""
        return plain(
            f"run {self.run_id}: {name} is open, and the cluster no longer holds its undo: name the run's folder with --folder.{closing}"
        )

    @property
    def is_open(self) -> bool:
        """Whether its change may have been made."""
        return self.fate in (Fate.LOST, Fate.UNKNOWN)


def missing_entries(proof: ProofView, digests: Iterable[str], held: RunView | None) -> list[MissingEntry]:
    """One for each digest, of those that the run's proof lists.

    ``held`` is the run's ledger in the cluster; None if it is not there, or holds what nothing vouches for.
    """
    changes, shown = proof.changes, proof.shown
    made = ((one, changes.get(one, "")) for one in sorted(digests))
    return [
        MissingEntry(
            run_id=proof.run_id, digest=one, change=change, fate=_fate_by_cluster(change, held, shown=one in shown), shown=one in shown
        )
        for one, change in made
    ]


def with_files(
    missing: Iterable[MissingEntry], files: Mapping[tuple[str, str], Mapping[str, int]], accept: Collection[Place]
) -> list[MissingEntry]:
    """The same, with what the runs' own files know: by run and experiment, numbers of all entries by their digests.

    What a file holds is for whoever replays it. ``accept`` names those that somebody has looked at.
    """
    return [
        msgspec.structs.replace(one, fate=Fate.CLOSED if one.place in accept else _fate_by_file(one, files.get(one.place[:2])))
        for one in missing
    ]


def _fate_by_cluster(change: str, held: RunView | None, *, shown: bool) -> Fate:
    experiment, number = number_of_change(change)
    if held is None or not experiment:
        return Fate.UNKNOWN
    known = held.of(experiment)
    if shown:
        return Fate.CLOSED if number in known.closed else Fate.LOST
    fate = _fate_by_numbers(number, known.closed | {entry.seq for entry in known.open_entries})
    first = number == 1 and any(one.experiment == experiment for one in held.experiments)  # its keys come with its first entry
    return Fate.LOST if fate is Fate.UNMADE and first else fate


def _fate_by_file(one: MissingEntry, written: Mapping[str, int] | None) -> Fate:
    """A file is written before the ledger in the cluster, so it says nothing against what that one must have held: it is an old copy."""
    if written is None or (one.digest not in written and one.fate is not Fate.UNKNOWN):
        return one.fate
    if one.digest in written:
        return Fate.CLOSED
    return Fate.LOST if one.shown else _fate_by_numbers(one.place[2], set(written.values()))


def _fate_by_numbers(number: int, written: Collection[int]) -> Fate:
    """What the numbers of its experiment that were written say of one that is missing. They have no gaps."""
    if number in written:
        return Fate.CLOSED
    return Fate.UNMADE if len(written) == max(written, default=0) == number - 1 else Fate.LOST


ATTACK = "possible attack"
_TOLD = 20
"""Lines about what does not count. Whoever wrote it decides how many there would be."""


class AuthenticLedgers(msgspec.Struct, frozen=True, kw_only=True):
    """Ledgers in the cluster, sorted by what vouches for them.

    ``runs`` hold only entries that are vouched for. ``missing``: entries that a run's proof lists and whose words the cluster does not
    hold (any more); a file of the run may. ``unreadable``: what is wrong with ledgers of runs that have such entries, and with proofs.
    ``forged``: lines about what nothing vouches for, for people. ``unproven``: those of them in the namespace that only the suite and
    administrators can write to. Each may be true, and have lost its proof.
    """

    runs: tuple[RunView, ...] = ()
    missing: tuple[MissingEntry, ...] = ()
    unproven: tuple[Entry, ...] = ()
    unreadable: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    proofs: Mapping[str, ProofView] = {}
    listed: Mapping[str, frozenset[str]] = {}
    """By run whose PriorityClass is there, the entries that it lists. No other is open, whatever a file says."""

    @property
    def open_entries(self) -> list[Entry]:
        """Open entries of all runs that count."""
        return [entry for run in self.runs for entry in run.open_entries]

    def earlier(self, run_id: str = "") -> dict[str, int]:
        """How many changes of each run, ``run_id`` left out, are not known to be undone."""
        counts = Counter(entry.run_id for entry in (*self.open_entries, *self.unproven))
        counts.update(one.run_id for one in self.missing if one.fate is not Fate.CLOSED)
        return {run: count for run, count in counts.items() if run != run_id}


def read_ledgers(
    cluster: Cluster, others: Mapping[str, ProofView] | None = None, *, written: Mapping[str, frozenset[str]] | None = None
) -> AuthenticLedgers:
    """The cluster's ledgers. ``others`` are proofs from folders; ``written``, by run, digests of what its own ledger files hold.

    A closed entry of a file vouches for its copy in the cluster, which nothing else may: the run wrote both, and could not close the copy.

    Raises ApiTrouble when the API does not say.
    """
    proofs = dict(read_proofs(cluster))
    listed = {run_id: proof.digests for run_id, proof in proofs.items() if proof.has_class(CHAOS_PREFIX)}
    why = "another version of the suite may have written it, and the run may be alive; nothing of it is touched"
    strange_proofs = [
        plain(f"PriorityClass {name}: this version of the suite cannot read the proof of run {run_id}: {why}")
        for run_id, proof in proofs.items()
        if (name := unreadable_class(proof))
    ]
    for run_id, proof in (others or {}).items():
        proofs[run_id] = proofs[run_id].merged(proof) if run_id in proofs else proof
    space = namespaces.find_shared(cluster)
    found, unreadable = config_maps.readable_runs(cluster, space) if space else ([], {})
    runs, forged, vouched = [], [], {run_id: proof.digests for run_id, proof in proofs.items() if proof.digests}
    theirs, garbage, strange = _strange(cluster, {run.run_id for run in found}, vouched)
    unwritten = dict(vouched)
    whole: dict[str, RunView] = {}
    unproven: list[Entry] = []
    for run in [*found, *theirs]:
        counted, strangers = _counted(run, vouched.get(run.run_id, frozenset()) | (written or {}).get(run.run_id, frozenset()))
        runs.append(counted)
        forged += [_forged_words(entry, ours=run in found) for entry in strangers]
        if run in found:
            unproven += strangers
            whole |= {run.run_id: run} if not strangers else {}
        unwritten[run.run_id] = unwritten.get(run.run_id, frozenset()) - {digest(entry) for entry in counted.open_entries}
    missing = [
        one for run_id, digests in unwritten.items() if digests for one in missing_entries(proofs[run_id], digests, whole.get(run_id))
    ]
    garbled = {run_id: text for run_id, text in unreadable.items() if run_id in vouched}
    garbage += [text for run_id, text in unreadable.items() if run_id not in garbled]
    forged = [*strange, *forged, *(f"{ATTACK}: {plain(text)[:400]}; nothing vouches for it" for text in garbage)]
    return AuthenticLedgers(
        runs=tuple(runs),
        missing=tuple(missing),
        unproven=tuple(unproven),
        unreadable=(*strange_proofs, *garbled.values()),
        forged=_first(forged),
        proofs=proofs,
        listed=listed,
    )


def unreadable_class(proof: ProofView | None) -> str:
    """Name of a run's own class of chaos whose record cannot be read; empty where there is none."""
    own = f"{CHAOS_PREFIX}-{proof.run_id}" if proof is not None else ""
    return own if proof is not None and own in proof.unreadable else ""


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _TOLD
    return (*lines[:_TOLD], f"{ATTACK}: {more} more that nothing vouches for") if more > 0 else tuple(lines)


def _strange(cluster: Cluster, known: Collection[str], vouched: Collection[str]) -> tuple[list[RunView], list[str], list[str]]:
    """What a namespace of the usual name holds that is not proven to be ours: ledgers, what cannot be read, and lines about itself.

    A true entry is true wherever it is kept. What is missing there says nothing, and its own word for what is closed neither.
    """
    warning = namespaces.foreign_namespace(cluster)
    if not warning:
        return [], [], []
    theirs, garbage = config_maps.foreign_config_maps(cluster, namespaces.SHARED, {*vouched} - {*known})
    runs = [
        msgspec.structs.replace(run, experiments=tuple(msgspec.structs.replace(one, closed=frozenset()) for one in run.experiments))
        for run in theirs
        if run.run_id not in known
    ]
    return runs, list(garbage.values()), [f"{ATTACK}: {warning}" if theirs or garbage else warning]


def _counted(run: RunView, vouched: frozenset[str]) -> tuple[RunView, list[Entry]]:
    """The run with the entries that are vouched for alone, and the others."""
    kept, strangers = [], []
    for known in run.experiments:
        good = {entry.seq for entry in known.open_entries if digest(entry) in vouched}
        strangers += [entry for entry in known.open_entries if entry.seq not in good]
        kept.append(msgspec.structs.replace(known, lines=tuple(line for line in known.lines if line.seq in good)))
    return msgspec.structs.replace(run, experiments=tuple(kept)), strangers


def _forged_words(entry: Entry, *, ours: bool) -> str:
    name = f"entry {entry.run_id}/{entry.experiment}/{entry.seq} ({entry.undo})"
    what = f"{ATTACK}, or a true entry that has lost its proof" if ours else ATTACK
    return plain(f"{what}: {name}: nothing that tenants cannot write vouches for it; it is not carried out")[:400]
