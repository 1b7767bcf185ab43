"""Which tests make which tier, which of them share a worker, and how long wild inputs may take on a busy machine."""

import multiprocessing
import signal
from multiprocessing import forkserver
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from conformance.matrix.detection import LIBRARIES
from fixtures.simulator import interface as simulator
from fixtures.system.process import collect_rarely

settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")

_HERE = Path(__file__).parent
SPREAD = (
    "chaos/engine/test_api_lost.py",
    "chaos/engine/test_campaign.py",
    "chaos/engine/test_recover.py",
    "chaos/selfcheck/test_selfcheck.py",
    "cli/test_doctor.py",
    "endtoend/test_matrix.py",
    "endtoend/test_rights.py",
    "endtoend/test_runs.py",
    "endtoend/test_trouble.py",
    "simulator/localcluster/test_controlplane.py",
    "simulator/localcluster/test_gang_programs.py",
    "simulator/localcluster/test_matrix_local.py",
    "simulator/localcluster/test_rights.py",
)
"""Files whose tests take seconds each and share nothing that takes as long: any worker takes any of their tests."""


def pytest_configure(config: pytest.Config) -> None:
    """A worker starts many simulators: they are forked from the process that its runs of the suite are forked from."""
    config.addinivalue_line("markers", "test_all: takes long, so it belongs to `make test-all` and not to `make test`")
    config.addinivalue_line("markers", "real_node: starts a virtual machine, so `make test-all` runs it while nothing else runs")
    collect_rarely()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: runs that tests start would be deaf to Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        multiprocessing.set_forkserver_preload([*LIBRARIES, "tests.read_ahead"])
        forkserver.ensure_running()  # whoever forks first would have it preload what that one needs
        simulator.fork_simulators("forkserver")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests all take long is not even imported by `make test`."""
    if config.option.markexpr != "not test_all" or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.test_all\n" in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file share a worker, so that what they set up is set up once."""
    groups: dict[Path, str] = {}  # twelve thousand tests are in a few hundred files
    for item in items:
        if (group := groups.get(item.path)) is None:
            here = item.path.is_relative_to(_HERE)  # another is a requirement that came in by a name
            group = groups[item.path] = item.path.relative_to(_HERE).as_posix() if here else ""
        if group and group not in SPREAD and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """All tests live to the end: looking through them for garbage, again and again, was a tenth of what the small ones cost."""
    collect_rarely()
