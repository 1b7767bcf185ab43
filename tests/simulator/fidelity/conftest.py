"""The real control plane that is asked: one for all files of a worker, because each leaves it without nodes.

The short ones share the group ``fidelity``; `test_fidelity.py` takes as long as they do together.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.install.release import BinariesMissing, find, minors


@pytest.fixture(scope="package")
def started() -> Iterator[Callable[[str | None], ControlPlane]]:
    """One of a minor, or of whichever there is, started when it is first asked for."""
    planes: dict[tuple[str, str], ControlPlane] = {}
    with ExitStack() as stack:

        def start(minor: str | None) -> ControlPlane:
            try:
                binaries = find(minor)
            except BinariesMissing as error:
                pytest.skip(str(error))
            key = binaries.version, binaries.source
            if key not in planes:
                planes[key] = stack.enter_context(ControlPlane.start(binaries=binaries))
            return planes[key]

        yield start


@pytest.fixture(scope="package")
def plane(started: Callable[[str | None], ControlPlane]) -> ControlPlane:
    return started(None)


@pytest.fixture(scope="package")
def newest_plane(started: Callable[[str | None], ControlPlane]) -> ControlPlane:
    """The same one, unless a folder that is named has an older minor."""
    return started(minors()[0])
