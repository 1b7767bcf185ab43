"""What hooks and fixtures of one run share, kept in pytest's stash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conformance.catalogue import Catalogue
from conformance.needs import Needs
from conformance.plugin.opening import Opened
from conformance.plugin.options import Options
from conformance.scope import Scope
from fixtures.chaos_record import ChaosResult
from fixtures.record import Report, Result
from fixtures.snapshot import Snapshot


class State:
    """One run, in one process. Workers have their own; results travel in test reports."""

    def __init__(self, catalogue: Catalogue, options: Options, run_id: str, worker: str = "") -> None:
        self.catalogue = catalogue
        self.options = options
        self.run_id = run_id
        self.worker = worker
        self.started = time.time()
        self.results: dict[str, Result] = {}
        self.chaos: list[ChaosResult] | None = None
        self.residue: list[str] = []
        self.began = False  # whether anything was ever to be created by this process
        self.never_created: frozenset[str] = frozenset()  # kinds of which nothing is created, because it could not be removed
        self.complaints: list[str] = []
        self.left_out: dict[str, str] = {}
        """Ids that were not asked for, and the option that left them out, as it was given: ``"--only GANG"``."""
        self.planned = 0
        self.baseline: Report | None = None  # the report that this run may not be worse than
        self.report_folder: Path | None = None
        self.needs = Needs(reads={}, writes={})
        self._opened: Opened | None = None
        self._snapshot: Snapshot | None = None
        self._scope: Scope | None = None
        self.lock_file = ""

    @property
    def required(self) -> frozenset[str]:
        """Ids that must judge something, from the options and the policy."""
        return frozenset((*self.options.require, *self.opened.policy.required))

    @property
    def opened(self) -> Opened:
        """The target. Raises RuntimeError before it was opened: a mistake of the plugin's."""
        if self._opened is None:
            raise RuntimeError("the target is not open yet")
        return self._opened

    @opened.setter
    def opened(self, value: Opened) -> None:
        self._opened = value

    @property
    def is_open(self) -> bool:
        """Whether the target was opened."""
        return self._opened is not None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot. Raises RuntimeError before it was taken."""
        if self._snapshot is None:
            raise RuntimeError("the cluster was not read yet")
        return self._snapshot

    @snapshot.setter
    def snapshot(self, value: Snapshot) -> None:
        self._snapshot, self._scope = value, None

    @property
    def scope(self) -> Scope:
        """The snapshot seen through the policy. Raises RuntimeError before the cluster was read."""
        if self._scope is None:
            self._scope = Scope(self.snapshot, self.opened.policy)
        return self._scope

    @property
    def has_snapshot(self) -> bool:
        """Whether the cluster was read."""
        return self._snapshot is not None


STATE = pytest.StashKey[State]()
