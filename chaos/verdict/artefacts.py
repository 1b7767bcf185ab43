"""Reads the files of an experiment's folder, from which alone the verdict is computed.

=================== ======================================================================================
``experiment.json`` the document as it was run
``plan.json``       the frozen plan
``engine.json``     what the parent did: gates, signals sent, timings, residue
``ledger.jsonl``    the undo ledger
``samples.jsonl``   the sampler's lines
``journal.json``    chaostoolkit's journal
``allocations.jsonl`` the allocations as they changed (where the experiment reads them)
``before.json``, ``after.json`` conformance of the touched areas
``standing.json``   what of the GPU stack is not as it was before the fault
``verdict.json``    what :mod:`chaos.verdict.judge` made of the rest
=================== ======================================================================================
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chaos.ledger.file import parse
from chaos.model.allocations import AllocationSnapshot
from chaos.model.experiment import Experiment, ExperimentError, extension_of
from chaos.model.plan import Plan
from chaos.model.records import EngineRecord, LedgerError, Line
from chaos.observe.view import Sample
from fixtures.model.standing import Difference
from fixtures.system import private_files
from fixtures.text import typed, users_files
from fixtures.verdict.record import Verdict

T = TypeVar("T")

EXPERIMENT, PLAN, ENGINE, LEDGER, SAMPLES = "experiment.json", "plan.json", "engine.json", "ledger.jsonl", "samples.jsonl"
JOURNAL, ALLOCATIONS, BEFORE, AFTER, VERDICT = "journal.json", "allocations.jsonl", "before.json", "after.json", "verdict.json"
STANDING = "standing.json"
MAX_FILE = 512 << 20


class ArtefactError(Exception):
    """An artefact that is missing or cannot be read. ``code``: ArtefactMissing or ArtefactGarbled."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement's verdict, before or after."""

    verdict: Verdict
    message: str = ""


class Conformance(msgspec.Struct, frozen=True, kw_only=True):
    """Conformance of the experiment's areas at one moment. ``trouble`` says why it is missing."""

    at: str
    requirements: dict[str, Requirement] = {}
    trouble: str = ""


class StandingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What of the GPU stack was not as before the fault when it was compared last, of how many ``objects``. ``unread``: kinds, with why."""

    objects: int = 0
    unread: dict[str, str] = {}
    differences: tuple[Difference, ...] = ()


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The document as it was run, and where it was loaded from."""

    path: str
    document: dict[str, Any]


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """chaostoolkit's journal, as it wrote it: ``run`` and ``rollbacks`` are lists of :class:`ActivityRecord` where it came to them."""

    status: Any = None
    error: Any = None
    run: Any = None
    rollbacks: Any = None
    steady_states: Any = None


class ActivityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One activity in the journal: ``activity`` is its part of the document, ``exception`` the lines of a traceback."""

    activity: Any = None
    status: Any = None
    exception: Any = None


class Artefacts:
    """One experiment's folder. Each accessor raises :class:`ArtefactError` for what is missing or garbled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def experiment(self) -> Experiment:
        """The experiment as it was run."""
        stored = self._json(EXPERIMENT, Stored)
        try:
            return Experiment(path=stored.path, document=stored.document, extension=extension_of(stored.document))
        except ExperimentError as error:
            raise ArtefactError("ArtefactGarbled", f"{EXPERIMENT}: {error}") from None

    def plan(self) -> Plan:
        """The frozen plan."""
        return self._json(PLAN, Plan)

    def engine(self) -> EngineRecord:
        """What the parent did."""
        return self._json(ENGINE, EngineRecord)

    def journal(self) -> Journal:
        """chaostoolkit's journal."""
        return self._json(JOURNAL, Journal)

    def ledger(self) -> list[Line]:
        """Every whole line of the ledger; a torn last one allowed no act."""
        try:
            return parse(self._bytes(LEDGER), LEDGER)[0]
        except LedgerError as error:
            raise ArtefactError("ArtefactGarbled", str(error)) from None

    def samples(self) -> list[Sample]:
        """The samples in the order of time. A line cut off at the end of the file is no sample."""
        found = self._lines(SAMPLES, Sample)
        if any(later.t < earlier.t for earlier, later in pairwise(found)):
            raise ArtefactError("ArtefactGarbled", f"{SAMPLES}: the samples are not in the order of time")
        return found

    def allocations(self) -> list[AllocationSnapshot]:
        """The allocations as they changed."""
        return self._lines(ALLOCATIONS, AllocationSnapshot)

    def conformance(self, name: str) -> Conformance:
        """Conformance before or after."""
        return self._json(name, Conformance)

    def standing(self) -> StandingRecord:
        """What was not as before."""
        return self._json(STANDING, StandingRecord)

    def _bytes(self, name: str) -> bytes:
        path = self.folder / name
        try:
            if path.stat().st_size > MAX_FILE:
                raise ArtefactError("ArtefactGarbled", f"{name}: larger than {MAX_FILE >> 20} MiB")
            return users_files.read(path)
        except FileNotFoundError:
            raise ArtefactError("ArtefactMissing", f"{name} is missing") from None
        except OSError as error:
            raise ArtefactError("ArtefactMissing", f"{name}: {error.strerror or error}") from None

    def _json(self, name: str, shape: type[T]) -> T:
        try:
            return typed.decode(self._bytes(name), shape)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ArtefactError("ArtefactGarbled", f"{name}: {error}") from None

    def _lines(self, name: str, shape: type[T]) -> list[T]:
        lines = self._bytes(name).split(b"\n")
        decoder = typed.decoder(shape)
        found = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                found.append(decoder.decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ArtefactError("ArtefactGarbled", f"{name}: line {number}: {error}") from None
        return found


def write(path: Path, value: object) -> None:
    """Write JSON in one step, on disk when this returns; readable by the owner only, because clusters tell things in it."""
    private_files.replace(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
