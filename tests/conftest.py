"""Wild inputs are judged by what they do, not by how long a busy machine takes; workers get their tests in an order of ours."""

import multiprocessing
import signal
from multiprocessing import forkserver

import pytest
from hypothesis import HealthCheck, settings

from conformance.matrix.forked_runs import LIBRARIES
from fixtures.simulator import interface as simulator
from fixtures.system.garbage import collect_rarely
from tests.scheduling import arrange

settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


def pytest_configure(config: pytest.Config) -> None:
    """A worker starts many simulators: they are forked from the process that its runs of the suite are forked from."""
    collect_rarely()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: runs that tests start would be deaf to Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        multiprocessing.set_forkserver_preload([*LIBRARIES, "tests.read_ahead"])
        forkserver.ensure_running()  # whoever forks first would have it preload what that one needs
        simulator.fork_simulators("forkserver")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``--dist loadgroup`` only: alone, tests run in the order of their files."""
    if getattr(config.option, "loadgroup", False):
        arrange(items)


def pytest_collection_finish() -> None:
    """All tests live to the end: looking through them for garbage, again and again, was a tenth of what the small ones cost."""
    collect_rarely()
