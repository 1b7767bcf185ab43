from collections.abc import Iterator

import pytest

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import Web, widget_definition


@pytest.fixture
def background() -> Iterator[BackgroundServer]:
    store = Store()
    store.put_initial(widget_definition())
    with BackgroundServer(SimulatedServer(store)) as running:
        yield running


@pytest.fixture
def web(background: BackgroundServer) -> Web:
    return Web(background.url)
