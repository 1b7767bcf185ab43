"""A whole simulated cluster in a thread of the test's process, so that a test can order faults of its API."""

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fixtures.simulator.config.defects import SUITE_USER
from fixtures.simulator.config.scenario import Defect, parse_simulate
from fixtures.simulator.process.serve import new_tokens, write_kubeconfig
from fixtures.simulator.simulated_cluster import SimulatedCluster
from tests.troubles import Trouble


@contextmanager
def simulated(folder: Path, scenario: str, *troubles: Trouble, **behaviour: object) -> Iterator[Path]:
    """The kubeconfig of a running scenario whose API has ``troubles`` for the suite once its programs are ready.

    ``behaviour`` are switches of its programs, by their names in files.
    """
    tokens = new_tokens()
    defects = [Defect(name="switches", description="", scenario=scenario, trips=[], behaviour=behaviour)] if behaviour else []
    cluster = SimulatedCluster(parse_simulate(scenario)[0], defects, tokens=tokens)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    url = asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(30)
    try:
        asyncio.run_coroutine_threadsafe(_order(cluster, troubles), loop).result(10)
        path = folder / "kubeconfig"
        write_kubeconfig(path, url, tokens)
        yield path
    finally:
        asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _order(cluster: SimulatedCluster, troubles: tuple[Trouble, ...]) -> None:
    assert cluster.server is not None
    cluster.server.troubles.extend(dataclasses.replace(trouble, user=SUITE_USER) for trouble in troubles)
