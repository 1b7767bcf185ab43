"""Which requirements a run judges, by ``--level``, ``--only``, ``-k``, ``-m`` and paths, and which option left out the others.

Also what fails in pytest without a result: modules that cannot be imported, setups, teardowns, tests that judge no requirement.
"""

import re
import shlex
from collections.abc import Collection
from pathlib import Path

import pytest

from conformance.catalogue import Catalogue
from conformance.plugin.options import Options, left_out
from conformance.plugin.session import RESULT_ATTRIBUTE
from conformance.requirement import Requirement

WORKER_DIED = "???"
"""The phase in which pytest-xdist reports the test that a dead worker had begun."""

_PHASE = {"setup": "the setup of ", "teardown": "the teardown of ", WORKER_DIED: "the worker of "}
MAX_NAMED = 20


def selected(catalogue: Catalogue, options: Options) -> list[Requirement]:
    """The requirements that the suite's own options ask for; pytest's ``-k``, ``-m`` and paths may ask for fewer."""
    return [requirement for requirement in catalogue.by_id.values() if not left_out(requirement, options)]


def add_names(config: pytest.Config, items: Collection[pytest.Item]) -> None:
    """Make ids and areas known to ``-k`` and ``-m``: ``-k FENCE-01``, ``-m "GANG and not GANG-03"``.

    ``-k`` looks for parts of names, and ``REQ`` is a part of many. A word that is an area therefore stands for its ids (``REQ-``).
    """
    known = {line.partition(":")[0] for line in config.getini("markers")}
    areas = set()
    for item in items:
        mark = item.get_closest_marker("requirement")
        if mark is None:
            continue
        id_ = str(mark.args[0])
        area = id_.partition("-")[0]
        areas.add(area)
        for name in (id_, area):
            if name not in known:
                known.add(name)
                config.addinivalue_line("markers", f"{name}: requirement or area of the catalogue")
            item.add_marker(name)
    config.stash[_KEYWORDS] = config.option.keyword
    if areas:
        area_alone = rf"(?<!{_NAME})(?:{'|'.join(sorted(areas))})(?!{_NAME})"
        config.option.keyword = re.sub(area_alone, r"\g<0>-", config.option.keyword, flags=re.IGNORECASE)


_KEYWORDS = pytest.StashKey[str]()
"""``-k`` as it was given."""

_NAME = r"[\w:+\-.\[\]\\/]"
"""A character of a name in an expression for ``-k``."""


def deselected_by(config: pytest.Config, nodeid: str) -> str:
    """The options of pytest's that left a collected test out, as they were given."""
    option = config.option
    if any(nodeid.startswith(prefix) for prefix in getattr(option, "deselect", None) or ()):
        return "--deselect"
    expressions = (("-k", config.stash.get(_KEYWORDS, option.keyword)), ("-m", option.markexpr))
    given = [f"{flag} {shlex.quote(text.strip())}" for flag, text in expressions if text.strip()]
    return " ".join(given) or "a plugin of pytest"


def not_collected(
    config: pytest.Config, catalogue: Catalogue, options: Options, collected: Collection[str], broken: Collection[str]
) -> dict[str, str]:
    """Why each requirement without a collected test is not judged: the suite's options, else the paths that were named.

    ``broken`` are areas whose tests could not be collected: that is nobody's choice, unless an option of the suite leaves them out.
    """
    option = config.option
    ignored = [("--ignore", path) for path in option.ignore or ()] + [("--ignore-glob", glob) for glob in option.ignore_glob or ()]
    flags = " ".join(f"{flag} {shlex.quote(str(value))}" for flag, value in ignored)
    paths = f"the tests named: {shlex.join(map(str, config.args))}" + (f" ({flags})" if flags else "")
    missing = [requirement for requirement in catalogue.by_id.values() if requirement.id not in collected]
    reasons = {one.id: left_out(one, options) or (paths if one.area not in broken else "") for one in missing}
    return {id_: reason for id_, reason in reasons.items() if reason}


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
        elif report.failed and not self._is_stated(report):
            self._found[f"{_PHASE.get(str(report.when), '')}{report.nodeid} failed, and no result says so"] = None

    def _is_stated(self, report: pytest.TestReport) -> bool:
        """Whether the run tells the failure elsewhere: an experiment has a result, and what a dead worker left unjudged is a shortfall."""
        if not any(suite in self._path(report.nodeid).parents for suite in self._suites):
            return False
        if report.when == "call":
            return "::test_experiment[" in report.nodeid
        return str(report.when) == WORKER_DIED and report.nodeid not in self._concluded

    def _path(self, nodeid: str) -> Path:
        return (self._root / nodeid.partition("::")[0]).resolve()
