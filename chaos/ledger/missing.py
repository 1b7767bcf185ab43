"""Entries that a run's proof lists and the ledger in the cluster does not hold: what became of each.

The proof is written first, then the run's file, then the ledger, and then the proof says that a read has shown the entry in the ledger.
Only then the fault is made. So a run that ends between these writes leaves an entry that its proof does not call shown, and has not made
its change. That can only be the newest of its experiment. An entry that was shown, and is not there, was taken out of the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

import msgspec

from chaos.ledger.config_maps import RunView
from chaos.model.ledger_lines import number_of_change
from fixtures.ownership.proof_record import ProofView
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
    """One of them. ``change`` is what the proof says of it (:func:`chaos.model.ledger_lines.change_of`); it may be empty.

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
