from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.background import BackgroundServer
from fixtures.simulator.server.store import Store
from tests.simulator_api.web import Web


@pytest.fixture
def background() -> Iterator[BackgroundServer]:
    with BackgroundServer(SimulatedServer(Store())) as running:
        yield running


@pytest.fixture
def web(background: BackgroundServer) -> Web:
    return Web(background.url)
