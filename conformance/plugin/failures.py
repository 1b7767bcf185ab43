"""What pytest saw fail and no result tells of: modules that cannot be imported, setups, teardowns, tests that judge no requirement."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from conformance.plugin.session import RESULT_ATTRIBUTE

WORKER_DIED = "???"
"""The phase in which pytest-xdist reports the test that a dead worker had begun."""

_PHASE = {"setup": "the setup of ", "teardown": "the teardown of ", WORKER_DIED: "the worker of "}
MAX_NAMED = 20


class Failures:
    """A plugin of one run. With workers the main process hears their reports, too."""

    def __init__(self, root: Path, suites: Collection[Path]) -> None:
        self._root = root
        self._suites = suites
        self._concluded: set[str] = set()
        self._uncollected: set[Path] = set()
        self._found: dict[str, None] = {}

    @property
    def sentences(self) -> list[str]:
        """What failed, a sentence each: the first of many."""
        found = list(self._found)
        more = len(found) - MAX_NAMED
        return [*found[:MAX_NAMED], f"{more} more failures come without a result"] if more > 0 else found

    def hit(self, folder: Path) -> bool:
        """Whether a module of the folder could not be collected, or what it is in."""
        return any(path == folder or folder in path.parents or path in folder.parents for path in self._uncollected)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            self._uncollected.add(self._path(report.nodeid))
            self._found[f"{report.nodeid or 'the folder of the tests'} could not be collected"] = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure that comes without a result."""
        if hasattr(report, RESULT_ATTRIBUTE):
            self._concluded.add(report.nodeid)
        elif report.failed and not self._is_told(report):
            self._found[f"{_PHASE.get(str(report.when), '')}{report.nodeid} failed, and no result says so"] = None

    def _is_told(self, report: pytest.TestReport) -> bool:
        """Whether the run tells the failure elsewhere: an experiment has a result, and what a dead worker left unjudged is a shortfall."""
        if not any(suite in self._path(report.nodeid).parents for suite in self._suites):
            return False
        if report.when == "call":
            return "::test_experiment[" in report.nodeid
        return str(report.when) == WORKER_DIED and report.nodeid not in self._concluded

    def _path(self, nodeid: str) -> Path:
        return (self._root / nodeid.partition("::")[0]).resolve()
