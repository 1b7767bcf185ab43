"""A plugin for ``-p``: what else may fail beside requirements in a run, as ``GPU_CONFORMANCE_TEST_MEDDLING`` names it."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from fixtures.verdict.findings import Evidence, bad
from fixtures.verdict.subjects import Inconclusive, Subject

MEDDLING = os.environ.get("GPU_CONFORMANCE_TEST_MEDDLING", "").split(",")
TRIED = pytest.StashKey[bool]()


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    if "teardown" in MEDDLING:
        raise OSError("the end of a fixture")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path) -> None:
    if "import" in MEDDLING and module_path.name == "test_fence.py":
        raise pytest.Collector.CollectError("no module named x")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    done = yield
    if "undecided" in MEDDLING and "REQ-06" in pyfuncitem.keywords:
        raise Inconclusive("Timeout", "no answer came in time")
    if "flaky" in MEDDLING and TRIED not in pyfuncitem.stash:
        pyfuncitem.stash[TRIED] = True
        judge = pyfuncitem.funcargs["judge"]
        assert isinstance(judge, Evidence)
        judge(bad(Subject("Node", "gpu-9"), cause="NodeNotFenced", observed="a device given twice", expected="once", source="probe"))
    return done


class Instead:
    """Takes the place of a test's function, as plugins do that only show what would be run."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        return True if "FENCE-01" in pyfuncitem.keywords else None


def pytest_collection_finish(session: pytest.Session) -> None:
    if "instead" in MEDDLING:
        session.config.pluginmanager.register(Instead())  # the last one to come is the first to be called


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """As pytest-rerunfailures tries a test again that failed."""
    if "flaky" not in MEDDLING:
        return None
    for left in (1, 0):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        again = left and any(report.failed for report in reports)
        for report in reports:
            if report.failed and again:
                report.outcome = "rerun"  # type: ignore[assignment]
            item.ihook.pytest_runtest_logreport(report=report)
        if not again:
            return True
        item._initrequest()  # type: ignore[attr-defined]
    return True
