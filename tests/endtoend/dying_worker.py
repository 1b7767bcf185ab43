"""A plugin for ``-p``: workers are killed, as the kernel kills for memory. The one that is to judge FENCE-03, or all where DIES says so."""

import os
import signal

import pytest

_ALL = os.environ.get("DIES", "")


def _die(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if _ALL == "at the start":
        _die(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    if _ALL == "with its tests":
        _die(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    mark = item.get_closest_marker("requirement")
    if not _ALL and mark is not None and mark.args[0] == "FENCE-03":
        _die(item.config)
