"""Probes wait together: those that do not disturb each other, and whose devices fit beside each other, run in one wave.

Most of a probe's time is the start of its pods: images are pulled and sandboxes are made. A requirement says by
``@requirement(ID, devices=N)`` that its probe may run beside others. The first of a wave runs all of them, each in a thread with a
part of the workspace, and keeps what they found until pytest comes to their tests.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import pytest

from conformance.plugin.session import EVIDENCE, REQUIREMENT, SECONDS, State
from conformance.plugin.verdict import check_preconditions
from conformance.probes.node_sampling import choose_places
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import usable_places
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence
from fixtures.verdict.subjects import Inconclusive, NotApplicable

_ARGUMENTS = frozenset({"judge", "scope", "workspace"})
_PAUSE = 0.2
"""Seconds between looks at threads: Python delivers Ctrl-C between them."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a probe of a wave found, or why it ended."""

    evidence: Evidence
    error: BaseException | None = None
    seconds: float = 0.0


class Waves:
    """The waves of one run, in one process."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._outcomes: dict[str, Outcome] = {}

    def call(self, item: pytest.Function) -> bool:
        """Judge a requirement as part of a wave. False where it runs by itself."""
        if item.nodeid not in self._outcomes:
            members = self._members(item)
            if len(members) < 2:
                return False
            workspace = item.funcargs["workspace"]
            assert isinstance(workspace, Workspace)
            self._run(members, self._state.scope, workspace)
        outcome = self._outcomes.pop(item.nodeid)
        item.stash[EVIDENCE], item.stash[SECONDS] = outcome.evidence, outcome.seconds
        if outcome.error is not None:
            raise outcome.error
        return True

    def _members(self, first: pytest.Function) -> list[pytest.Function]:
        """The test and those after it that fit beside it: no place gives out more than it has free."""
        if _devices(first) is None or not (free := _free(self._state.scope)):
            return [first]
        chosen = [first]
        for item in first.session.items[first.session.items.index(first) + 1 :]:
            if isinstance(item, pytest.Function) and _devices(item) is not None and self._is_judged(item):
                units = [_devices(member) or 0 for member in (*chosen, item)]
                if fit_beside(units, free):
                    chosen.append(item)
        return chosen

    def _is_judged(self, item: pytest.Item) -> bool:
        if item.nodeid in self._outcomes:
            return False
        try:
            check_preconditions(item.stash[REQUIREMENT], self._state)
        except (NotApplicable, Inconclusive):
            return False
        return True

    def _run(self, members: Sequence[pytest.Function], scope: Scope, workspace: Workspace) -> None:
        parts = {item.nodeid: workspace.branch() for item in members}
        self._outcomes |= {item.nodeid: Outcome(evidence=self._state.evidence(item.stash[REQUIREMENT])) for item in members}
        threads = [
            threading.Thread(target=_probe, args=(item.obj, scope, parts[item.nodeid], self._outcomes[item.nodeid]), daemon=True)
            for item in members
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_PAUSE)
        except BaseException:  # Ctrl-C: what the threads still wait for ends with the process
            workspace.halt()
            raise
        finally:
            for item in members:
                workspace.join(part := parts[item.nodeid])
                self._state.keep_outputs(item.stash[REQUIREMENT].id, part.take_outputs())


def fit_beside(units: Sequence[int], free: Sequence[int]) -> bool:
    """Whether probes that hold so many units of a place each can run at the same time, wherever of these places they run.

    A probe that finds less free than it holds at most makes do with that.
    """
    return all(sum(min(unit, room) for unit in units) <= room for room in free)


def _probe(test: Callable[..., None], scope: Scope, workspace: Workspace, outcome: Outcome) -> None:
    begun = time.monotonic()
    try:
        test(judge=outcome.evidence, scope=scope, workspace=workspace)
    except BaseException as error:  # it is raised where pytest expects it, in the test's turn
        outcome.error = error
    finally:
        outcome.seconds = time.monotonic() - begun
        workspace.clear()


def _devices(item: pytest.Item) -> int | None:
    """How many units of a node a probe holds, or None where it runs by itself."""
    mark = item.get_closest_marker("requirement")
    found = mark.kwargs.get("devices") if mark is not None else None
    alike = isinstance(item, pytest.Function) and inspect.signature(item.obj).parameters.keys() == _ARGUMENTS
    return found if isinstance(found, int) and alike else None


def _free(scope: Scope) -> list[int]:
    """Free units of the places that probes choose.

    None where there are none, where every node is asked in batches, or where devices are claimed: probes share templates of claims by
    name, and a claim outlives its pod.
    """
    if scope.policy.probes.every_node:
        return []
    try:
        places = choose_places(scope, usable_places(scope))
    except Inconclusive:
        return []
    return [] if any(place.driver for place in places) else [place.free for place in places]
