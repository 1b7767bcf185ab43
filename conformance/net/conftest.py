"""The runs that NET-05 to NET-07 judge."""

from __future__ import annotations

import pytest

from conformance.net.shared_runs import SharedRuns


@pytest.fixture(scope="session")
def shared_runs() -> SharedRuns:
    """The two-node runs of this session, started by the first requirement that asks for it."""
    return SharedRuns()
