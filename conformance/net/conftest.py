"""The one run that NET-05 and NET-06 judge."""

from __future__ import annotations

import pytest

from conformance.net.fabric_probe import SharedRun


@pytest.fixture(scope="session")
def shared_run() -> SharedRun:
    """The two-node run of this session, started by the first requirement that asks for it."""
    return SharedRun()
