"""Probes wait together: those that do not disturb each other, and whose devices fit beside each other, run in one wave.

Most of a probe's time is the start of its pods: images are pulled and sandboxes are made. A requirement says by
``@requirement(ID, devices=N)`` that its probe may run beside others. The first of a wave runs all of them, each in a thread with a
part of the workspace, and keeps what they found until pytest comes to their tests. Pods that only hold a device serve several probes.
"""

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import pytest

from conformance.plugin.session import EVIDENCE, REQUIREMENT, SECONDS, State
from conformance.plugin.verdict import check_preconditions
from conformance.probes.node_sampling import choose_places
from fixtures.kubernetes.models import Json
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


class Shape(msgspec.Struct, frozen=True):
    """What a probe needs in a wave: units that it alone holds on a node, and pods with one unit that others may use too."""

    devices: int
    holders: int = 0


class Waves:
    """The waves of one run, in one process."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._outcomes: dict[str, Outcome] = {}
        self._alone = False

    def call(self, item: pytest.Function) -> bool:
        """Judge a requirement as part of a wave. False where it runs by itself."""
        if item.nodeid not in self._outcomes:
            members, most = self._members(item)
            if len(members) < 2:
                return False
            workspace = item.funcargs["workspace"]
            assert isinstance(workspace, Workspace)
            self._run(members, most, self._state.scope, workspace)
            if not workspace.in_time():  # what they found says nothing of the nodes: each is asked again, alone
                self._outcomes.clear()
                self._alone = True
                return False
        outcome = self._outcomes.pop(item.nodeid)
        item.stash[EVIDENCE], item.stash[SECONDS] = outcome.evidence, outcome.seconds
        if outcome.error is not None:
            raise outcome.error
        return True

    def _members(self, first: pytest.Function) -> tuple[list[pytest.Function], int]:
        """The test and those after it that fit beside it, small ones first: no place gives out more than it has free.

        And how many pods of a place they may share.
        """
        if self._alone or (shape := _shape(first)) is None or not (free := _free(self._state.scope)):
            return [first], 0
        chosen, shapes = [first], [shape]
        rest = first.session.items[first.session.items.index(first) + 1 :]
        able = [(item, one) for item in rest if isinstance(item, pytest.Function) and (one := _shape(item)) and self._is_judged(item)]
        for item, shape in sorted(able, key=lambda pair: pair[1].devices):
            if fit_beside([*shapes, shape], free):
                chosen.append(item)
                shapes.append(shape)
        return chosen, max(min(free) - sum(one.devices for one in shapes), *(one.holders for one in shapes))

    def _is_judged(self, item: pytest.Item) -> bool:
        if item.nodeid in self._outcomes:
            return False
        try:
            check_preconditions(item.stash[REQUIREMENT], self._state)
        except (NotApplicable, Inconclusive):
            return False
        return True

    def _makes(self, item: pytest.Function) -> dict[str, object]:
        return {name: self._state.once(make) for name, make in _made(item).items()}

    def _run(self, members: Sequence[pytest.Function], most: int, scope: Scope, workspace: Workspace) -> None:
        shared = Holders(workspace, most)
        parts = {item.nodeid: workspace.branch(shared) for item in members}
        self._outcomes |= {item.nodeid: Outcome(evidence=self._state.evidence(item.stash[REQUIREMENT])) for item in members}
        threads = [
            threading.Thread(
                target=_probe,
                args=(item.obj, scope, parts[item.nodeid], self._outcomes[item.nodeid], partial(self._makes, item)),
                daemon=True,
            )
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
        workspace.clear()


class Holders:
    """Pods that hold one device each for all probes of a wave: at most so many of a place."""

    def __init__(self, workspace: Workspace, most: int) -> None:
        self._workspace = workspace
        self._most = most
        self._names: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def start(self, place: str, pods: Sequence[Json]) -> list[str]:
        """Names of as many pods of a place as are given, or may be. What is missing is created under a name of the wave."""
        with self._lock:
            names = self._names.setdefault(place, [])
            for pod in pods[len(names) : self._most]:
                name = f"holder-{list(self._names).index(place)}-{len(names)}"
                names.append(self._workspace.start({**pod, "metadata": {**pod["metadata"], "name": name}}))
            return names[: len(pods)]


def fit_beside(shapes: Sequence[Shape], free: Sequence[int]) -> bool:
    """Whether probes of these shapes can run at the same time, wherever of places with so many free units they run.

    A probe that finds less free than it holds at most makes do with that.
    """
    shared = max(shape.holders for shape in shapes)
    return all(sum(min(shape.devices, room) for shape in shapes) + min(shared, room) <= room for room in free)


def _probe(
    test: Callable[..., None], scope: Scope, workspace: Workspace, outcome: Outcome, make: Callable[[], Mapping[str, object]]
) -> None:
    begun = time.monotonic()
    try:
        test(judge=outcome.evidence, scope=scope, workspace=workspace, **make())
    except BaseException as error:  # it is raised where pytest expects it, in the test's turn
        outcome.error = error
    finally:
        outcome.seconds = time.monotonic() - begun
        workspace.clear()


def _shape(item: pytest.Function) -> Shape | None:
    """What a probe needs in a wave, or None where it runs by itself."""
    mark = item.get_closest_marker("requirement")
    if mark is None or not isinstance(mark.kwargs.get("devices"), int):
        return None
    alike = inspect.signature(item.obj).parameters.keys() == _ARGUMENTS | _made(item).keys()
    return Shape(mark.kwargs["devices"], mark.kwargs["holders"]) if alike else None


def _made(item: pytest.Function) -> Mapping[str, Callable[..., object]]:
    mark = item.get_closest_marker("requirement")
    return mark.kwargs["once"] if mark is not None else {}


def _free(scope: Scope) -> list[int]:
    """Free units of the places that probes choose.

    None where there are none, where every node is asked in batches, or where devices are claimed: probes share templates of claims by
    name, and a claim outlives its pod.
    """
    if scope.policy.probes.every_node:
        return []
    try:
        places = choose_places(scope, usable_places(scope))
    except (Inconclusive, NotApplicable):
        return []
    return [] if any(place.driver for place in places) else [place.free for place in places]
